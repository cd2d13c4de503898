# SPDX-License-Identifier: Apache-2.0
"""A communication hook for torch's DistributedDataParallel.

    model = torch.nn.parallel.DistributedDataParallel(model)
    model.register_comm_hook(None, tutti.torch.ddp_hook)

DDP forms and fills its buckets; Tutti averages them."""

from . import basics, ops
from .completion import completer


def ddp_hook(state, bucket):
    """Average the bucket over all ranks. `state` is a ProcessSet, or None for all ranks."""
    process_set = basics.global_process_set if state is None else state
    if not basics.is_initialized():
        basics.init()
    handle = ops.allreduce_async_(bucket.buffer(), name=f"ddp.bucket.{bucket.index()}",
                                  op=basics.Average, process_set=process_set)
    return completer.future(basics.job(), handle, lambda: ops.synchronize(handle))
