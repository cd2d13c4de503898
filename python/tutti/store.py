# SPDX-License-Identifier: Apache-2.0
"""Stores: tensors that workers push to and pull from at their own pace (tutti/store.h)."""

from __future__ import annotations

import ctypes
import os
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Optional, Tuple, Type, Union

from . import _library as c
from . import last_words
from ._rows import Chosen
from .buffers import Buffer, as_buffer
from .context import Context, _numpy_dtype
from .errors import BadArgument, ShutDown, Unsupported
from .handle import Handle

_REFUSED = (-4, -16)  # bad argument, wrong thread
_NO_SET = -1  # names of tensors are a store's own; this number is no process set's


class StoreHandle(Handle):
    """A started call on a store. It cannot be cancelled."""

    __slots__ = ("_counted",)

    def __init__(self, context: Context, pointer: Optional[int], keep: object,
                 finish: Callable[[], Any], call: Tuple[Optional[str], ctypes.c_int]) -> None:
        super().__init__(context, pointer, keep, finish, call[0], _NO_SET)
        self._counted = call[1]

    @property
    def counted(self) -> Optional[bool]:
        """Does this push count? False: it was too late for its quorum. None while the call is in
        flight, or if it failed."""
        if not self.poll() or self._error is not None:
            return None
        return bool(self._counted.value)


class _Tensor:
    """What add() was given."""

    __slots__ = ("encoded", "shape", "count", "dtype", "width", "numpy_dtype", "row")

    def __init__(self, encoded: bytes, first: Buffer) -> None:
        self.encoded, self.shape, self.count = encoded, first.shape, first.count
        self.dtype, self.width = first.dtype, first.width
        self.numpy_dtype: Any = None
        self.row = 0  # elements of a row; of what is no table 0


class _Wish:
    """What a call shall do: the buffers of C, the chosen rows, and what the caller gets."""

    __slots__ = ("source", "target", "chosen", "priority", "finish")

    def __init__(self, priority: int = 0) -> None:
        self.source: Optional[Buffer] = None
        self.target: Optional[Buffer] = None
        self.chosen: Optional[Chosen] = None
        self.priority = priority
        self.finish: Callable[[], Any] = lambda: None


