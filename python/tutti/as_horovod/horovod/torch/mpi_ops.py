# SPDX-License-Identifier: Apache-2.0
"""Where Horovod keeps its collectives."""

from tutti.torch import *  # noqa: F401,F403
from tutti.torch.basics import is_homogeneous  # noqa: F401
from tutti.torch.ops import TensorHandle  # noqa: F401
from tutti.torch.tensors import reduction as handle_average_backwards_compatibility  # noqa: F401
