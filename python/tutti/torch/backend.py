# SPDX-License-Identifier: Apache-2.0
"""Tutti as a backend of torch.distributed: init_process_group("tutti").

DDP, FSDP2, HSDP and DCP run on it unmodified. Every process group is a job of its own; its ranks
meet through torch's store, which also carries the job's secret. Calls match by order, as c10d's do;
sends and receives by order per pair, whatever their tag."""

import atexit
import ctypes
import secrets
import threading

import torch
import torch.distributed as dist

import tutti
from tutti import _library as c
from tutti.context import row_count

from . import meeting
from .completion import completer
from .tensors import DEVICES, DTYPES

_PORTS = 16
_REDUCE = {"SUM": c.SUM, "AVG": c.AVERAGE, "MIN": c.MIN, "MAX": c.MAX, "PRODUCT": c.PRODUCT,
           "BAND": c.AND, "BOR": c.OR, "BXOR": c.XOR}


class _NamedGroup(dist.ProcessGroup):
    """A process group made in Python, which torch leaves without the names that meshes ask for."""

    def _set_group_name(self, name):
        self._name = name

    def _set_group_desc(self, description):
        self._description = description

    group_name = property(lambda self: self._name)
    group_desc = property(lambda self: self._description)


def _find_base():
    """c10d's Backend, where this torch lets Python derive from it; else a process group."""
    base = getattr(torch._C._distributed_c10d, "Backend", None)
    try:
        type("Probe", (base,), {})(0, 1)
    except TypeError:
        return _NamedGroup
    return base


_Base = _find_base()
_WorkBase = torch._C._distributed_c10d.Work


def _check(future):
    """The result, or the exception that the call ended with: c10d's own way crashes DDP."""
    value = future.value()
    if isinstance(value, BaseException):
        raise value
    return value


def _op(op):
    for name, number in _REDUCE.items():
        if hasattr(dist.ReduceOp, name) and op == getattr(dist.ReduceOp, name):
            return number
    raise NotImplementedError(f"tutti: torch.distributed's {op} is not there")


class _View:
    """A tensor's elements in contiguous host memory. `store` writes them back where that was a
    copy."""

    def __init__(self, tensor, is_output=False):
        plain = tensor.detach()
        if plain.is_sparse:
            raise NotImplementedError("tutti: of sparse tensors there is allreduce only")
        if plain.device.type not in DEVICES or plain.layout is not torch.strided:
            raise NotImplementedError(f"tutti: a tensor on {plain.device} of layout "
                                      f"{plain.layout} is out of reach")
        if plain.is_complex():
            plain = torch.view_as_real(plain)
        if plain.dtype not in DTYPES:
            raise NotImplementedError(f"tutti: tensor type {plain.dtype} is not there")
        self.target = plain
        is_direct = plain.device.type == "cpu" and plain.is_contiguous()
        if is_direct:
            self.host = plain
        elif is_output:
            self.host = torch.empty(plain.shape, dtype=plain.dtype)
        else:
            self.host = plain.to("cpu", copy=plain.device.type != "cpu").contiguous()
        self.is_direct = is_direct
        self.dtype, self.count = DTYPES[plain.dtype], plain.numel()

    @property
    def address(self):
        return self.host.data_ptr()

    def store(self):
        if not self.is_direct:
            self.target.copy_(self.host)


