# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.torch.optimizer."""

from tutti.torch.optimizer import *  # noqa: F401,F403
