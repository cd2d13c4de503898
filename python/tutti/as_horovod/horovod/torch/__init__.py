# SPDX-License-Identifier: Apache-2.0
"""horovod.torch is tutti.torch."""

from tutti.torch import *  # noqa: F401,F403
from tutti.torch import __all__  # noqa: F401

from . import elastic  # noqa: F401
