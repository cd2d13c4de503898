# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.torch.elastic."""

from tutti.torch.elastic import (LRSchedulerStateHandler, ModelStateHandler,  # noqa: F401
                                 OptimizerStateHandler, SamplerStateHandler, StateHandler,
                                 TorchState, get_handler_registry, set_handler_registry)
