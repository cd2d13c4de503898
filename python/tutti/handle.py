# SPDX-License-Identifier: Apache-2.0
"""Started calls: wait, poll, cancel, await. A handle may be dropped at any time."""

from __future__ import annotations

import collections
import ctypes
import threading
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Generator, Optional

from . import _library as c
from .errors import ShutDown, TuttiError, from_status

if TYPE_CHECKING:
    import asyncio

    from .context import Context


class Result:
    """Receives the address of memory that the C library allocates for a call's result. The memory
    is freed with this object unless it is taken."""

    __slots__ = ("_context", "_slot")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._slot = ctypes.c_void_p()

    def out(self) -> Any:
        """For the call's result_out; this object must live until the call is over."""
        return ctypes.pointer(self._slot)

    @property
    def address(self) -> Optional[int]:
        """Address of the elements; None if there are none."""
        return self._slot.value

    def take(self) -> Optional[int]:
        """The address, which now belongs to the caller."""
        address, self._slot.value = self._slot.value, None
        return address

    def free(self) -> None:
        """Free the memory. May be repeated."""
        address = self.take()
        if address and self._context._pointer is not None:
            c.library.tutti_free(self._context._pointer, address)

    def __del__(self) -> None:
        if c is not None:
            self.free()


class Dropped:
    """A call in flight whose handle was dropped, with the memory that it uses."""

    __slots__ = ("_context", "_pointer", "_keep", "__weakref__")

    def __init__(self, context: Context, pointer: Any, keep: object) -> None:
        self._context, self._pointer, self._keep = context, pointer, keep

    def poll(self) -> bool:
        """Is the call over? If so, its memory is released."""
        if self._pointer is not None and not self._context._is_gone:
            if self._context._pointer is None:  # the job is being left right now
                return False
            if c.library.tutti_poll(self._pointer) == c.IN_PROGRESS:
                return False
            c.library.tutti_handle_free(self._pointer)
        self._pointer = self._keep = None
        return True


_dropped: Deque[Dropped] = collections.deque()
# Never freed: the library may write into these buffers until the process has ended.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_dropped))


def drop(context: Context, pointer: Any, keep: object,
         _dropped: Deque[Dropped] = _dropped) -> Optional[Dropped]:
    """Drop a handle of the C library without waiting for its call. None if the call is over."""
    dropped = Dropped(context, pointer, keep)
    if dropped.poll():
        return None
    _dropped.append(dropped)
    return dropped


def sweep() -> None:
    """Poll two of the dropped calls. Starting a call does this, so that memory is released."""
    for _ in range(min(2, len(_dropped))):
        try:
            dropped = _dropped.popleft()
        except IndexError:  # another thread took the last one
            return
        if not dropped.poll():
            _dropped.append(dropped)


class Handle:
    """One started call. `wait()` gives its result or raises; `await handle` does the same without
    blocking the event loop. The buffers are kept alive until the call is over.

    Any thread may wait, poll or cancel. The C library's handle is freed with this object, not
    when the call is over: another thread may still be inside a call on it."""

    __slots__ = ("_context", "_pointer", "_keep", "_finish", "_result", "_error", "_is_over",
                 "_settling", "name", "process_set", "__weakref__")

    def __init__(self, context: Context, pointer: Optional[int], keep: object,
                 finish: Optional[Callable[[], Any]], name: Optional[str],
                 process_set: int = 0) -> None:
        self._context = context
        self._pointer = pointer
        self._result: Any = None
        self._error: Optional[TuttiError] = None
        self._keep = keep
        self._finish = finish
        self._is_over = False
        self._settling = threading.Lock()
        self.name = name
        self.process_set = process_set

    def _settle(self, status: int) -> None:
        with self._settling:  # finish() may take a result, which works only once
            if self._is_over:
                return
            if status < 0:
                text = c.library.tutti_handle_error(self._pointer).decode(errors="replace")
                self._error = from_status(status, text, self._context.rank, self.name)
            elif self._finish is not None:
                self._result = self._finish()
            self._is_over = True
            self._keep = self._finish = None

    def _answer(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def _check_alive(self) -> None:
        if self._context._pointer is None:  # the handle was freed with its context
            raise ShutDown("the job was left before this call was waited for", -10, None, self.name)

    def wait(self, timeout: Optional[float] = None) -> Any:
        """The result, once the call is over; TimeoutError after `timeout` seconds (the call goes
        on). Ctrl-C interrupts the wait at once; the call goes on."""
        while not self._is_over:
            self._check_alive()
            slice_s = 0.25 if timeout is None else min(timeout, 0.25)
            status = c.library.tutti_wait(self._pointer, slice_s)
            if status != c.IN_PROGRESS:
                self._settle(status)
            elif timeout is not None:
                timeout -= slice_s
                if timeout <= 0:
                    raise TimeoutError(f"call '{self.name or 'without a name'}' is not over yet")
        return self._answer()

    def poll(self) -> bool:
        """Is the call over? Never waits, never raises for a failed call."""
        if not self._is_over:
            self._check_alive()
            status = c.library.tutti_poll(self._pointer)
            if status != c.IN_PROGRESS:
                self._settle(status)
        return self._is_over

    def cancel(self) -> bool:
        """Cancel the call on every rank; False if it has begun already."""
        if self._is_over:
            return False
        self._check_alive()
        return bool(c.library.tutti_cancel(self._pointer) == c.OK)

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio  # here, because it costs 50 ms that few programs need

        if not self.poll():
            yield from self._context._bell(asyncio.get_running_loop()).ring_for(self).__await__()
        return self._answer()

    def __del__(self) -> None:
        pointer = getattr(self, "_pointer", None)
        if pointer is None or c is None:
            return
        if self._is_over:
            if self._context._pointer is not None:  # else it was freed with its context
                c.library.tutti_handle_free(pointer)
        else:
            dropped = drop(self._context, pointer, self._keep)
            if dropped is not None and self.name is not None:
                self._context._named[self.process_set, self.name] = dropped


class Bell:
    """Wakes the awaiting tasks of one event loop when calls end."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self._waiting: Dict[asyncio.Future[None], Handle] = {}
        self._fd = c.library.tutti_event_fd(context._pointer)
        if self._fd < 0:
            raise context._error(-14)

    def ring_for(self, handle: Handle) -> asyncio.Future[None]:
        """A future that is done when `handle` is over."""
        future = self._loop.create_future()
        if not self._waiting:
            self._loop.add_reader(self._fd, self._look)
        self._waiting[future] = handle
        self._loop.call_soon(self._look)  # it may have ended since it was polled
        return future

    def _look(self) -> None:
        if self._context._pointer is None:
            ended = list(self._waiting)
        else:
            c.library.tutti_event_clear(self._context._pointer)
            ended = [future for future, handle in self._waiting.items()
                     if future.cancelled() or handle.poll()]
        for future in ended:
            del self._waiting[future]
            if not future.done():
                future.set_result(None)
        if not self._waiting:
            self._loop.remove_reader(self._fd)
