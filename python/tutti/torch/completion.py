# SPDX-License-Identifier: Apache-2.0
"""Started calls as torch futures: one thread sleeps until some of them end."""

import os
import select
import threading

import torch

from tutti import _library as c


class Completer:
    """Turns handles into futures. Calls may end in any order. The thread sleeps on the contexts'
    event descriptors and ends with the process."""

    def __init__(self):
        self._lock = threading.Lock()
        self._pending = []  # (context, handle, future)
        self._thread = None
        self._process = None
        self._wake = None

    def future(self, context, handle, finish, wrap=None):
        """A future of finish(), called once `handle` is over. An exception becomes the future's,
        or wrap(exception) its value."""
        future = torch.futures.Future()
        with self._lock:
            self._pending.append((context, handle, future, finish, wrap))
            if self._thread is None or self._process != os.getpid():
                self._process = os.getpid()
                self._wake = os.eventfd(0) if hasattr(os, "eventfd") else None
                if self._wake is None:
                    self._wake_read, self._wake_write = os.pipe()
                self._thread = threading.Thread(target=self._run, name="tutti-completer",
                                                daemon=True)
                self._thread.start()
        self._ring()
        return future

    def _ring(self):
        if self._wake is not None:
            os.eventfd_write(self._wake, 1)
        else:
            os.write(self._wake_write, b"x")

    def _quiet(self):
        if self._wake is not None:
            os.eventfd_read(self._wake)
        else:
            os.read(self._wake_read, 4096)

    def _run(self):
        wake = self._wake if self._wake is not None else self._wake_read
        while True:
            with self._lock:
                contexts = {context for context, *_ in self._pending}
            descriptors = {}
            for context in contexts:
                if context.is_open:
                    descriptors[c.library.tutti_event_fd(context._pointer)] = context
            readable, _, _ = select.select([wake, *descriptors], [], [])
            if wake in readable:
                self._quiet()
            for descriptor in readable:
                if descriptor in descriptors and descriptors[descriptor].is_open:
                    c.library.tutti_event_clear(descriptors[descriptor]._pointer)
            self._collect()

    def _collect(self):
        with self._lock:
            pending, self._pending = self._pending, []
        still = []
        for item in pending:
            context, handle, future, finish, wrap = item
            if context.is_open and not handle.poll():
                still.append(item)
                continue
            try:
                result = finish()
            except BaseException as problem:  # whatever it is, the future's owner must hear of it
                if wrap is None:
                    future.set_exception(problem)
                else:
                    future.set_result(wrap(problem))
            else:
                future.set_result(result)
        with self._lock:
            self._pending.extend(still)


completer = Completer()
