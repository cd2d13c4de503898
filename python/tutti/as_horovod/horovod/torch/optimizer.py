# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.optimizer."""

from tutti.torch.optimizer import *  # noqa: F401,F403
from tutti.torch.optimizer import _AdasumMixin as _DistributedAdasumOptimizer  # noqa: F401
from tutti.torch.optimizer import _Mixin as _DistributedOptimizer  # noqa: F401
