# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.torch.sync_batch_norm."""

from tutti.torch.sync_batch_norm import *  # noqa: F401,F403
