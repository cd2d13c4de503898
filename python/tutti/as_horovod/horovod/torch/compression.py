# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.torch.compression."""

from tutti.torch.compression import *  # noqa: F401,F403
