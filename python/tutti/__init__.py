# SPDX-License-Identifier: Apache-2.0
"""Tutti reduces and moves tensors between the ranks of a data-parallel job.

    import tutti

    with tutti.init() as job:
        job.allreduce(gradient, "average", out=gradient)

started with `tutti run -n 4 python train.py`. For PyTorch see tutti.torch.
"""

from . import _library, errors
from .context import Context, init
from .errors import TuttiError
from .handle import Handle
from .rounds import Rounds
from .store import Store

__version__ = _library.library.tutti_version().decode()
__all__ = ["Context", "Handle", "Rounds", "Store", "TuttiError", "errors", "init", "__version__"]
