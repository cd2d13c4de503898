# SPDX-License-Identifier: Apache-2.0
"""Horovod's interface for PyTorch, on Tutti.

    import tutti.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
"""

from .basics import (Adasum, Average, Max, Min, ProcessSet, Product, Sum, add_process_set,
                     ccl_built, codec_norm, codec_reset, codec_unit, counters, cross_rank,
                     cross_size, cuda_built, ddl_built, global_process_set, gloo_built,
                     gloo_enabled, init, is_homogeneous, is_initialized, local_rank, local_size,
                     mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, rank,
                     remove_process_set, rocm_built, shutdown, size, start_timeline, stop_timeline)
from .compression import Compression
from .cross_barrier import CrossBarrier
from .ddp import DDPState, ddp_hook
from . import elastic
from .exceptions import HorovodInternalError, HorovodVersionMismatchError, HostsUpdatedInterrupt
from .functions import (allgather_object, broadcast_object, broadcast_object_fn,
                        broadcast_optimizer_state, broadcast_parameters)
from .ops import (allgather, allgather_async, allreduce, allreduce_, allreduce_async,
                  allreduce_async_, alltoall, alltoall_async, barrier, broadcast, broadcast_,
                  broadcast_async, broadcast_async_, grouped_allgather, grouped_allgather_async,
                  grouped_allreduce, grouped_allreduce_, grouped_allreduce_async,
                  grouped_allreduce_async_, grouped_reducescatter, grouped_reducescatter_async,
                  join, poll, reducescatter, reducescatter_async, sparse_allreduce_async,
                  synchronize)
from .optimizer import DistributedOptimizer
from .rounds import DiLoCo, LocalSGD, PipelinedOptimizer
from .server_optimizer import ServerOptimizer
from .sync_batch_norm import SyncBatchNorm

__all__ = [name for name in dir() if not name.startswith("_")]
