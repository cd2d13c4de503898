# SPDX-License-Identifier: Apache-2.0
"""Tutti as a backend of torch.distributed: init_process_group("tutti").

DDP, FSDP2, HSDP and DCP run on it unmodified. The first group is a job, whose ranks find each other
through torch's store, which also carries the job's secret; other groups are process sets of it.
Calls match by order, as c10d's do; sends and receives by order per pair and tag.

A method checks its tensors first and makes a plan: calls, and functions that store their results.
An invalid argument on one rank fails the call on all ranks."""

import atexit
import ctypes
import datetime
import functools

import torch
import torch.distributed as dist

import tutti
from tutti import _library as c
from tutti.context import row_count

from . import completion, launchers, meeting, views
from .group import TuttiGroup
from .views import View
from .work import Finished, Work

_DEVICES = ["cpu", "cuda"]
_NO_TIME = datetime.timedelta(0)
_REDUCE = {"SUM": c.SUM, "AVG": c.AVERAGE, "MIN": c.MIN, "MAX": c.MAX, "PRODUCT": c.PRODUCT,
           "BAND": c.AND, "BOR": c.OR, "BXOR": c.XOR}
_OPS = {getattr(dist.ReduceOp, name): number for name, number in _REDUCE.items()
        if hasattr(dist.ReduceOp, name)}
_OP_NAMES = {number: name for name, number in _REDUCE.items()}


class _NamedGroup(dist.ProcessGroup):
    """A process group written in Python, with the names that meshes need and torch does not set."""

    def _set_group_name(self, name):
        self._name = name

    def _set_group_desc(self, description):
        self._description = description

    group_name = property(lambda self: self._name)
    group_desc = property(lambda self: self._description)


def _find_base():
    """c10d's Backend, if this torch lets Python derive from it; else a process group."""
    base = getattr(torch._C._distributed_c10d, "Backend", None)
    try:
        type("Probe", (base,), {})(0, 1)
    except TypeError:
        return _NamedGroup
    return base


_Base = _find_base()


def _told(op):
    """The operator's name; c10d prints an address instead."""
    kinds = getattr(getattr(dist.ReduceOp, "RedOpType", None), "__members__", {})
    return next((name for name, kind in kinds.items() if op == kind), "operator")


def _op(opts):
    if opts is None:
        return c.SUM
    op = opts.reduceOp
    number = _OPS.get(getattr(op, "op", op))
    if number is None:
        raise NotImplementedError(f"torch.distributed's {_told(op)} is not supported; use one of "
                                  f"{', '.join(_REDUCE)}")
    return number


class _Plan:
    """Calls to start, each (collective, source, target, fields); functions that store results when
    they are over; the tensors that c10d calls the result; where a receive from any source reports
    its sender, else None."""

    __slots__ = ("calls", "stores", "result", "source")

    def __init__(self, result):
        self.calls, self.stores, self.result, self.source = [], [], result, None

    def add(self, collective, source, target, store=None, **fields):
        self.calls.append((collective, source, target, fields))
        if store is not None:
            self.stores.append(store)


def _collective(number, places=None):
    """Turns a method that makes a plan into one that starts it. If it raises, the call fails on all
    ranks; `places` computes from its arguments how many calls fail (default: one)."""

    def decorate(method):
        @functools.wraps(method)
        def call(self, *arguments, **named):
            try:
                plan = method(self, *arguments, **named)
            except Exception as problem:
                raise self._refuse(number, places(*arguments) if places else 1, arguments,
                                   problem) from problem
            opts = arguments[-1] if arguments else named.get("opts")
            return self._begin(plan, getattr(opts, "asyncOp", True))

        return call

    return decorate


def _tag(tag):
    if not 0 <= tag <= c.TAG_MAX:
        raise ValueError(f"tag {tag} is not between 0 and {c.TAG_MAX}")
    return tag


def _each(tensors, *_):
    """Number of calls: one for each tensor, two for a sparse one (indices and values)."""
    return sum(2 if tensor.is_sparse else 1 for tensor in tensors)


def _all(tensors, *_):
    return len(tensors)


