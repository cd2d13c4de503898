# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.sync_batch_norm."""

from tutti.torch.sync_batch_norm import *  # noqa: F401,F403
