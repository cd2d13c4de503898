# SPDX-License-Identifier: Apache-2.0
"""The membership of one rank in a job, and its collectives."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from types import TracebackType
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple,
                    Type, Union)

from . import _library as c
from . import last_words
from .buffers import Buffer, as_buffer
from .errors import BadArgument, NameInUse, ShutDown, TuttiError, from_status
from .handle import Bell, Dropped, Handle, Result, _dropped, sweep

if TYPE_CHECKING:
    import asyncio

    import numpy

    from .store import Store

# Arguments of start and run: the call, objects to keep alive, what makes the result, the name.
_Prepared = Tuple[c.Call, object, Optional[Callable[[], Any]], Optional[str]]


def _op(op: Union[str, int]) -> int:
    if isinstance(op, int):
        return op
    try:
        return c.OPS[op]
    except KeyError:
        raise BadArgument(f"op '{op}' does not exist; use one of {', '.join(c.OPS)}") from None


def _op_for(source: Buffer, op: Union[str, int]) -> int:
    number = _op(op)
    if source.width > 1 and number not in (c.SUM, c.AVERAGE):
        raise BadArgument("complex numbers support sum and average only")
    return number


class _Arena:
    """Keeps the memory of a job's arrays as long as one of them lives, even after the job was
    left."""

    def __init__(self, pointer: int) -> None:
        self._hold = c.library.tutti_arena_hold(pointer)

    def __del__(self) -> None:
        if not sys.is_finalizing():  # the end of the process frees everything
            c.library.tutti_arena_drop(self._hold)


def _counts(counts: Iterable[Any], size: int, what: str) -> ctypes.Array[ctypes.c_uint64]:
    numbers = [int(count) for count in counts]
    if len(numbers) != size or any(number < 0 for number in numbers):
        raise BadArgument(f"{what} must be {size} numbers, one for each rank")
    return (ctypes.c_uint64 * size)(*numbers)


class Context:
    """Membership in a job; created by tutti.init(). Leaves the job at the end of a with block.

    Collectives take any array in host memory: NumPy, DLPack, buffer protocol. `out` receives the
    result; without it a new NumPy array is returned for NumPy input. Calls with a `name` match by
    name, others by order. `start_*` forms return a Handle at once."""

    def __init__(self, pointer: int, log: object) -> None:
        self._pointer: Optional[int] = pointer
        self._log = log  # kept alive: the C library calls it
        self._process = os.getpid()
        self._is_gone = False  # True: no call of this job writes into memory any more
        self._lock = threading.Lock()
        self._named: weakref.WeakValueDictionary[Tuple[int, str], Union[Handle, Dropped]] = (
            weakref.WeakValueDictionary())  # calls with a name that may still run, by set
        self._bells: weakref.WeakKeyDictionary[Any, Bell] = weakref.WeakKeyDictionary()
        self._arena: Optional[_Arena] = _Arena(pointer)
        library = c.library
        self.rank: int = library.tutti_rank(pointer)
        self.size: int = library.tutti_size(pointer)
        self.local_rank: int = library.tutti_local_rank(pointer)
        self.local_size: int = library.tutti_local_size(pointer)
        self.cross_rank: int = library.tutti_cross_rank(pointer)
        self.cross_size: int = library.tutti_cross_size(pointer)

    # ---- life ----

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], problem: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is not None and not issubclass(kind, (SystemExit, GeneratorExit)):
            last_words.tell(self, kind, problem)
        self.shutdown()

    def shutdown(self) -> None:
        """Leave the job. Calls that are not over end with ShutDown. May be repeated."""
        with self._lock:
            pointer, self._pointer = self._pointer, None
            self._arena = None
        if pointer is None or os.getpid() != self._process:  # a forked child has nothing to leave
            return
        status = c.library.tutti_shutdown(pointer)
        self._is_gone = True
        if status < 0:
            raise from_status(status, c.library.tutti_status_text(status).decode(), self.rank)

    def abort(self, why: str) -> None:
        """Report that this rank cannot continue: the calls of all ranks fail with a text that
        names it and quotes `why`."""
        if self._pointer is not None:
            c.library.tutti_abort(self._pointer, why.encode(errors="replace"))

    @property
    def is_open(self) -> bool:
        """False once the job was left."""
        return self._pointer is not None

    def _error(self, status: int, name: Optional[str] = None) -> TuttiError:
        text = c.library.tutti_last_error(self._pointer).decode(errors="replace")
        return from_status(status, text, self.rank, name)

    def _check(self, status: int) -> None:
        if status < 0:
            raise self._error(status)

    def _checked(self) -> int:
        if self._pointer is None:
            raise ShutDown("the job was left; tutti.init() joins again", -10, self.rank)
        return self._pointer

    def _bell(self, loop: asyncio.AbstractEventLoop) -> Bell:
        bell = self._bells.get(loop)
        if bell is None:
            bell = self._bells[loop] = Bell(self, loop)
        return bell

    def describe(self) -> str:
        """A description of this membership: rank, transports, choices."""
        pointer = self._checked()
        need = c.library.tutti_describe(pointer, None, 0)
        text = ctypes.create_string_buffer(need + 1)
        c.library.tutti_describe(pointer, text, need + 1)
        return text.value.decode(errors="replace")

    def start_trace(self, path: Union[str, os.PathLike[str]]) -> None:
        """From now on write the stages of calls to `path`, in Chrome's trace format."""
        self._check(c.library.tutti_trace_start(self._checked(), os.fsencode(path)))

    def stop_trace(self) -> None:
        """Close the trace's file; does nothing without a trace."""
        self._check(c.library.tutti_trace_stop(self._checked()))

    def step(self) -> None:
        """Marks the end of a training step; every rank calls it once per step, or none does. It
        teaches Tutti the order of tensors, and drives the tuning of TUTTI_TUNE=1."""
        self._check(c.library.tutti_step(self._checked()))

    def count(self, process_set: int = 0) -> Dict[str, Any]:
        """The counters of tutti_count, by name: bytes and times so far, on this rank."""
        counters = c.Counters()
        counters.struct_bytes = ctypes.sizeof(c.Counters)
        self._check(c.library.tutti_count(self._checked(), process_set, ctypes.byref(counters)))
        found = {field[0]: getattr(counters, field[0]) for field in c.Counters._fields_[1:]}
        found["sizes"], found["mode"] = list(found["sizes"]), found["mode"].decode()
        return found

    # ---- what error feedback keeps of coded tensors; each of these is local ----

    def step_undo(self) -> None:
        """Bring back what error feedback kept at the last step(), because the gradients since then
        are thrown away. Does nothing in a job without step(): there, every call commits."""
        self._check(c.library.tutti_step_undo(self._checked()))

    def codec_unit(self, unit: float) -> None:
        """Gradients are multiplied by another factor from now on, such as a new loss scale: what
        is kept is multiplied by `unit` / the last unit, which is 1 at first."""
        self._check(c.library.tutti_codec_unit(self._checked(), unit))

    def codec_reset(self, name: Optional[str] = None, process_set: int = 0) -> None:
        """Forget what is kept of the tensor of this name; of all tensors without a name."""
        encoded = None if name is None else name.encode()
        self._check(c.library.tutti_codec_reset(self._checked(), process_set, encoded))

    def codec_save(self) -> bytes:
        """What is kept of all named tensors, for a checkpoint of this rank. Refused while a call
        with error feedback is in flight."""
        pointer, length = self._checked(), ctypes.c_size_t()
        self._check(c.library.tutti_codec_save(pointer, None, 0, ctypes.byref(length)))
        state = ctypes.create_string_buffer(length.value)
        self._check(c.library.tutti_codec_save(pointer, state, length.value, ctypes.byref(length)))
        return state.raw

    def codec_load(self, state: bytes) -> None:
        """Continue from a state of codec_save, bit for bit. BadArgument if it is of another rank
        or of another number of ranks, or if a tensor has another length."""
        self._check(c.library.tutti_codec_load(self._checked(), state, len(state)))

    def codec_norm(self) -> float:
        """Root of the sum of squares of all that is kept. Reads all of it."""
        norm = ctypes.c_double()
        self._check(c.library.tutti_codec_norm(self._checked(), ctypes.byref(norm)))
        return norm.value

    def store(self, policy: str = "bulk", update: str = "sum",
              codec: Optional[str] = None) -> Store:
        """Open a store; every rank of the job calls it, with the same arguments. See
        tutti.Store."""
        from .store import Store

        return Store(self, policy=policy, update=update, codec=codec)

    # ---- memory ----

    def empty(self, shape: Union[int, Sequence[int]], dtype: Any = "float32"
              ) -> numpy.ndarray[Any, Any]:
        """A NumPy array in the memory that the ranks of this host share: the fastest place for
        tensors. Zeroed."""
        import numpy

        dtype = numpy.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        count = 1
        for extent in shape:
            count *= extent
        memory = self.allocate(max(1, count * dtype.itemsize))
        return numpy.frombuffer(memoryview(memory), dtype, count).reshape(shape)

    def allocate(self, nbytes: int) -> ctypes.Array[ctypes.c_uint8]:
        """`nbytes` of shared memory as a writable buffer, freed with its last reference."""
        pointer = self._checked()
        address = c.library.tutti_alloc(pointer, nbytes)
        if not address:
            raise self._error(-1)
        return self._owned(address, nbytes)

    def _owned(self, address: int, nbytes: int) -> ctypes.Array[ctypes.c_uint8]:
        """Memory of the C library as a buffer, which frees it with its last reference."""
        array = (ctypes.c_uint8 * nbytes).from_address(address)
        weakref.finalize(array, _release, weakref.ref(self), address, self._arena).atexit = False
        return array

    # ---- process sets ----

    def create_set(self, ranks: Iterable[int], key: Optional[int] = None) -> int:
        """Create a process set of these world ranks and return its number; every rank of the job
        calls it. With a `key` only the members call it, without communication: the key is the same
        on all of them and differs from that of every other set, and all must have created the set
        before any of them makes a call on it."""
        ranks = [int(rank) for rank in ranks]
        number, packed = ctypes.c_uint32(), (ctypes.c_int * len(ranks))(*ranks)
        if key is None:
            status = c.library.tutti_set_create(self._checked(), packed, len(ranks),
                                                ctypes.byref(number))
        else:
            status = c.library.tutti_set_create_keyed(self._checked(), packed, len(ranks), key,
                                                      ctypes.byref(number))
        if status < 0:
            raise self._error(status)
        return number.value

    def remove_set(self, number: int) -> None:
        """Remove a process set; every rank of the job calls it, for one with a key every member."""
        self._check(c.library.tutti_set_remove(self._checked(), number))

    def set_rank(self, number: int) -> int:
        """This rank's number in the set, -1 if it is not a member."""
        return int(c.library.tutti_set_rank(self._checked(), number))

    def set_size(self, number: int) -> int:
        """How many members the set has."""
        size: int = c.library.tutti_set_size(self._checked(), number)
        if size < 0:
            raise BadArgument(f"process set {number} does not exist", -4, self.rank)
        return size

    # ---- calls ----

    def check_free(self, name: Optional[str], process_set: int) -> None:
        """Raise NameInUse if a call of this name is in flight."""
        if _dropped:
            sweep()
        if name is None or not self._named:
            return
        other = self._named.get((process_set, name))
        if other is not None and not other.poll():
            raise NameInUse(name, self.rank)

    def _note(self, handle: Handle) -> Handle:
        if handle.name is not None:
            self._named[handle.process_set, handle.name] = handle
        return handle

    def start(self, call: c.Call, keep: object = None,
              finish: Optional[Callable[[], Any]] = None, name: Optional[str] = None) -> Handle:
        """Start a _library.Call; `keep` is kept alive until it is over, then finish() makes the
        result."""
        pointer = self._checked()
        self.check_free(name, call.set)
        slot = ctypes.c_void_p()
        status = c.library.tutti_start(pointer, call, ctypes.byref(slot))
        if status < 0:
            raise self._error(status, name)
        return self._note(Handle(self, slot.value, keep, finish, name, call.set))

    def run(self, call: c.Call, keep: object = None, finish: Optional[Callable[[], Any]] = None,
            name: Optional[str] = None) -> Any:
        """Start a _library.Call and wait for its result. Ctrl-C interrupts the wait."""
        pointer = self._checked()
        self.check_free(name, call.set)
        slot = ctypes.c_void_p()
        status = c.library.tutti_run_for(pointer, call, 0.25, ctypes.byref(slot))
        if status == c.OK:
            return finish() if finish is not None else None
        if status < 0:
            raise self._error(status, name)
        return self._note(Handle(self, slot.value, keep, finish, name, call.set)).wait()

    def refuse(self, call: c.Call, why: str) -> TuttiError:
        """Replaces a _library.Call that this rank cannot make: it fails on all ranks with a text
        that quotes `why`. Returns the exception to raise on this rank."""
        status = c.library.tutti_refuse(self._checked(), call, why.encode(errors="replace"))
        return self._error(status)

    def start_many(self, calls: Sequence[c.Call], keeps: Sequence[object],
                   finishes: Sequence[Optional[Callable[[], Any]]],
                   names: Sequence[Optional[str]]) -> List[Handle]:
        """Start several calls at once: one wake-up, adjacent places in the order."""
        pointer = self._checked()
        count = len(calls)
        for call, name in zip(calls, names):
            self.check_free(name, call.set)
        packed = (c.Call * count)(*calls)
        slots = (ctypes.c_void_p * count)()
        status = c.library.tutti_start_group(pointer, packed, count, slots)
        if status < 0:
            raise self._error(status, names[0] if names else None)
        return [self._note(Handle(self, slot, keeps[i], finishes[i], names[i], calls[i].set))
                for i, slot in enumerate(slots)]

    def new_call(self, collective: int, name: Optional[str], process_set: int, priority: int = 0,
                 timeout: Optional[float] = None) -> c.Call:
        """A _library.Call with these fields set; fill in the rest and start it."""
        call = c.new_call(collective)
        call.set = process_set
        call.priority = priority
        call.timeout_s = timeout or 0.0
        if name is not None:
            encoded = name.encode()
            if len(encoded) > 255:
                raise BadArgument(f"name '{name[:40]}...' is longer than 255 bytes", -4, self.rank)
            call.name = encoded
        return call

    def _output(self, out: Any, source: Buffer, shape: Tuple[int, ...]) -> Tuple[Buffer, Any]:
        """Buffer and result object for a result of `shape` and the type of `source`."""
        count = source.width
        for extent in shape:
            count *= extent
        if out is not None:
            buffer = as_buffer(out)
            if not buffer.is_writable:
                raise BadArgument("out is read-only", -4, self.rank)
            if (buffer.dtype, buffer.width) != (source.dtype, source.width):
                raise BadArgument("out has another type than the input", -4, self.rank)
            if buffer.count != count:
                raise BadArgument(f"out has {buffer.count // source.width} elements, the result "
                                  f"{count // source.width}", -4, self.rank)
            return buffer, out
        import numpy

        if not isinstance(source.source, numpy.ndarray):
            raise BadArgument(f"give out= for a {type(source.source).__name__}; only NumPy arrays "
                              "get a new output", -4, self.rank)
        array = numpy.empty(shape, source.source.dtype)
        return as_buffer(array), array

    def _allreduce(self, array: Any, op: Union[str, int] = "sum", *, out: Any = None,
                   name: Optional[str] = None, process_set: int = 0, priority: int = 0,
                   prescale: float = 1.0, postscale: float = 1.0,
                   timeout: Optional[float] = None, codec: Optional[str] = None) -> _Prepared:
        source = as_buffer(array)
        call = self.new_call(c.ALLREDUCE, name, process_set, priority, timeout)
        target, result = self._output(out, source, source.shape)
        call.input, call.output, call.count = source.address, target.address, source.count
        call.dtype, call.op = source.dtype, _op_for(source, op)
        call.prescale, call.postscale = prescale, postscale
        call.codec = c.encoded_codec(codec)
        c.set_shape(call, source.shape)
        return call, (source, target), lambda: result, name

    def start_allreduce(self, array: Any, *arguments: Any, **options: Any) -> Handle:
        """Start the reduction of `array` over all ranks."""
        return self.start(*self._allreduce(array, *arguments, **options))

    def allreduce(self, array: Any, op: Union[str, int] = "sum", **options: Any) -> Any:
        """The reduction of `array` over all ranks, on every rank. With `codec`, such as
        "int8:block=512", it is sent in fewer bytes; what that loses is kept under the call's name
        and added to its next array."""
        return self.run(*self._allreduce(array, op, **options))

    def _reduce(self, array: Any, op: Union[str, int] = "sum", root: int = 0, *, out: Any = None,
                name: Optional[str] = None, process_set: int = 0, priority: int = 0,
                prescale: float = 1.0, postscale: float = 1.0,
                timeout: Optional[float] = None) -> _Prepared:
        source = as_buffer(array)
        call = self.new_call(c.REDUCE, name, process_set, priority, timeout)
        c.set_shape(call, source.shape)
        target, result = None, None
        if self.set_rank(process_set) == root:
            target, result = self._output(out, source, source.shape)
            call.output = target.address
        call.input, call.count, call.root = source.address, source.count, root
        call.dtype, call.op = source.dtype, _op_for(source, op)
        call.prescale, call.postscale = prescale, postscale
        return call, (source, target), lambda: result, name

    def start_reduce(self, array: Any, *arguments: Any, **options: Any) -> Handle:
        """Start the reduction of `array` to one rank."""
        return self.start(*self._reduce(array, *arguments, **options))

    def reduce(self, array: Any, op: Union[str, int] = "sum", root: int = 0, **options: Any) -> Any:
        """The reduction of `array` over all ranks, on `root`; None elsewhere."""
        return self.run(*self._reduce(array, op, root, **options))

    def _broadcast(self, array: Any, root: int = 0, *, out: Any = None,
                   name: Optional[str] = None, process_set: int = 0, priority: int = 0,
                   timeout: Optional[float] = None) -> _Prepared:
        buffer = as_buffer(array)
        if out is not None:
            target, array = self._output(out, buffer, buffer.shape)
            if self.set_rank(process_set) == root:
                ctypes.memmove(target.address, buffer.address,
                               buffer.count * c.ITEM_BYTES[buffer.dtype])
            buffer = target
        if not buffer.is_writable and self.set_rank(process_set) != root:
            raise BadArgument("the array is read-only", -4, self.rank)
        call = self.new_call(c.BROADCAST, name, process_set, priority, timeout)
        call.input = call.output = buffer.address
        call.count, call.dtype, call.root = buffer.count, buffer.dtype, root
        c.set_shape(call, buffer.shape)
        return call, buffer, lambda: array, name

    def start_broadcast(self, array: Any, *arguments: Any, **options: Any) -> Handle:
        """Start copying root's `array` into that of every rank."""
        return self.start(*self._broadcast(array, *arguments, **options))

    def broadcast(self, array: Any, root: int = 0, **options: Any) -> Any:
        """Copy root's `array` into that of every rank, in place; with `out`, into `out`."""
        return self.run(*self._broadcast(array, root, **options))

    def _gathered(self, collective: int, array: Any, root: Optional[int], out: Any,
                  options: Dict[str, Any]) -> _Prepared:
        """The common part of allgather and gather."""
        source = as_buffer(array)
        if not source.shape:
            raise BadArgument("a scalar cannot be gathered; give it one axis", -4, self.rank)
        process_set = options.get("process_set", 0)
        is_target = root is None or self.set_rank(process_set) == root
        call = self.new_call(collective, options.get("name"), process_set,
                             options.get("priority", 0), options.get("timeout"))
        counts = (ctypes.c_uint64 * self.set_size(process_set))()
        result = Result(self)
        call.input, call.count, call.dtype = source.address, source.count, source.dtype
        call.root = root or 0
        c.set_shape(call, source.shape)
        call.output_counts = counts
        if is_target:
            call.result_out = result.out()

        def finish() -> Tuple[Any, List[int]]:
            return self._rows(result, source, counts, out) if is_target else (None, [])

        return call, (source, counts, result), finish, options.get("name")

    def _rows(self, result: Result, source: Buffer, counts: Any, out: Any) -> Tuple[Any, List[int]]:
        """Rows of all ranks, in `out` or a new array, and how many came from each."""
        row = row_count(source.shape) * source.width
        lengths = [count // row if row else 0 for count in counts]
        shape = (sum(lengths),) + tuple(source.shape[1:])
        if out is None:
            return self._adopt(result, source, shape), lengths
        target, out = self._output(out, source, shape)
        if result.address:
            ctypes.memmove(target.address, result.address,
                           target.count * c.ITEM_BYTES[target.dtype])
        result.free()
        return out, lengths

    def _allgather(self, array: Any, *, out: Any = None, **options: Any) -> _Prepared:
        return self._gathered(c.ALLGATHER, array, None, out, _known(options))

    def _gather(self, array: Any, root: int = 0, *, out: Any = None, **options: Any) -> _Prepared:
        return self._gathered(c.GATHER, array, root, out, _known(options))

    def start_gather(self, array: Any, *arguments: Any, **options: Any) -> Handle:
        """Start joining the arrays of all ranks on one rank; lengths may differ."""
        return self.start(*self._gather(array, *arguments, **options))

    def gather(self, array: Any, root: int = 0, **options: Any) -> Any:
        """The arrays of all ranks joined along the first axis, on `root`; None elsewhere."""
        return self.run(*self._gather(array, root, **options))[0]

    def _scatter(self, array: Any, root: int = 0, *, out: Any, name: Optional[str] = None,
                 process_set: int = 0, priority: int = 0,
                 timeout: Optional[float] = None) -> _Prepared:
        target = as_buffer(out)
        if not target.is_writable:
            raise BadArgument("out is read-only", -4, self.rank)
        call = self.new_call(c.SCATTER, name, process_set, priority, timeout)
        source = None
        if self.set_rank(process_set) == root:
            source = as_buffer(array)
            if (source.dtype, source.width) != (target.dtype, target.width):
                raise BadArgument("out has another type than the input", -4, self.rank)
            if source.count != target.count * self.set_size(process_set):
                raise BadArgument(f"the array has {source.count // source.width} elements; "
                                  f"{self.set_size(process_set)} parts like out have "
                                  f"{target.count * self.set_size(process_set) // target.width}",
                                  -4, self.rank)
            call.input = source.address
        call.output, call.count, call.dtype = target.address, target.count, target.dtype
        call.root = root
        return call, (source, target), lambda: out, name

    def start_scatter(self, array: Any, *arguments: Any, **options: Any) -> Handle:
        """Start sending part r of root's `array` to rank r."""
        return self.start(*self._scatter(array, *arguments, **options))

    def scatter(self, array: Any, root: int = 0, *, out: Any, **options: Any) -> Any:
        """This rank's part of root's `array`, in `out`; all parts have the same size. On other
        ranks than root `array` is ignored and may be None."""
        return self.run(*self._scatter(array, root, out=out, **options))

    def start_allgather(self, array: Any, *arguments: Any, **options: Any) -> Handle:
        """Start joining the arrays of all ranks along the first axis; lengths may differ."""
        return self.start(*self._allgather(array, *arguments, **options))

    def allgather(self, array: Any, **options: Any) -> numpy.ndarray[Any, Any]:
        """The arrays of all ranks joined along the first axis, in rank order."""
        joined: numpy.ndarray[Any, Any] = self.run(*self._allgather(array, **options))[0]
        return joined

    def _reducescatter(self, array: Any, op: Union[str, int] = "sum", *, out: Any = None,
                       name: Optional[str] = None, process_set: int = 0, priority: int = 0,
                       prescale: float = 1.0, postscale: float = 1.0,
                       timeout: Optional[float] = None, codec: Optional[str] = None) -> _Prepared:
        source = as_buffer(array)
        size, member = self.set_size(process_set), self.set_rank(process_set)
        if not source.shape:
            raise BadArgument("a scalar cannot be scattered; give it one axis", -4, self.rank)
        rows, row = source.shape[0], row_count(source.shape) * source.width
        parts = [rows // size + (1 if r < rows % size else 0) for r in range(size)]
        counts = (ctypes.c_uint64 * size)(*[part * row for part in parts])
        target, result = self._output(out, source,
                                      (parts[max(member, 0)],) + tuple(source.shape[1:]))
        call = self.new_call(c.REDUCESCATTER, name, process_set, priority, timeout)
        call.input, call.output, call.dtype = source.address, target.address, source.dtype
        call.op, call.prescale, call.postscale = _op_for(source, op), prescale, postscale
        call.codec = c.encoded_codec(codec)
        c.set_shape(call, source.shape)
        call.input_counts = counts
        call.output_capacity = target.count
        return call, (source, target, counts), lambda: result, name

    def start_reducescatter(self, array: Any, *arguments: Any, **options: Any) -> Handle:
        """Start a reduction of which every rank gets its part of the first axis; the first ranks
        get one row more where rows do not divide evenly."""
        return self.start(*self._reducescatter(array, *arguments, **options))

    def reducescatter(self, array: Any, op: Union[str, int] = "sum", **options: Any) -> Any:
        """This rank's part of the reduction; `codec` as in allreduce."""
        return self.run(*self._reducescatter(array, op, **options))

    def _alltoall(self, array: Any, splits: Optional[Iterable[int]] = None, *, out: Any = None,
                  name: Optional[str] = None, process_set: int = 0, priority: int = 0,
                  timeout: Optional[float] = None) -> _Prepared:
        source = as_buffer(array)
        size = self.set_size(process_set)
        if not source.shape:
            raise BadArgument("a scalar cannot be split; give it one axis", -4, self.rank)
        rows, row = source.shape[0], row_count(source.shape) * source.width
        if splits is None:
            if rows % size:
                raise BadArgument(f"{rows} rows do not divide by {size} ranks; give splits", -4,
                                  self.rank)
            splits = [rows // size] * size
        inputs = _counts(splits, size, "splits")
        if sum(inputs) != rows:
            raise BadArgument(f"splits add up to {sum(inputs)}, but there are {rows} rows", -4,
                              self.rank)
        for i in range(size):
            inputs[i] *= row
        outputs = (ctypes.c_uint64 * size)()
        result = Result(self)
        call = self.new_call(c.ALLTOALL, name, process_set, priority, timeout)
        call.input, call.dtype = source.address, source.dtype
        c.set_shape(call, source.shape)
        call.input_counts, call.output_counts = inputs, outputs
        call.result_out = result.out()

        def finish() -> Tuple[Any, List[int]]:
            return self._rows(result, source, outputs, out)

        return call, (source, inputs, outputs, result), finish, name

    def start_alltoall(self, array: Any, *arguments: Any, **options: Any) -> Handle:
        """Start sending splits[r] rows of `array` to rank r; without splits, equal parts."""
        return self.start(*self._alltoall(array, *arguments, **options))

    def alltoall(self, array: Any, splits: Optional[Iterable[int]] = None, **options: Any
                 ) -> Tuple[numpy.ndarray[Any, Any], List[int]]:
        """The rows that all ranks sent to this one, joined along the first axis, and how many
        came from each."""
        received, lengths = self.run(*self._alltoall(array, splits, **options))
        return received, lengths

    def send(self, array: Any, peer: int, *, tag: int = 0, process_set: int = 0,
             timeout: Optional[float] = None) -> None:
        """Send `array` to `peer`, which calls receive with the same tag."""
        source = as_buffer(array)
        call = self.new_call(c.SEND, None, process_set, 0, timeout)
        call.input, call.count, call.dtype = source.address, source.count, source.dtype
        call.root, call.tag = peer, tag
        self.run(call, source)

    def receive(self, array: Any, peer: int, *, tag: int = 0, process_set: int = 0,
                timeout: Optional[float] = None) -> Any:
        """Fill `array` with the next message of `peer` with this tag."""
        self._receive(array, peer, tag, process_set, timeout, ctypes.c_int())
        return array

    def receive_any(self, array: Any, *, tag: int = 0, process_set: int = 0,
                    timeout: Optional[float] = None) -> int:
        """Fill `array` with a message with this tag from any member of the set; returns the
        member."""
        source = ctypes.c_int()
        self._receive(array, c.ANY_SOURCE, tag, process_set, timeout, source)
        return source.value

    def _receive(self, array: Any, peer: int, tag: int, process_set: int,
                 timeout: Optional[float], source: ctypes.c_int) -> None:
        target = as_buffer(array)
        if not target.is_writable:
            raise BadArgument("the array is read-only", -4, self.rank)
        call = self.new_call(c.RECEIVE, None, process_set, 0, timeout)
        call.output, call.count, call.dtype = target.address, target.count, target.dtype
        call.root, call.tag, call.source_out = peer, tag, ctypes.pointer(source)
        self.run(call, (target, source))

    def barrier(self, *, process_set: int = 0, name: Optional[str] = None,
                timeout: Optional[float] = None) -> None:
        """Wait until every rank of the set has made this call."""
        self.run(self.new_call(c.BARRIER, name, process_set, 0, timeout), name=name)

    def _adopt(self, result: Result, source: Buffer, shape: Tuple[int, ...]
               ) -> numpy.ndarray[Any, Any]:
        """A NumPy array over memory that the C library allocated."""
        import numpy

        count = 1
        for extent in shape:
            count *= extent
        nbytes = count * source.width * c.ITEM_BYTES[source.dtype]
        address = result.take()
        if not address:
            return numpy.empty(shape, _numpy_dtype(source))
        array = self._owned(address, max(nbytes, 1))
        return numpy.frombuffer(memoryview(array), _numpy_dtype(source), count).reshape(shape)


def _known(options: Dict[str, Any]) -> Dict[str, Any]:
    strange = set(options) - {"name", "process_set", "priority", "timeout"}
    if strange:
        raise TypeError(f"unexpected keyword argument '{sorted(strange)[0]}'")
    return options


def row_count(shape: Sequence[int]) -> int:
    """Elements of one row: of everything but the first axis."""
    row = 1
    for extent in shape[1:]:
        row *= extent
    return row


def _numpy_dtype(source: Buffer) -> Any:
    import numpy

    if isinstance(source.source, numpy.ndarray):
        return source.source.dtype
    if source.width > 1:
        return numpy.dtype({c.F32: "c8", c.F64: "c16"}[source.dtype])
    names = {c.U8: "u1", c.I8: "i1", c.U16: "u2", c.I16: "i2", c.I32: "i4", c.I64: "i8",
             c.F16: "f2", c.F32: "f4", c.F64: "f8", c.BOOL: "?", c.BF16: "u2"}
    return numpy.dtype(names[source.dtype])


def _release(context_ref: weakref.ref[Context], address: int, arena: Optional[_Arena]) -> None:
    context = context_ref()
    if context is not None and context._pointer is not None:
        c.library.tutti_free(context._pointer, address)


def init(rank: Optional[int] = None, size: Optional[int] = None, *,
         rendezvous: Optional[str] = None, job_id: Optional[str] = None,
         secret: Optional[bytes] = None, transport: Optional[str] = None,
         timeout: Optional[float] = None, listen_fd: int = 0, servers: Optional[int] = None,
         log: Optional[Callable[[int, str], object]] = None) -> Context:
    """Join the job and return a Context when every rank has joined.

    Arguments that are left out come from the environment that `tutti run` (or mpirun, srun,
    torchrun) sets; outside of a launcher the job has one rank. `log(level, text)` gets the
    library's messages, which go to stderr otherwise. `listen_fd`: on rank 0, a socket that listens
    at `rendezvous`. `servers`: of `size` processes the last so many are servers."""
    options = c.Options()
    options.struct_bytes = ctypes.sizeof(c.Options)
    options.rank = -1 if rank is None else rank
    options.size = -1 if size is None else size
    for field, value in (("rendezvous", rendezvous), ("job_id", job_id), ("transport", transport)):
        setattr(options, field, None if value is None else value.encode())
    if secret is not None and len(secret) != 32:
        raise BadArgument("secret must be 32 bytes")
    options.secret = secret
    options.timeout_s = timeout or 0.0
    options.listen_fd = listen_fd
    options.servers = 0 if servers is None else servers or -1
    if log is not None:
        options.log = c.LOG(lambda _, level, text: log(level, text.decode(errors="replace")))
    slot = ctypes.c_void_p()
    status = c.library.tutti_init(ctypes.byref(options), ctypes.byref(slot))
    if status < 0:
        raise from_status(status, c.library.tutti_last_error(None).decode(errors="replace"))
    assert slot.value is not None
    context = Context(slot.value, options.log)
    last_words.watch(context)
    return context


__all__ = ["Buffer", "Context", "TuttiError", "init"]
