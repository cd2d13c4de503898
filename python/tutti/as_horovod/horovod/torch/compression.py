# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.compression."""

from tutti.torch.compression import *  # noqa: F401,F403
