# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.torch.functions."""

from tutti.torch.functions import *  # noqa: F401,F403
