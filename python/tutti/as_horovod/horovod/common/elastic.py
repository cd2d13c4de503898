# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.elastic."""

from tutti.torch.elastic import ObjectState, State, run_fn  # noqa: F401
