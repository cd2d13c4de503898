# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.torch.elastic."""

from tutti.torch.elastic import ObjectState, State, run_fn  # noqa: F401
