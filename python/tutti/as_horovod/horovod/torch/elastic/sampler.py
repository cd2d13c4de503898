# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.elastic."""

from tutti.torch.elastic import ElasticSampler  # noqa: F401
