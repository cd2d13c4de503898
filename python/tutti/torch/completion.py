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
        self._ear = self._bell = None

    def future(self, context, handle, finish, wrap=None):
        """A future of finish(), called once `handle` is over. An exception becomes the future's,
        or wrap(exception) its value."""
        future = torch.futures.Future()
        with self._lock:
            self._pending.append((context, handle, future, finish, wrap))
            if self._thread is None or self._process != os.getpid():
                self._process = os.getpid()
                self._ear, self._bell = os.pipe()
                self._thread = threading.Thread(target=self._run, name="tutti-completer",
                                                daemon=True)
                self._thread.start()
        os.write(self._bell, b"x")
        return future

    def _run(self):
        while True:
            with self._lock:
                contexts = {context for context, *_ in self._pending}
            descriptors = {}
            for context in contexts:
                if context.is_open:
                    descriptors[c.library.tutti_event_fd(context._pointer)] = context
            readable, _, _ = select.select([self._ear, *descriptors], [], [])
            if self._ear in readable:
                os.read(self._ear, 4096)
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
