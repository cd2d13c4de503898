# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.data_loader."""

from tutti.torch.data_loader import AsyncDataLoaderMixin, BaseDataLoader  # noqa: F401