class TuttiBackend(_Base):
    """One process group."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._timeout_s = timeout.total_seconds() if timeout is not None else 0.0
        self._works = []
        self._job = _join(store, rank, size, self._timeout_s)

    # ---- what c10d asks about ----

    def getBackendName(self):
        return "tutti"

    _get_backend_name = getBackendName
    name = getBackendName

    @property
    def supports_splitting(self):
        return False

    @property
    def supports_coalescing(self):
        return False

    @property
    def supports_time_estimate(self):
        return False

    def shutdown(self):
        self._job.shutdown()

    def abort(self):
        self._job.shutdown()

    def _set_sequence_number_for_group(self):
        """c10d counts for itself."""

    def _get_sequence_number_for_group(self):
        return 0

    # ---- starting ----

    def _start(self, collective, source, target, fields):
        call = self._job.new_call(collective, None, 0, 0, self._timeout_s)
        if source is not None:
            call.input, call.count, call.dtype = source.address, source.count, source.dtype
        if target is not None:
            call.output = target.address
            if source is None:
                call.count, call.dtype = target.count, target.dtype
        for field, value in fields.items():
            setattr(call, field, value)
        return self._job.start(call, (source, target, fields))

    def _work(self, handles, result, stores=()):
        """A Work that ends when all handles have; `stores` run then."""
        self._works = [work for work in self._works if not work.is_over]
        work = _Work(self._job, handles, result, stores)
        self._works.append(work)  # C++ may hold it without its Python half
        return work

    # ---- collectives ----

    def allreduce(self, tensors, opts=None):
        op = _op(opts.reduceOp if opts is not None else dist.ReduceOp.SUM)
        if any(tensor.is_sparse for tensor in tensors):
            return self._allreduce_sparse(tensors, op)
        views = [_View(tensor) for tensor in tensors]
        handles = [self._start(c.ALLREDUCE, view, view, {"op": op}) for view in views]
        return self._work(handles, tensors, [view.store for view in views])

    def _gather_rows(self, rows):
        """Everyone's rows, of which each rank may have another number: a handle, and what takes
        them when it is over."""
        view, counts, result = _View(rows), (ctypes.c_uint64 * self._size)(), ctypes.c_void_p()
        handle = self._start(c.ALLGATHER, view, None, {
            "output_counts": counts, "result_out": ctypes.pointer(result)})

        def take():
            row = view.host.numel() // max(view.host.shape[0], 1) or row_count(view.host.shape)
            joined = torch.empty((sum(counts) // max(row, 1), *view.host.shape[1:]),
                                 dtype=view.host.dtype)
            if result.value:
                ctypes.memmove(joined.data_ptr(), result.value,
                               joined.numel() * joined.element_size())
                c.library.tutti_free(self._job._pointer, result.value)
            return joined

        return handle, take

    def _allreduce_sparse(self, tensors, op):
        """Indices and values of all ranks, joined; equal indices are added up."""
        if op not in (c.SUM, c.AVERAGE):
            raise NotImplementedError("tutti: sparse tensors have sum and average only")
        handles, stores = [], []
        for tensor in tensors:
            if not tensor.is_sparse:
                raise NotImplementedError("tutti: sparse and dense tensors in one call")
            own = tensor.detach().coalesce()
            indices, take_indices = self._gather_rows(own.indices().t().contiguous())
            values, take_values = self._gather_rows(own.values().contiguous())

            def store(tensor=tensor, take_indices=take_indices, take_values=take_values):
                joined = take_values()
                joined = joined / self._size if op == c.AVERAGE else joined
                total = torch.sparse_coo_tensor(take_indices().t(), joined, tensor.shape)
                with torch.no_grad():  # detach() would give a tensor with other indices
                    tensor.copy_(total.coalesce().to(tensor.device))

            handles += [indices, values]
            stores.append(store)
        return self._work(handles, tensors, stores)

    def allreduce_coalesced(self, tensors, opts=None):
        return self.allreduce(tensors, opts)

    def reduce(self, tensors, opts):
        view = _View(tensors[0])
        handle = self._start(c.REDUCE, view, view, {"op": _op(opts.reduceOp),
                                                    "root": opts.rootRank})
        return self._work([handle], tensors, [view.store] if self._rank == opts.rootRank else [])

    def broadcast(self, tensors, opts):
        views = [_View(tensor) for tensor in tensors]
        handles = [self._start(c.BROADCAST, view, view, {"root": opts.rootRank}) for view in views]
        return self._work(handles, tensors, [view.store for view in views])

    def _gather_one(self, output, source):
        view, target = _View(source), _View(output, is_output=True)
        return self._start(c.ALLGATHER, view, target, {}), target.store

    def all_gather_single(self, output, input, opts=None):
        handle, store = self._gather_one(output, input)
        return self._work([handle], [output], [store])

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        started = [self._gather_one(output, source) for output, source in zip(outputs, inputs)]
        return self._work([handle for handle, _ in started], outputs,
                          [store for _, store in started])

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather(self, output_lists, input_tensors, opts=None):
        handles, stores = [], []
        for outputs, source in zip(output_lists, input_tensors):
            joined = torch.empty((self._size, *source.shape), dtype=source.dtype)
            handle, store = self._gather_one(joined, source)
            handles.append(handle)
            stores += [store, lambda joined=joined, outputs=outputs: _spread(joined, outputs)]
        return self._work(handles, [t for outputs in output_lists for t in outputs], stores)

    def allgather_coalesced(self, output_lists, input_tensors, opts=None):
        by_input = list(zip(*output_lists))
        return self.allgather(by_input, input_tensors, opts)

    def gather(self, output_lists, input_tensors, opts):
        view, is_root = _View(input_tensors[0]), self._rank == opts.rootRank
        joined = None
        if is_root:
            source = input_tensors[0]
            joined = _View(torch.empty((self._size, *source.shape), dtype=source.dtype))
        handle = self._start(c.GATHER, view, joined, {"root": opts.rootRank})
        stores = [lambda: _spread(joined.host, output_lists[0])] if is_root else []
        return self._work([handle], output_lists[0] if is_root else [], stores)

    def scatter(self, output_tensors, input_lists, opts):
        target = _View(output_tensors[0], is_output=True)
        joined = None
        if self._rank == opts.rootRank:
            joined = _View(torch.stack([tensor.detach().cpu() for tensor in input_lists[0]]))
        handle = self._start(c.SCATTER, joined, target,
                             {"root": opts.rootRank, "count": target.count, "dtype": target.dtype})
        return self._work([handle], output_tensors, [target.store])

    def _scatter_one(self, output, source, op):
        view, target = _View(source), _View(output, is_output=True)
        handle = self._start(c.REDUCESCATTER, view, target, {"op": op, "count": target.count})
        return handle, target.store

    def reduce_scatter_single(self, output, input, opts=None):
        op = _op(opts.reduceOp if opts is not None else dist.ReduceOp.SUM)
        handle, store = self._scatter_one(output, input, op)
        return self._work([handle], [output], [store])

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        op = _op(opts.reduceOp if opts is not None else dist.ReduceOp.SUM)
        started = [self._scatter_one(output, source, op)
                   for output, source in zip(outputs, inputs)]
        return self._work([handle for handle, _ in started], outputs,
                          [store for _, store in started])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce_scatter(self, output_tensors, input_lists, opts=None):
        op = _op(opts.reduceOp if opts is not None else dist.ReduceOp.SUM)
        started = [self._scatter_one(output, torch.stack([t.detach() for t in inputs]), op)
                   for output, inputs in zip(output_tensors, input_lists)]
        return self._work([handle for handle, _ in started], output_tensors,
                          [store for _, store in started])

    def alltoall_base(self, output, input, output_split_sizes, input_split_sizes, opts=None):
        view, target = _View(input), _View(output, is_output=True)
        if not input_split_sizes and not output_split_sizes:
            handle = self._start(c.ALLTOALL, view, target, {"count": view.count // self._size})
            return self._work([handle], [output], [target.store])
        inputs = self._counts(view, input_split_sizes)
        received = (ctypes.c_uint64 * self._size)()
        fields = {"input_counts": inputs, "output_counts": received,
                  "output_capacity": target.count}
        handle = self._start(c.ALLTOALL, view, target, fields)
        return self._work([handle], [output], [target.store])

    all_to_all_single = alltoall_base

    def _counts(self, view, splits):
        rows = view.host.shape[0] if view.host.dim() else 1
        row = view.count // rows if rows else 0
        splits = list(splits) or [rows // self._size] * self._size
        return (ctypes.c_uint64 * self._size)(*[int(split) * row for split in splits])

    def alltoall(self, output_tensors, input_tensors, opts=None):
        flat = [tensor.detach().reshape(-1).cpu() for tensor in input_tensors]
        view = _View(torch.cat(flat))
        target = _View(torch.empty(sum(t.numel() for t in output_tensors),
                                   dtype=view.host.dtype))
        inputs = (ctypes.c_uint64 * self._size)(*[part.numel() for part in flat])
        received = (ctypes.c_uint64 * self._size)()
        handle = self._start(c.ALLTOALL, view, target, {
            "input_counts": inputs, "output_counts": received, "output_capacity": target.count})

        def store():
            parts = target.host.split([tensor.numel() for tensor in output_tensors])
            for tensor, part in zip(output_tensors, parts):
                tensor.detach().copy_(part.view(tensor.shape))

        return self._work([handle], output_tensors, [store])

    def send(self, tensors, peer, tag=0):
        view = _View(tensors[0])
        return self._work([self._start(c.SEND, view, None, {"root": peer})], tensors)

    def recv(self, tensors, peer, tag=0):
        target = _View(tensors[0], is_output=True)
        handle = self._start(c.RECEIVE, None, target, {"root": peer})
        return self._work([handle], tensors, [target.store])

    def recv_anysource(self, tensors, tag=0):
        raise NotImplementedError("tutti: receiving from any rank is not there; name the source")

    def barrier(self, opts=None):
        return self._work([self._start(c.BARRIER, None, None, {})], [])


class _Work(_WorkBase):
    """Started calls, as c10d sees them. Who waits drives them; a future is made only if asked
    for."""

    def __init__(self, job, handles, result, stores):
        super().__init__()
        self._job, self._handles = job, handles
        self._result, self._stores = result, stores
        self._lock = threading.Lock()
        self._problem = self._future = None
        self.is_over = False

    def poll(self):
        return self.is_over or all(handle.poll() for handle in self._handles)

    is_completed = poll

    def wait(self, timeout=None):
        for handle in self._handles:
            try:
                handle.wait()
            except tutti.TuttiError as error:
                self._problem = self._problem or error
        with self._lock:
            if not self.is_over and self._problem is None:
                for store in self._stores:
                    store()
            self.is_over = True
        if self._problem is not None:
            raise self._problem
        return True

    def is_success(self):
        return self.is_over and self._problem is None

    def exception(self):
        return self._problem

    def result(self):
        self.wait()
        return self._result

    def synchronize(self):
        self.wait()

    def get_future(self):
        if self._future is None:
            def finish():
                self.wait()
                return self._result

            inner = completer.future(self._job, self, finish, wrap=lambda problem: problem)
            self._future = inner.then(_check)
        return self._future


def _spread(joined, outputs):
    for part, output in zip(joined, outputs):
        output.detach().copy_(part)


def _join(store, rank, size, timeout_s):
    """Join the job of this group; what its ranks must know goes through torch's store."""
    if size == 1:
        return tutti.init(0, 1, rendezvous="none", secret=secrets.token_bytes(32))
    if rank == 0:
        first = 20000 + secrets.randbelow(12000)
        host = meeting.own_address()
        host = f"[{host}]" if ":" in host else host
        store.set("tutti/rendezvous", f"tcp://{host}:{first}-{first + _PORTS - 1}")
        store.set("tutti/job", secrets.token_hex(8))
        store.set("tutti/secret", secrets.token_hex(32))
    rendezvous, job_id, secret = (store.get(f"tutti/{key}").decode()
                                  for key in ("rendezvous", "job", "secret"))
    return tutti.init(rank, size, rendezvous=rendezvous, job_id=job_id,
                      secret=bytes.fromhex(secret), timeout=min(timeout_s or 60.0, 300.0))


_groups = []  # c10d keeps no reference to a Python backend


@atexit.register
def _leave():
    """Scripts that end without destroy_process_group leave in order too."""
    for backend in _groups:
        backend.shutdown()


def _create(store, rank, size, timeout):
    backend = TuttiBackend(store, rank, size, timeout)
    _groups.append(backend)
    return backend


def register():
    """Make the backend known to torch.distributed; harmless when repeated."""
    if "tutti" in getattr(dist.Backend, "backend_list", []):
        return
    meeting.serve_tutti_run()
    try:
        dist.Backend.register_backend("tutti", _create, devices=["cpu", "cuda"])
    except TypeError:  # torch before 2.0
        dist.Backend.register_backend("tutti", _create)


register()
