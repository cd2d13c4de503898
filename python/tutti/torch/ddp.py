# SPDX-License-Identifier: Apache-2.0
"""A communication hook for torch's DistributedDataParallel.

    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    model.register_comm_hook(None, tutti.torch.ddp_hook)

DDP forms and fills its buckets; Tutti averages them. Each is started when DDP passes it to the
hook; the call for the last one waits for all, so that the thread of backward drives progress."""

import itertools
import threading
import weakref

import torch

import tutti

from . import basics, ops

_numbers = itertools.count()
_buckets = {}  # by the id of the first parameter, as long as that lives
_waiting = threading.local()


class _Bucket:
    """State of one of DDP's buckets.

    Its gradients move into memory that the ranks of this host share, where sums need no copy. With
    gradient_as_bucket_view=True they are DDP's views of its bucket: views and bucket move together,
    and DDP makes no copy either. Otherwise DDP copies every gradient into its bucket and would copy
    the sums back; sums of gradients in `flat` are in their place already. A loop that drops its
    gradients has new ones every time; then DDP's own memory is used."""

    __slots__ = ("number", "address", "flat", "places")

    def __init__(self):
        self.number, self.address = next(_numbers), 0
        self.flat = self.places = None

    def memory(self, bucket, parameters):
        """The elements to average."""
        buffer = bucket.buffer()
        if buffer.data_ptr() != self.address:  # new, or rebuilt by DDP
            for former in filter(None, (_buckets.get(id(p)) for p in parameters)):
                former.address, former.flat = 0, None
            self.address = buffer.data_ptr()
            self._move_in(buffer, parameters)
        elif self.flat is not None and not _lie_at(parameters, self.places):
            self.flat = None
        return buffer if self.flat is None else self.flat

    def _move_in(self, buffer, parameters):
        gradients = [p.grad for p in parameters]
        if not _can_move(buffer, parameters, gradients):
            return
        item = buffer.element_size()
        *starts, end = itertools.accumulate((p.numel() for p in parameters), initial=0)
        inside = sum(gradient.data_ptr() == buffer.data_ptr() + item * start
                     for gradient, start in zip(gradients, starts))
        if end != buffer.numel() or inside not in (0, len(gradients)):
            return
        try:
            flat = torch.frombuffer(basics.job().allocate(item * end), dtype=buffer.dtype)
        except tutti.TuttiError:  # no room: the sum is only slower
            return
        flat.copy_(buffer)
        with torch.no_grad():
            for gradient, start in zip(gradients, starts):
                gradient.set_(flat.as_strided(gradient.size(), gradient.stride(), start))
            if inside:
                buffer.set_(flat)
        if inside:
            self.address = flat.data_ptr()
        else:
            self.flat, self.places = flat, [gradient.data_ptr() for gradient in gradients]


def _lie_at(parameters, places):
    """Is each gradient there, and in its place?"""
    return all(p.grad is not None and p.grad.data_ptr() == place
               for p, place in zip(parameters, places))


def _can_move(buffer, parameters, gradients):
    """Can these gradients be moved to other memory, side by side?"""
    return (buffer.layout is torch.strided and buffer.is_cpu and buffer.numel() > 0 and all(
        gradient is not None and gradient.layout is torch.strided
        and gradient.dtype is buffer.dtype and not gradient.requires_grad
        and gradient.stride() == p.stride() and _is_dense(p)
        for p, gradient in zip(parameters, gradients)))


def _is_dense(p):
    """Are the elements dense in memory, in any order of the dimensions?"""
    last = sum((extent - 1) * stride for extent, stride in zip(p.size(), p.stride()))
    return p.numel() == last + 1


def _known(parameters):
    """The bucket with this first parameter. Buckets are numbered in the order in which they are
    first seen, which is the same on every rank. Several models may be in use at once."""
    first = parameters[0]
    known = _buckets.get(id(first))
    if known is None:
        known = _buckets[id(first)] = _Bucket()
        weakref.finalize(first, _buckets.pop, id(first), None).atexit = False
    return known


def _settle(pending):
    """Wait for all of them. The first error is raised here, in backward: DDP would take an
    exception in the future for a value that is not a tensor, and its text would be lost."""
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
    pending = _waiting.__dict__.setdefault("pending", [])
    future = torch.futures.Future()
    try:
        parameters = bucket.parameters()
        known = _known(parameters)
        memory = known.memory(bucket, parameters)
        handle = ops.allreduce_async_(memory, name=f"ddp.{known.number}.{memory.numel()}",
                                      op=basics.Average, process_set=process_set)
        pending.append((handle, future))
        if bucket.is_last():
            _settle(pending)
    except BaseException:  # this backward pass is over: the next one must not wait for its buckets
        pending.clear()
        raise
    return future
