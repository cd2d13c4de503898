# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.torch.elastic."""

from tutti.torch.elastic import TorchState  # noqa: F401
