# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.elastic."""

from tutti.torch.elastic import (ElasticSampler, ObjectState, TorchState,  # noqa: F401
                                 get_handler_registry, reset, run, set_handler_registry)
