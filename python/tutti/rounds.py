# SPDX-License-Identifier: Apache-2.0
"""Rounds: ranks train on copies of a model and exchange now and then (tutti/sync.h)."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional

from . import _library as c
from .buffers import Buffer, as_buffer
from .context import Context
from .errors import BadArgument
from .store import _function, _only_context


class Rounds:
    """Exchanges in rounds, by a policy: "local:period=8", "outer:period=500,lr=0.7,momentum=0.9"
    or "pipeline:delay=1". Every rank makes the same calls.

        with tutti.init() as job:
            rounds = tutti.Rounds("local:period=8")
            rounds.add("w", weights)             # equal on all ranks now, and stays in place
            for batch in batches:
                weights -= rate * gradient(weights, batch)
                rounds.step()
            rounds.flush()                       # equal on all ranks again

    docs/synchronisation.md has the policies. Arrays are f32 or f64. `context` None: the job that
    this process has joined."""

    def __init__(self, policy: str, *, codec: Optional[str] = None,
                 context: Optional[Context] = None, process_set: int = 0) -> None:
        self._pointer: Optional[int] = None
        self._context = _only_context() if context is None else context
        self._buffers: List[Buffer] = []  # the library has their addresses
        self.policy, self.codec = policy, codec
        slot = ctypes.c_void_p()
        self._check(_function("tutti_sync_open")(
            self._context._checked(), process_set, policy.encode(),
            codec.encode() if codec else None, ctypes.byref(slot)))
        self._pointer = slot.value

    def _check(self, status: int, name: Optional[str] = None) -> None:
        if status < 0:
            raise self._context._error(status, name)

    def _checked(self) -> int:
        self._context._checked()
        if self._pointer is None:
            raise BadArgument("these rounds are closed; open others", -4, self._context.rank)
        return self._pointer

    def _add(self, function: str, name: str, values: Any) -> None:
        buffer = as_buffer(values)
        if not buffer.is_writable:
            raise BadArgument("the array is read-only", -4, self._context.rank, name)
        self._check(_function(function)(self._checked(), name.encode(), buffer.address,
                                        buffer.count, buffer.dtype), name)
        self._buffers.append(buffer)

    def add(self, name: str, values: Any) -> None:
        """Before the first step: values of the model, equal on all ranks; of a pipeline gradients.
        They are exchanged in place."""
        self._add("tutti_sync_add", name, values)

    def add_state(self, name: str, values: Any) -> None:
        """State of the optimizer; the policy's `state=` says what a round does with it."""
        self._add("tutti_sync_add_state", name, values)

    def _call(self, function: str) -> bool:
        ready = ctypes.c_int()
        self._check(_function(function)(self._checked(), ctypes.byref(ready)))
        return ready.value == 1

    def step(self) -> bool:
        """A step is over. True: values were changed, of a pipeline: are a gradient to be
        applied."""
        return self._call("tutti_sync_step")

    def flush(self) -> bool:
        """Merge all that is in flight, and exchange what has had steps since its last round. Of a
        pipeline: the oldest gradient in flight, until the result is False."""
        return self._call("tutti_sync_flush")

    def save(self) -> bytes:
        """What these rounds have beside the values, what is in flight included."""
        size, pointer = ctypes.c_size_t(), self._checked()
        save = _function("tutti_sync_save")
        save(pointer, None, 0, ctypes.byref(size))
        memory = ctypes.create_string_buffer(size.value)
        self._check(save(pointer, memory, size.value, ctypes.byref(size)))
        return memory.raw

    def load(self, state: bytes) -> None:
        """Go on from what save() returned on this rank; every rank calls it."""
        self._check(_function("tutti_sync_load")(self._checked(), state, len(state)))

    def count(self) -> Dict[str, Any]:
        """Steps, rounds, bytes, waits and the distance from the mean in the last round."""
        counts = c.SyncCounts(ctypes.sizeof(c.SyncCounts))
        self._check(_function("tutti_sync_count")(self._checked(), ctypes.byref(counts)))
        return {field[0]: getattr(counts, field[0]) for field in counts._fields_[1:]}

    def close(self) -> None:
        """What is in flight is waited for and dropped. May be repeated."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None and self._context.is_open:
            _function("tutti_sync_close")(pointer)
        self._buffers.clear()


__all__ = ["Rounds"]
