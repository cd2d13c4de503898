# SPDX-License-Identifier: Apache-2.0
"""A communication hook for torch's DistributedDataParallel.

    model = torch.nn.parallel.DistributedDataParallel(model)
    model.register_comm_hook(None, tutti.torch.ddp_hook)

DDP forms and fills its buckets; Tutti averages them. They are started as they come and waited for
in the call of the last one, by the thread of backward itself: who waits drives the exchange."""

import itertools
import threading

import torch

from . import basics, ops

_numbers = itertools.count()
_waiting = threading.local()


def _name(bucket, buffer):
    """The same on every rank: the how-manieth bucket that was ever seen, by its first parameter.
    Several models may be on the way at once."""
    first = bucket.parameters()[0]
    number = getattr(first, "_tutti_bucket", None)
    if number is None:
        number = first._tutti_bucket = next(_numbers)
    return f"ddp.{number}.{buffer.numel()}"


def _settle(pending):
    """Wait for all of them. The first problem is raised here, in backward: an exception that is
    set into the future would reach DDP as a value that is no tensor, and its text would be lost."""
    problem = None
    for handle, future in pending:
        try:
            future.set_result(ops.synchronize(handle))
        except Exception as its_own:
            problem = problem or its_own
    pending.clear()
    if problem is not None:
        raise problem


def ddp_hook(state, bucket):
    """Average the bucket over all ranks. `state` is a ProcessSet, or None for all ranks."""
    process_set = basics.global_process_set if state is None else state
    if not basics.is_initialized():
        basics.init()
    buffer = bucket.buffer()
    pending = _waiting.__dict__.setdefault("pending", [])
    future = torch.futures.Future()
    try:
        handle = ops.allreduce_async_(buffer, name=_name(bucket, buffer), op=basics.Average,
                                      process_set=process_set)
        pending.append((handle, future))
        if bucket.is_last():
            _settle(pending)
    except BaseException:  # this backward pass is over: the next one must not wait for its buckets
        pending.clear()
        raise
    return future