class TuttiBackend(_Base):
    """One process group."""

    has_all_ranks = False  # of torch's default group, with the same numbers

    def __init__(self, place, rank, size, timeout_s):
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._timeout_s = timeout_s
        self._works, self._finished = [], Finished([])
        self.chains = []  # works with futures whose callbacks may start calls
        self.place, self.job = place, place.job

    # ---- properties that c10d reads ----

    def getBackendName(self):
        return "tutti"

    _get_backend_name = getBackendName
    name = getBackendName

    @property
    def supports_splitting(self):
        return True

    @property
    def supports_coalescing(self):
        return False

    @property
    def supports_time_estimate(self):
        return False

    def shutdown(self):
        if self in _groups:
            _groups.remove(self)
        for work in self._works if self.job.is_open else ():
            work.cancel()  # the job stays open, so they would wait for ever
        self.place.leave()
        completion.ring()

    abort = shutdown

    def _set_sequence_number_for_group(self):
        """Not needed: c10d has a count of its own."""

    def _get_sequence_number_for_group(self):
        return 0

    # ---- starting ----

    def _call(self, collective, source, target, fields):
        call = self.job.new_call(collective, None, self.place.set, 0, self._timeout_s)
        if source is not None:
            call.input, call.count, call.dtype = source.address, source.count, source.dtype
        if target is not None:
            call.output = target.address
            if source is None:
                call.count, call.dtype = target.count, target.dtype
        for field, value in fields.items():
            setattr(call, field, value)
        return call

    def _begin(self, plan, is_async):
        if self.chains and not completion.is_callback():
            self._wait_for_callbacks(plan)
        if not is_async and len(plan.calls) == 1:
            self.job.run(self._call(*plan.calls[0]), plan)
            for store in plan.stores:
                store()
            return self._finished
        handles = [self.job.start(self._call(*call), plan) for call in plan.calls]
        work = Work(self, handles, plan.result, plan.stores, plan.source)
        self._works = [other for other in self._works if not other.is_over]
        self._works.append(work)  # C++ may hold it without a reference to the Python object
        return work

    def _wait_for_callbacks(self, plan):
        """Callbacks start calls, too. The next collective comes after them on every rank, so that
        the order does not depend on the timing of threads."""
        if plan.calls[0][0] not in (c.SEND, c.RECEIVE):
            chains, self.chains = self.chains, []
            for work in chains:
                work.wait_for_callbacks()

    def _refuse(self, collective, places, arguments, problem):
        """Fail the call on all ranks; returns the exception to raise on this one."""
        call = self.job.new_call(collective, None, self.place.set, 0, self._timeout_s)
        if collective in (c.SEND, c.RECEIVE):
            call.root = arguments[1]
            tag = arguments[2] if len(arguments) > 2 else 0
            call.tag = tag if 0 <= tag <= c.TAG_MAX else 0
        error = None
        for _ in range(places):
            error = self.job.refuse(call, str(problem))
        kind = tutti.errors.Unsupported if isinstance(problem, NotImplementedError) else None
        return error if kind is None else kind(str(error), -13, self._rank)

    # ---- collectives ----

    def _allreduce(self, tensors, opts=None):
        op, plan = _op(opts), _Plan(tensors)
        if any(tensor.is_sparse for tensor in tensors):
            return self._allreduce_sparse(tensors, op)
        for tensor in tensors:
            view = views.both(tensor)
            views.check_reduction(tensor, op, _OP_NAMES)
            plan.add(c.ALLREDUCE, view, view, view.store, op=op)
        return plan

    allreduce_coalesced = _collective(c.ALLREDUCE, _each)(_allreduce)

    def allreduce(self, tensors, opts=None):
        """Fast path for one plain tensor in a call that waits."""
        if len(tensors) == 1 and not getattr(opts, "asyncOp", True) and not self.chains:
            tensor, op = tensors[0], _OPS.get(opts.reduceOp.op)
            dtype = views.dtype_of_plain(tensor)
            if dtype is not None and op is not None:
                call = self.job.new_call(c.ALLREDUCE, None, self.place.set, 0,
                                         self._timeout_s)
                call.input = call.output = tensor.data_ptr()
                call.count, call.dtype, call.op = tensor.numel(), dtype, op
                self.job.run(call, tensor)
                return self._finished
        return self.allreduce_coalesced(tensors, opts)

    def _gather_rows(self, plan, rows):
        """Gather the rows of all ranks, whose numbers may differ; returns the function that takes
        them when the call is over."""
        view, counts, result = View(rows), (ctypes.c_uint64 * self._size)(), ctypes.c_void_p()
        plan.add(c.ALLGATHER, view, None, output_counts=counts, result_out=ctypes.pointer(result))

        def take():
            row = max(row_count(rows.shape), 1)
            joined = torch.empty((sum(counts) // row, *rows.shape[1:]), dtype=rows.dtype)
            if result.value:
                ctypes.memmove(joined.data_ptr(), result.value,
                               joined.numel() * joined.element_size())
                c.library.tutti_free(self.job._pointer, result.value)
            return joined

        return take

    def _allreduce_sparse(self, tensors, op):
        """Indices and values of all ranks, joined; equal indices are added up."""
        plan = _Plan(tensors)
        if op not in (c.SUM, c.AVERAGE):
            raise NotImplementedError("sparse tensors support sum and average only")
        for tensor in tensors:
            if not tensor.is_sparse:
                raise NotImplementedError("sparse and dense tensors in one call are not supported; "
                                          "make a call for each")
            own = tensor.detach().coalesce()
            take_indices = self._gather_rows(plan, own.indices().t().contiguous())
            take_values = self._gather_rows(plan, own.values().contiguous())

            def store(tensor=tensor, take_indices=take_indices, take_values=take_values):
                joined = take_values()
                joined = joined / self._size if op == c.AVERAGE else joined
                total = torch.sparse_coo_tensor(take_indices().t(), joined, tensor.shape)
                with torch.no_grad():  # detach() would give a tensor with other indices
                    tensor.copy_(total.coalesce().to(tensor.device))

            plan.stores.append(store)
        return plan

    @_collective(c.REDUCE)
    def reduce(self, tensors, opts):
        op, plan, view = _op(opts), _Plan(tensors), views.both(tensors[0])
        views.check_reduction(tensors[0], op, _OP_NAMES)
        plan.add(c.REDUCE, view, view, view.store if self._rank == opts.rootRank else None, op=op,
                 root=opts.rootRank)
        return plan

    @_collective(c.BROADCAST, _all)
    def broadcast(self, tensors, opts):
        plan = _Plan(tensors)
        for tensor in tensors:
            is_root = self._rank == opts.rootRank
            view = View(tensor) if is_root else views.both(tensor)
            plan.add(c.BROADCAST, view, view, None if is_root else view.store, root=opts.rootRank)
        return plan

    # ---- gathers ----

    def _gather_one(self, plan, target, source):
        views.check_gathered(target, source, self._size)
        into, view = views.output(target), View(source)
        if views.overlap(into, view) and view.address != into.address + self._rank * view.bytes:
            into.leave()
        plan.add(c.ALLGATHER, view, into, into.store)

    @_collective(c.ALLGATHER)
    def all_gather_single(self, output, input, opts=None):
        plan = _Plan([output])
        self._gather_one(plan, output, input)
        return plan

    @_collective(c.ALLGATHER, _all)
    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        plan = _Plan(outputs)
        views.check_list(inputs, len(outputs), "inputs")
        for target, source in zip(outputs, inputs):
            self._gather_one(plan, target, source)
        return plan

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _gather_lists(self, plan, targets, source):
        views.check_list(targets, self._size, "output")
        for target in targets:
            views.check_dtype(target, source)
        counts = [views.output(target).count for target in targets]
        if targets[self._rank].numel() != source.numel():
            raise ValueError(f"output[{self._rank}] is {views.told(targets[self._rank])}, this "
                             f"rank's input {views.told(source)}")
        joined = torch.empty(sum(target.numel() for target in targets), dtype=source.dtype)
        view, into, fields = View(source), View(joined), {}
        if any(count != view.count for count in counts):
            fields = self._expected(counts, into)
        plan.add(c.ALLGATHER, view, into, lambda: _spread(joined, targets), **fields)

    def _expected(self, counts, into):
        """Fields of a call whose parts must have these counts on all ranks."""
        return {"output_counts": (ctypes.c_uint64 * self._size)(*counts), "flags": c.EXPECTED,
                "output_capacity": into.count}

    @_collective(c.ALLGATHER, _all)
    def allgather(self, output_lists, input_tensors, opts=None):
        plan = _Plan([tensor for targets in output_lists for tensor in targets])
        views.check_list(input_tensors, len(output_lists), "inputs")
        for targets, source in zip(output_lists, input_tensors):
            self._gather_lists(plan, targets, source)
        return plan

    def allgather_coalesced(self, output_lists, input_tensors, opts=None):
        by_input = [list(targets) for targets in zip(*output_lists)]
        return self.allgather(by_input, input_tensors, opts)

    def _gather_to(self, plan, source, joined, root, store):
        into = View(joined) if joined is not None else None
        plan.add(c.GATHER, View(source), into, store, root=root)
        return plan

    @_collective(c.GATHER)
    def gather(self, output_lists, input_tensors, opts):
        source = input_tensors[0]
        if self._rank != opts.rootRank:
            return self._gather_to(_Plan([]), source, None, opts.rootRank, None)
        targets = output_lists[0]
        views.check_list(targets, self._size, "output")
        views.check_alike(targets, source, "output")
        for target in targets:
            views.output(target)
        joined = torch.empty(self._size * source.numel(), dtype=source.dtype)
        return self._gather_to(_Plan(targets), source, joined, opts.rootRank,
                               lambda: _spread(joined, targets))

    @_collective(c.GATHER)
    def gather_single(self, output, input, opts):
        if self._rank != opts.rootRank:
            return self._gather_to(_Plan([]), input, None, opts.rootRank, None)
        views.check_gathered(output, input, self._size)
        views.output(output)
        joined = torch.empty(output.shape, dtype=output.dtype)
        return self._gather_to(_Plan([output]), input, joined, opts.rootRank,
                               lambda: output.detach().copy_(joined))

    gather_into_tensor = gather_single

    # ---- scatters ----

    @_collective(c.SCATTER)
    def scatter(self, output_tensors, input_lists, opts):
        into, joined = views.output(output_tensors[0]), None
        if self._rank == opts.rootRank:
            views.check_list(input_lists[0], self._size, "input")
            views.check_alike(input_lists[0], output_tensors[0], "input")
            joined = View(_joined(input_lists[0]))
        plan = _Plan(output_tensors)
        plan.add(c.SCATTER, joined, into, into.store, root=opts.rootRank, count=into.count,
                 dtype=into.dtype)
        return plan

    def _scatter_one(self, plan, target, source, op):
        views.check_scattered(target, source, self._size)
        views.check_reduction(source, op, _OP_NAMES)
        view, into = View(source), views.output(target)
        if views.overlap(view, into):
            into.leave()
        plan.add(c.REDUCESCATTER, view, into, into.store, op=op, count=into.count)

    @_collective(c.REDUCESCATTER)
    def reduce_scatter_single(self, output, input, opts=None):
        plan = _Plan([output])
        self._scatter_one(plan, output, input, _op(opts))
        return plan

    _reduce_scatter_base = reduce_scatter_single

    @_collective(c.REDUCESCATTER, _all)
    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        plan, op = _Plan(outputs), _op(opts)
        views.check_list(inputs, len(outputs), "inputs")
        for target, source in zip(outputs, inputs):
            self._scatter_one(plan, target, source, op)
        return plan

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    @_collective(c.REDUCESCATTER, _all)
    def reduce_scatter(self, output_tensors, input_lists, opts=None):
        plan, op = _Plan(output_tensors), _op(opts)
        views.check_list(input_lists, len(output_tensors), "inputs")
        for target, sources in zip(output_tensors, input_lists):
            views.check_list(sources, self._size, "input")
            views.check_alike([sources[self._rank]], target, f"this rank's part of the input, input"
                              f"[{self._rank}],")
            views.check_reduction(target, op, _OP_NAMES)
            view, into = View(_joined(sources)), views.output(target)
            parts = [View(source).count for source in sources]
            plan.add(c.REDUCESCATTER, view, into, into.store, op=op, count=into.count,
                     **({} if len(set(parts)) == 1 else {
                         "input_counts": (ctypes.c_uint64 * self._size)(*parts),
                         "output_capacity": into.count}))
        return plan

    # ---- all to all ----

    def _exchange(self, plan, view, into, given, taken, store):
        plan.add(c.ALLTOALL, view, into, store,
                 input_counts=(ctypes.c_uint64 * self._size)(*given), **self._expected(taken, into))

    @_collective(c.ALLTOALL)
    def alltoall_base(self, output, input, output_split_sizes, input_split_sizes, opts=None):
        plan = _Plan([output])
        views.check_dtype(output, input)
        view, into = View(input), views.output(output)
        given = views.check_splits(input, input_split_sizes, self._size, "input")
        taken = views.check_splits(output, output_split_sizes, self._size, "output")
        has_splits = input_split_sizes or output_split_sizes
        if views.overlap(view, into) and (has_splits or view.address != into.address):
            into.leave()
        if has_splits:
            self._exchange(plan, view, into, given, taken, into.store)
            return plan
        if input.numel() != output.numel():
            raise ValueError(f"input {views.told(input)} and output {views.told(output)} differ in "
                             f"length; give split sizes")
        plan.add(c.ALLTOALL, view, into, into.store, count=view.count // self._size)
        return plan

    all_to_all_single = alltoall_base

    @_collective(c.ALLTOALL)
    def alltoall(self, output_tensors, input_tensors, opts=None):
        views.check_list(output_tensors, self._size, "output")
        views.check_list(input_tensors, self._size, "input")
        for tensor in (*output_tensors, *input_tensors):
            views.check_dtype(tensor, input_tensors[0])
        taken = [views.output(tensor).count for tensor in output_tensors]
        view = View(_joined(input_tensors))
        joined = torch.empty(sum(tensor.numel() for tensor in output_tensors),
                             dtype=input_tensors[0].dtype)
        plan = _Plan(output_tensors)
        self._exchange(plan, view, View(joined), [View(tensor).count for tensor in input_tensors],
                       taken, lambda: _spread(joined, output_tensors))
        return plan

    # ---- pairs ----

    @_collective(c.SEND)
    def send(self, tensors, peer, tag=0):
        plan = _Plan(tensors)
        plan.add(c.SEND, View(tensors[0]), None, root=peer, tag=_tag(tag))
        return plan

    @_collective(c.RECEIVE)
    def recv(self, tensors, peer, tag=0):
        plan, into = _Plan(tensors), views.output(tensors[0])
        plan.add(c.RECEIVE, None, into, into.store, root=peer, tag=_tag(tag))
        return plan

    @_collective(c.RECEIVE)
    def _recv_anysource(self, tensors, peer, tag):
        plan, into = _Plan(tensors), views.output(tensors[0])
        plan.source = ctypes.c_int()
        plan.add(c.RECEIVE, None, into, into.store, root=peer, tag=_tag(tag),
                 source_out=ctypes.pointer(plan.source))
        return plan

    def recv_anysource(self, tensors, tag=0):
        """Its work has _source_rank, the sender's number in this group."""
        return self._recv_anysource(tensors, c.ANY_SOURCE, tag)

    @_collective(c.BARRIER)
    def barrier(self, opts=None):
        plan = _Plan([])
        timeout = getattr(opts, "timeout", None)
        fields = {"timeout_s": timeout.total_seconds()} if timeout and timeout > _NO_TIME else {}
        plan.add(c.BARRIER, None, None, **fields)
        return plan

    def wait_for_all(self, timeout):
        """A barrier whose error names the ranks that are missing."""
        self.job.barrier(process_set=self.place.set,
                         timeout=timeout.total_seconds() if timeout else self._timeout_s)


def _joined(tensors):
    """The elements of these, one after the other, in host memory."""
    for tensor in tensors:
        views.check_dtype(tensor, tensors[0])
        View(tensor, is_output=True)
    return torch.cat([tensor.detach().reshape(-1).cpu() for tensor in tensors])


def _spread(joined, tensors):
    """Copy the parts of `joined` into these tensors."""
    parts = joined.split([tensor.numel() for tensor in tensors])
    for tensor, part in zip(tensors, parts):
        tensor.detach().copy_(part.view(tensor.shape))


_groups = []  # in order of creation; c10d keeps no reference to a Python backend


@atexit.register
def _leave():
    """Scripts that end without destroy_process_group leave the job properly, too."""
    for backend in reversed(_groups[:]):
        backend.shutdown()


def _common_place():
    """The place of the first group of all ranks, the same on every rank; None if there is none,
    because the default group has another backend."""
    for backend in _groups:
        if backend.has_all_ranks and backend.job.is_open:
            return backend.place
    return None


def create(store, rank, size, timeout, place=None, ranks=()):
    """Create a group: of these members of `place`, else a job of its own."""
    timeout_s = timeout.total_seconds() if timeout is not None else 0.0
    if place is None:
        place = meeting.Place(meeting.join(store, rank, size, timeout_s))
    else:
        place = place.group(store, rank, ranks)
    backend = TuttiBackend(place, rank, size, timeout_s)
    _groups.append(backend)
    if _Base is _NamedGroup:
        return backend
    try:
        return TuttiGroup(store, backend, _DEVICES, create)
    except (AttributeError, TypeError):  # a torch whose groups are created otherwise
        return backend


def _create_extended(options, _):
    """`options.global_ranks_in_group` is empty for the default group."""
    ranks, size = list(options.global_ranks_in_group), options.group_size
    place = _common_place() if ranks else None
    group = create(options.store, options.group_rank, size, options.timeout, place, ranks)
    everyone = list(range(dist.get_world_size())) if ranks else []
    _groups[-1].has_all_ranks = place is None and ranks == everyone
    return group


def register():
    """Make the backend known to torch.distributed; harmless when repeated."""
    launchers.serve()
    if "tutti" in getattr(dist.Backend, "backend_list", []):
        return
    # torch's flight recorder costs 12 ms per group and records dispatched calls only: not ours.
    recorded = getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", None)
    if isinstance(recorded, set):
        recorded.add("tutti")
    try:
        dist.Backend.register_backend("tutti", _create_extended, extended_api=True,
                                      devices=_DEVICES)
    except TypeError:  # torch before 2.0
        dist.Backend.register_backend("tutti", create)


register()
