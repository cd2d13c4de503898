# SPDX-License-Identifier: Apache-2.0
"""Started calls as torch futures: a thread sleeps until some of them end.

The futures of one group are completed in the order in which they were requested. Callbacks run in
that thread, and may wait for calls that they start: futures that are requested in a callback are
completed by another thread, one level further down."""

import atexit
import collections
import os
import select
import threading

import torch

from tutti import _library as c

_EXIT_S = 5.0

_here = threading.local()
_levels = []
_lock = threading.Lock()


def is_callback():
    """Does this code run in a callback?"""
    return getattr(_here, "level", 0) > 0


class Completer:
    """Completes futures. The thread sleeps on the contexts' event descriptors until the interpreter
    exits."""

    def __init__(self, level):
        self._level = level
        self._lock = threading.Lock()
        self._queues = {}  # by group: a deque of (context, handle, future, finish, done)
        self._thread = None
        self._is_stopping = False
        self._ear = self._bell = None

    def future(self, key, context, handle, finish, done):
        """A future whose value is finish(), called once `handle` is over and the futures of `key`
        that were requested before are complete; done() is called after its callbacks. finish() and
        done() must not raise."""
        future = torch.futures.Future()
        with self._lock:
            self._queues.setdefault(key, collections.deque()).append(
                (context, handle, future, finish, done))
            if self._thread is None:
                self._ear, self._bell = os.pipe()
                self._thread = threading.Thread(target=self._run, daemon=True,
                                                name=f"tutti-completer-{self._level}")
                self._thread.start()
        self.ring()
        return future

    def ring(self):
        if self._bell is not None:
            os.write(self._bell, b"x")

    def stop(self):
        """Stop the thread after the callbacks that run now; waits at most _EXIT_S seconds."""
        self._is_stopping = True
        self.ring()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_EXIT_S)

    def _run(self):
        _here.level = self._level + 1
        while not self._is_stopping:
            descriptors = self._descriptors()
            while self._collect():
                pass
            try:
                readable, _, _ = select.select([self._ear, *descriptors], [], [])
            except OSError:  # a context was left, which closed its descriptor
                continue
            if self._ear in readable:
                os.read(self._ear, 4096)
            for descriptor in readable:
                if descriptor in descriptors and descriptors[descriptor].is_open:
                    c.library.tutti_event_clear(descriptors[descriptor]._pointer)
                    for other in _levels:  # they sleep on the same descriptor
                        if other is not self:
                            other.ring()

    def _descriptors(self):
        with self._lock:
            contexts = {queue[0][0] for queue in self._queues.values() if queue}
        return {c.library.tutti_event_fd(context._pointer): context
                for context in contexts if context.is_open}

    def _collect(self):
        """Complete the futures that are due; False: none was."""
        with self._lock:
            due = [(key, queue[0]) for key, queue in self._queues.items()]
        any_over = False
        for key, (context, handle, future, finish, done) in due:
            if context.is_open and not handle.poll():
                continue
            any_over = True
            try:
                future.set_result(finish())  # runs callbacks
            finally:
                done()
                with self._lock:
                    queue = self._queues[key]
                    queue.popleft()
                    if not queue:
                        del self._queues[key]
        return any_over


def future(key, context, handle, finish, done):
    """As Completer.future, by the thread for the level of this code."""
    level = getattr(_here, "level", 0)
    with _lock:
        while len(_levels) <= level:
            _levels.append(Completer(len(_levels)))
        completer = _levels[level]
    return completer.future(key, context, handle, finish, done)


def ring():
    """Wake the threads: a call ended without an event, since it was waited for or its job left."""
    for completer in _levels:
        completer.ring()


@atexit.register
def _stop():
    """A daemon thread that takes the interpreter's lock after Python's exit is unwound by force. If
    it is inside torch then, in Future.set_result, that aborts the process."""
    for completer in reversed(_levels[:]):
        completer.stop()


def _forget():
    """A forked child has none of the threads."""
    global _lock
    _lock = threading.Lock()
    _levels.clear()
    _here.level = 0


os.register_at_fork(after_in_child=_forget)