class Store:
    """Tensors at owners: servers (`tutti run --servers`), the workers themselves, or both. Every
    worker opens it, adds the same tensors and closes it; pushes and pulls are each worker's own.

        with job.store(policy="stale:3", update="sgd:lr=0.1") as store:
            store.add("w", weights)                  # rank 0's first value counts
            for batch in batches:
                store.pull("w", out=weights)
                store.push("w", gradient(weights, batch))
                store.clock()                        # the iteration is over

    `policy`: "bulk", "stale:S", "async", "quorum:K". `update`: "sum", "add", "sgd:lr=0.1",
    "momentum:...", "adam:...". `codec`: "int8" and others, for fewer bytes. docs/servers.md has
    all of them. Arrays are those that collectives take;
    `start_*` forms return a handle at once. `context` None: the job that this process has
    joined.

    Of a table, such as an embedding, calls take `rows`, any whole numbers from 0 on:

            store.add("words", embedding, table=True)    # (vocabulary, width)
            values = store.pull("words", rows=batch)     # (len(batch), width)
            store.push("words", gradients, rows=batch)

    Rows may have any order. What is pushed to a row that is named twice is added."""

    def __init__(self, context: Optional[Context] = None, *, policy: str = "bulk",
                 update: str = "sum", codec: Optional[str] = None) -> None:
        self._pointer: Optional[int] = None
        self._context = _only_context() if context is None else context
        self._tensors: Dict[str, _Tensor] = {}
        self._running: weakref.WeakSet[Handle] = weakref.WeakSet()
        self.policy, self.update, self.codec = policy, update, codec
        self._completed = 0
        for what, text in (("policy", policy), ("update", update), ("codec", codec or "none")):
            if not isinstance(text, str):
                raise TypeError(f"{what} is a text such as 'stale:3', 'sgd:lr=0.1' or 'int8', not "
                                f"a {type(text).__name__}")
        config = c.StoreConfig(ctypes.sizeof(c.StoreConfig), policy.encode(), update.encode(),
                               codec.encode() if codec else None)
        slot = ctypes.c_void_p()
        self._check(_function("tutti_store_open")(self._context._checked(), ctypes.byref(config),
                                                  ctypes.byref(slot)))
        self._pointer = slot.value

    # ---- life ----

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], problem: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:  # else the other workers may never close it: the end of the job does
            self.close()

    @property
    def is_open(self) -> bool:
        """False once the store was closed, or the job was left."""
        return self._pointer is not None and self._context.is_open

    def close(self) -> None:
        """Every worker calls it; returns when all that live have. Refused while a call on the
        store is in flight. May be repeated."""
        if not self.is_open:
            self._pointer = None
            return
        running = [handle for handle in list(self._running) if not handle.poll()]
        if running:
            raise BadArgument(f"store: a call on '{running[0].name or 'its clock'}' is in flight; "
                              "wait for it before the store is closed", -4, self._context.rank)
        pointer, self._pointer = self._pointer, None
        status = _function("tutti_store_close")(pointer)
        if status in _REFUSED:  # a call whose handle was dropped is in flight: it is still open
            self._pointer = pointer
        self._check(status)

    def _check(self, status: int, name: Optional[str] = None) -> None:
        if status < 0:
            raise self._context._error(status, name)

    def _checked(self) -> int:
        self._context._checked()
        if self._pointer is None:
            raise ShutDown("the store is closed; open another one", -10, self._context.rank)
        return self._pointer

    # ---- tensors ----

    def add(self, name: str, first: Any, *, table: bool = False) -> None:
        """Add a tensor; every worker calls it, with the same count and type. Rank 0's `first` is
        its value; with update "sum" its elements are not read. `table`: rows of it can be chosen,
        which are its elements behind the first axis."""
        pointer, buffer, encoded = self._checked(), as_buffer(first), name.encode()
        tensor = _Tensor(encoded, buffer)
        if table:
            self._add_table(name, tensor, buffer)
            return
        if type(buffer.source).__module__ == "numpy":
            tensor.numpy_dtype = _numpy_dtype(buffer)
        status = _function("tutti_store_add")(pointer, encoded, buffer.address, buffer.count,
                                              buffer.dtype)
        self._check(status, name)
        self._tensors[name] = tensor

    def _add_table(self, name: str, tensor: _Tensor, buffer: Buffer) -> None:
        if not tensor.shape:
            raise BadArgument(f"'{name}' has no axis, so it is no table; give an array of rows", -4,
                              self._context.rank, name)
        tensor.row = tensor.width
        for extent in tensor.shape[1:]:
            tensor.row *= extent
        if type(buffer.source).__module__ == "numpy":
            tensor.numpy_dtype = _numpy_dtype(buffer)
        status = _function("tutti_store_add_table")(self._checked(), tensor.encoded, buffer.address,
                                                    tensor.shape[0], tensor.row, buffer.dtype)
        self._check(status, name)
        self._tensors[name] = tensor

    def _chosen(self, name: str, rows: Any) -> Optional[Chosen]:
        tensor = self._tensor(name)
        if rows is None:
            return None
        if tensor.row == 0:
            raise BadArgument(f"'{name}' is no table, so rows of it cannot be chosen; add it with "
                              "table=True", -4, self._context.rank, name)
        return Chosen(rows, tensor.row)

    def _tensor(self, name: str) -> _Tensor:
        try:
            return self._tensors[name]
        except KeyError:
            raise BadArgument(f"tensor '{name}' was not added to this store; call add() first",
                              -4, self._context.rank, name) from None

    def _matching(self, name: str, array: Any, what: str, chosen: Optional[Chosen]) -> Buffer:
        tensor, buffer = self._tensor(name), as_buffer(array)
        if (buffer.dtype, buffer.width) != (tensor.dtype, tensor.width):
            raise BadArgument(f"{what} has another type than tensor '{name}' of the store", -4,
                              self._context.rank, name)
        if chosen is not None:
            if buffer.count != chosen.count * tensor.row:
                raise BadArgument(f"{what} has {buffer.count // tensor.width} elements, "
                                  f"{chosen.count} rows of table '{name}' have "
                                  f"{chosen.count * tensor.row // tensor.width}", -4,
                                  self._context.rank, name)
        elif buffer.count != tensor.count:
            raise BadArgument(f"{what} has {buffer.count // tensor.width} elements, tensor "
                              f"'{name}' of the store has {tensor.count // tensor.width}", -4,
                              self._context.rank, name)
        return buffer

    def _output(self, name: str, out: Any, chosen: Optional[Chosen]) -> Tuple[Buffer, Any]:
        tensor = self._tensor(name)
        if out is None:
            if tensor.numpy_dtype is None:
                raise BadArgument(f"give out= for '{name}'; only tensors that were added as NumPy "
                                  "arrays get a new output", -4, self._context.rank, name)
            import numpy

            shape = tensor.shape if chosen is None else (chosen.count, *tensor.shape[1:])
            out = numpy.empty(shape, tensor.numpy_dtype)
        buffer = self._matching(name, out, "out", chosen)
        if not buffer.is_writable:
            raise BadArgument("out is read-only", -4, self._context.rank, name)
        return buffer, out

    # ---- calls ----

    def _wish_push(self, wish: _Wish, name: str, values: Any) -> None:
        source = self._matching(name, values, "the array", wish.chosen)
        merged = None if wish.chosen is None else wish.chosen.merged(source)
        wish.source = source if merged is None else as_buffer(merged)

    def _wish_pull(self, wish: _Wish, name: str, out: Any) -> None:
        chosen = wish.chosen
        target, result = self._output(name, out, chosen)
        room = None if chosen is None else chosen.room(target)
        wish.target = target if room is None else as_buffer(room)

        def finish() -> Any:
            if chosen is not None and room is not None:
                chosen.spread(room, target)
            return result

        wish.finish = finish

    def _start(self, verb: int, name: Optional[str], wish: _Wish) -> StoreHandle:
        pointer, priority = self._checked(), wish.priority
        self._context.check_free(None, 0)
        if not -32768 <= priority <= 32767:
            raise BadArgument(f"priority {priority} is out of range; use -32768 to 32767", -4,
                              self._context.rank, name)
        counted, clock = ctypes.c_int(1), ctypes.c_uint64()
        call = c.StoreCall()
        call.struct_bytes, call.verb, call.priority = ctypes.sizeof(call), verb, priority
        call.name = None if name is None else self._tensor(name).encoded
        call.input = None if wish.source is None else wish.source.address
        call.output = None if wish.target is None else wish.target.address
        if wish.chosen is not None:
            call.rows, call.row_count = wish.chosen.address, len(wish.chosen.numbers)
        if verb == c.STORE_CLOCK:
            call.clock_out = ctypes.pointer(clock)
        elif verb != c.STORE_PULL:
            call.counted_out = ctypes.pointer(counted)

        def finish() -> Any:
            if verb == c.STORE_CLOCK:
                self._completed = max(self._completed, clock.value)
                return clock.value
            return bool(counted.value) if verb == c.STORE_PUSH else wish.finish()

        slot = ctypes.c_void_p()
        self._check(_function("tutti_store_start")(pointer, ctypes.byref(call),
                                                   ctypes.byref(slot)), name)
        handle = StoreHandle(self._context, slot.value, (wish, counted, clock), finish,
                             (name, counted))
        self._running.add(handle)
        return handle

    def _wish(self, name: str, rows: Any, priority: int) -> _Wish:
        wish = _Wish(priority)
        wish.chosen = self._chosen(name, rows)
        return wish

    def start_push(self, name: str, values: Any, *, rows: Any = None, priority: int = 0
                   ) -> StoreHandle:
        """Start a push of this worker's present iteration. Its result is True, or False if it was
        too late for a quorum. Larger priorities go first."""
        wish = self._wish(name, rows, priority)
        self._wish_push(wish, name, values)
        return self._start(c.STORE_PUSH, name, wish)

    def start_pull(self, name: str, out: Any = None, *, rows: Any = None, priority: int = 0
                   ) -> StoreHandle:
        """Start a pull; its result is `out`, or a new NumPy array."""
        wish = self._wish(name, rows, priority)
        self._wish_pull(wish, name, out)
        return self._start(c.STORE_PULL, name, wish)

    def start_push_pull(self, name: str, values: Any, out: Any = None, *, rows: Any = None,
                        priority: int = 0) -> StoreHandle:
        """Start a push whose answer is the value with the push in it; its result is `out`, which
        may be `values`, or a new NumPy array."""
        wish = self._wish(name, rows, priority)
        self._wish_push(wish, name, values)
        self._wish_pull(wish, name, out)
        return self._start(c.STORE_PUSH_PULL, name, wish)

    def start_clock(self) -> StoreHandle:
        """Start the end of this worker's iteration; its result is how many it has completed."""
        return self._start(c.STORE_CLOCK, None, _Wish())

    def _refuse_under_quorum(self, name: str, what: str) -> None:
        if self.policy.startswith("quorum:"):
            raise BadArgument(f"under policy quorum a push ends with its iteration, so {what} "
                              f"would wait forever; call start_{what}, then clock, then wait for "
                              "it", -4, self._context.rank, name)

    def push(self, name: str, values: Any, *, rows: Any = None, priority: int = 0) -> None:
        """Returns when all owners have applied it; under bulk that is when all workers have
        pushed. Refused under a quorum."""
        self._refuse_under_quorum(name, "push")
        self.start_push(name, values, rows=rows, priority=priority).wait()

    def pull(self, name: str, out: Any = None, *, rows: Any = None, priority: int = 0) -> Any:
        """The value, in `out` or in a new NumPy array."""
        return self.start_pull(name, out, rows=rows, priority=priority).wait()

    def push_pull(self, name: str, values: Any, out: Any = None, *, rows: Any = None,
                  priority: int = 0) -> Any:
        """The value with this push in it, in one round trip. Refused under a quorum."""
        self._refuse_under_quorum(name, "push_pull")
        return self.start_push_pull(name, values, out, rows=rows, priority=priority).wait()

    def clock(self) -> int:
        """This worker's iteration is over; returns when its next one may start. The result is how
        many it has completed."""
        completed: int = self.start_clock().wait()
        return completed

    @property
    def completed(self) -> int:
        """How many iterations this worker has completed."""
        return self._completed

    def set(self, option: str, value: float, from_clock: Optional[int] = None) -> None:
        """One worker calls it: an option of the update, such as "lr", has this value for pushes of
        iterations from `from_clock` on; None: as soon as possible."""
        clock = c.STORE_NOW if from_clock is None else from_clock
        self._check(_function("tutti_store_set")(self._checked(), option.encode(), value, clock))

    # ---- files, and other owners ----

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Write all that the store has to one file: values, the update's state and options, the
        clock. Every worker calls it after the same iteration, with no call in flight; rank 0
        writes."""
        self._check(_function("tutti_store_save")(self._checked(), os.fsencode(path)))

    def load(self, path: Union[str, os.PathLike[str]]) -> None:
        """Go on from a file; every worker calls it, and rank 0 reads. Update, and count and type
        of tensors that were added, must be the same; servers, workers and policy may differ. A
        store that has failed because a server died goes on with the owners left. Add tensors
        before: those that the file alone has are kept, but cannot be used."""
        self._check(_function("tutti_store_load")(self._checked(), os.fsencode(path)))
        self._completed = self.count()["clock"]

    def reshard(self, servers: int) -> None:
        """From now on only the first `servers` servers own parts. Every worker calls it after the
        same iteration, with no call in flight."""
        self._check(_function("tutti_store_reshard")(self._checked(), servers))

    def count(self) -> Dict[str, Any]:
        """What has happened on the store: tutti_store_counts of tutti/store.h, by the names of its
        fields. "staleness" is a list of 64 counts."""
        counts = c.StoreCounts(ctypes.sizeof(c.StoreCounts))
        self._check(_function("tutti_store_count")(self._checked(), ctypes.byref(counts)))
        found = {field[0]: getattr(counts, field[0]) for field in counts._fields_[1:]}
        found["staleness"] = list(counts.staleness)
        return found


def _function(name: str) -> Any:
    function = getattr(c.library, name)
    if function is None:
        raise Unsupported(f"the C library {c.library._name} has no {name}; install a newer one")
    return function


def _only_context() -> Context:
    """The job that this process has joined."""
    found = [context for context in last_words.joined() if context.is_open]
    if len(found) != 1:
        raise BadArgument("this process has joined no job; call tutti.init() and keep its result"
                          if not found else
                          f"this process has joined {len(found)} jobs; give context=")
    return found[0]


__all__ = ["Store", "StoreHandle"]
