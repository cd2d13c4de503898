# SPDX-License-Identifier: Apache-2.0
"""Horovod's name for Tutti; see tutti.torch."""

from .runner import run

__version__ = "0.28.1"
__all__ = ["run", "__version__"]
