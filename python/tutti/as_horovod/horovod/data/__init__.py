# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.data_loader."""

from .data_loader_base import AsyncDataLoaderMixin, BaseDataLoader  # noqa: F401
