# SPDX-License-Identifier: Apache-2.0
"""Started calls as Work objects of torch.distributed."""

import sys
import threading
import time

import torch

import tutti

from . import completion

_Base = torch._C._distributed_c10d.Work


def _check(future):
    """The result; raises the exception with which the call failed. c10d's own way crashes DDP."""
    value = future.value()
    if isinstance(value, BaseException):
        raise value
    return value


class Work(_Base):
    """The waiting thread drives progress; a future is created only on request. `stores` run once,
    when all calls have succeeded."""

    def __init__(self, backend, handles, result, stores=(), source=None):
        super().__init__()
        self._backend, self._handles = backend, handles
        self._result, self._stores = result, stores
        self._source = source  # of a receive from any rank: written by the call
        self._lock = threading.Lock()  # one thread at a time uses the handles
        self._problem = self._future = None
        self._called = threading.Event()  # the future's callbacks have run
        self.is_over = False

    def poll(self):
        """Is it over? Never waits."""
        if self.is_over:
            return True
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if all(handle.poll() for handle in self._handles):
                self._end(None)
        except tutti.TuttiError as problem:  # the job was left
            self._problem, self.is_over = problem, True
        finally:
            self._lock.release()
        return self.is_over

    is_completed = poll

    def wait(self, timeout=None):
        """True, once it is over. TimedOut after `timeout`, a timedelta; the calls go on then."""
        if not self.is_over:
            seconds = timeout.total_seconds() if timeout else -1
            deadline = time.monotonic() + seconds if seconds > 0 else None
            if not self._lock.acquire(timeout=seconds if seconds > 0 else -1):
                raise _late(seconds)
            try:
                self._end(deadline)
            except TimeoutError:
                raise _late(seconds) from None
            finally:
                self._lock.release()
            if self._future is not None:
                completion.ring()
        if self._problem is not None:
            raise self._problem
        return True

    def cancel(self):
        """Cancel the calls that have not begun; a thread that waits for them gets the error."""
        for handle in list(self._handles):
            handle.cancel()

    def _end(self, deadline):
        while self._handles:
            try:
                self._handles[0].wait(deadline and max(0.0, deadline - time.monotonic()))
            except tutti.TuttiError as problem:
                self._problem = self._problem or problem
            del self._handles[0]
        if not self.is_over and self._problem is None:
            for store in self._stores:
                store()
        self.is_over, self._stores = True, ()

    def is_success(self):
        return self.poll() and self._problem is None

    def exception(self):
        return self._problem

    def result(self):
        self.wait()
        return self._result

    def synchronize(self):
        self.wait()

    def _source_rank(self):
        """The sender of a message received from any rank, numbered in the group."""
        if self._source is None:
            raise RuntimeError("only a receive without a source has a source rank")
        self.wait()
        return self._source.value

    def get_future(self):
        if self._future is None:
            inner = completion.future(self._backend, self._backend.job, self, self._value,
                                      self._called.set)
            self._future = inner.then(_check)
            if _is_asked_in_python():
                self._backend.chains.append(self)
        return self._future

    def _value(self):
        try:
            self.wait()
        except BaseException as problem:  # every error must reach the future's owner
            return problem
        return self._result

    def wait_for_callbacks(self):
        self._called.wait()


def _is_asked_in_python():
    """Is get_future called by Python code, which may add callbacks that start calls? DDP's own
    hook calls it from C++, and adds none."""
    try:
        return "get_future" in sys._getframe(2).f_code.co_names
    except ValueError:  # a thread without Python code
        return False


class Finished(_Base):
    """The Work of a call that has waited already; its caller does not use the result."""

    is_over = True

    def __init__(self, result):
        super().__init__()
        self._result = result

    def wait(self, timeout=None):
        return True

    synchronize = wait

    def is_completed(self):
        return True

    is_success = is_completed

    def exception(self):
        return None

    def result(self):
        return self._result

    def get_future(self):
        future = torch.futures.Future()
        future.set_result(self._result)
        return future


def _late(seconds):
    return tutti.errors.TimedOut(f"the call is not over after {seconds:g} s; it goes on", -8)
