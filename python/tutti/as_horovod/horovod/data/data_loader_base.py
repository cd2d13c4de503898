# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.torch.data_loader."""

from tutti.torch.data_loader import AsyncDataLoaderMixin, BaseDataLoader  # noqa: F401
