# SPDX-License-Identifier: Apache-2.0
"""A communication hook for torch's DistributedDataParallel.

    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    model.register_comm_hook(None, tutti.torch.ddp_hook)

DDP forms and fills its buckets; Tutti averages them. Each is started when DDP passes it to the
hook; the call for the last one waits for all, so that the thread of backward drives progress.

DDP forms its buckets anew after the first step, so coded gradients are exchanged one by one: what a
codec loses is kept by parameter."""

import itertools
import threading
import weakref

import torch

import tutti

from . import basics, ops
from .compression import PLAIN, Codecs, Compression, add_state, take_state

_numbers = itertools.count()
_buckets = {}  # by the id of the first parameter, as long as that lives
_parameter_numbers = itertools.count()
_parameters = {}  # numbers of parameters, by id, as long as they live
_waiting = threading.local()


class DDPState:
    """The state of ddp_hook for gradients in fewer bytes, or of some ranks.

        model.register_comm_hook(hvd.DDPState(compression="int8:block=512"), hvd.ddp_hook)

    `compression` as in DistributedOptimizer; a Compressor gets each bucket as one flat tensor. A
    function of name and parameter gets names only if `named_parameters` are given, usually
    model.named_parameters(); else numbers, in the order in which DDP first passes parameters."""

    def __init__(self, process_set=None, compression=Compression.none, named_parameters=None):
        self._process_set = process_set
        self.codecs = Codecs(compression, basics.Average, "ddp_hook")
        self._names = {id(p): name for name, p in named_parameters or ()}

    @property
    def process_set(self):
        """The ranks that exchange gradients."""
        return basics.global_process_set if self._process_set is None else self._process_set

    def name_of(self, p):
        """The parameter's name, or its number."""
        return self._names.get(id(p)) or _number_of(p)

    def state_dict(self):
        """What codecs have left out so far on this rank, for its checkpoint."""
        return add_state({})

    def load_state_dict(self, state):
        """Continue from it; that of another rank is skipped, with a warning."""
        take_state(state)


def _nobody():
    return None


def _number_of(p):
    """Parameters are numbered in the order in which they are first seen, as buckets are."""
    number = _parameters.get(id(p))
    if number is None:
        number = _parameters[id(p)] = str(next(_parameter_numbers))
        weakref.finalize(p, _parameters.pop, id(p), None).atexit = False
    return number


class _Bucket:
    """State of one of DDP's buckets.

    Its gradients move into memory that the ranks of this host share, where sums need no copy. With
    gradient_as_bucket_view=True they are DDP's views of its bucket: views and bucket move together,
    and DDP makes no copy either. Otherwise DDP copies every gradient into its bucket and would copy
    the sums back; sums of gradients in `flat` are in their place already. A loop that drops its
    gradients has new ones every time; then DDP's own memory is used."""

    __slots__ = ("number", "address", "flat", "places", "state", "owner", "members", "parts")

    def __init__(self):
        self.number, self.address = next(_numbers), 0
        self.flat = self.places = None
        self.state = None  # of hooks without a DDPState
        self.owner, self.members, self.parts = _nobody, None, None  # see parts_of

    def plain_state(self, process_set):
        """The state of hooks that were registered without one."""
        if self.state is None or self.state._process_set is not process_set:
            self.state = DDPState(process_set)
        return self.state

    def parts_of(self, state, parameters, count):
        """How the bucket is exchanged: (begin, end, name, codec) of each part, in order. Coded
        gradients by themselves, what lies between them as one."""
        members = [id(p) for p in parameters]
        if self.owner() is state and members == self.members:
            return self.parts
        parts, begin = [], 0

        def add_plain(end):
            if end > begin:
                parts.append((begin, end, f"ddp.{self.number}.{count}.{begin}.{end}", PLAIN))

        at = 0
        for p in parameters:
            name = state.name_of(p)
            codec, end = state.codecs.of(name, p), at + p.numel()
            if codec != PLAIN:
                add_plain(at)
                parts.append((at, end, f"ddp.gradient.{name}", codec))
                begin = end
            at = end
        add_plain(count)
        # A weak reference: the user's function may refer to the model.
        self.owner, self.members, self.parts = weakref.ref(state), members, parts
        return parts

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
    for finish, future in pending:
        try:
            future.set_result(finish())
        except Exception as its_own:
            problem = problem or its_own
    pending.clear()
    if problem is not None:
        raise problem


def _start(state, known, memory, parameters):
    """Start the exchange of a bucket; returns a function that waits for it."""
    process_set, compressor = state.process_set, state.codecs.compressor
    scales = (basics.Average, 1.0, 1.0)
    if compressor is not Compression.none:
        smaller, context = compressor.compress(memory)
        handle = ops.start_gradient(smaller.contiguous(),
                                    f"allreduce.ddp.{known.number}.{memory.numel()}", scales,
                                    process_set, PLAIN)
        return lambda: compressor.decompress(ops.synchronize(handle), context)
    parts = known.parts_of(state, parameters, memory.numel())
    handles = [ops.start_gradient(memory if len(parts) == 1 else memory[begin:end],
                                  f"allreduce.{name}", scales, process_set, codec)
               for begin, end, name, codec in parts]

    def finish():
        problem = None
        for handle in handles:  # all, so that no memory is in use any more
            try:
                ops.synchronize(handle)
            except Exception as its_own:
                problem = problem or its_own
        if problem is not None:
            raise problem
        return memory

    return finish


def ddp_hook(state, bucket):
    """Average the bucket over all ranks. `state` is a DDPState, a ProcessSet, or None for all
    ranks."""
    if not basics.is_initialized():
        basics.init()
    pending = _waiting.__dict__.setdefault("pending", [])
    future = torch.futures.Future()
    try:
        parameters = bucket.parameters()
        known = _known(parameters)
        memory = known.memory(bucket, parameters)
        if not isinstance(state, DDPState):
            state = known.plain_state(state)
        pending.append((_start(state, known, memory, parameters), future))
        if bucket.is_last():
            _settle(pending)
    except BaseException:  # this backward pass is over: the next one must not wait for its buckets
        pending.clear()
        raise
    return future
