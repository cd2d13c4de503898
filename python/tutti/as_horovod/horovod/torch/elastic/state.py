# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.elastic."""

from tutti.torch.elastic import (LRSchedulerStateHandler, ModelStateHandler,  # noqa: F401
                                 OptimizerStateHandler, SamplerStateHandler, StateHandler,
                                 TorchState, get_handler_registry, set_handler_registry)
