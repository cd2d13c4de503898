# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.functions."""

from tutti.torch.functions import *  # noqa: F401,F403
