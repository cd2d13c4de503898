# SPDX-License-Identifier: Apache-2.0
"""Named reductions in place, declared once and started again every step: one call into C per
tensor, which passes an address and nothing else."""

import ctypes
import threading
import weakref

import torch

import tutti
from tutti import _library as c
from tutti.handle import drop

from . import basics
from .exceptions import HorovodInternalError
from .tensors import DTYPES, PLAIN, reduce_op, set_of

# Starting never blocks, so these two keep the interpreter's lock: releasing it and taking it again
# costs more than the call. tutti_restart gets a ready pointer and nothing to convert.
_restart = c.without_release("tutti_restart", None)
_restart_at = c.without_release("tutti_restart_at", [ctypes.c_void_p] * 3)
_poll, _wait, _IN_PROGRESS = c.library.tutti_poll, c.library.tutti_wait, c.IN_PROGRESS
_strided = torch.strided
_AGE_MAX = 8192
_SWEEP = 1024
_LOCK_S = 0.01


class Keeper(dict):
    """Repeated calls, by name and options. An entry that was not used while _AGE_MAX new ones were
    added is dropped: names that contain the number of the step are used only once."""

    __slots__ = ("age",)

    def __init__(self):
        super().__init__()
        self.age = 0  # entries added so far

    def add(self, key, kept):
        """Add an entry."""
        self.age += 1
        kept.used = self.age
        self[key] = kept
        if self.age % _SWEEP == 0:
            for old_key, old in list(self.items()):
                if self.age - old.used > _AGE_MAX and not old.is_running():
                    self.pop(old_key, None)
                    old.forget(old_key[0])


_kept = Keeper()
_latest = {}  # by name: the one that was started last


def _nobody():
    return None


class Kept:
    """A named reduction in place, declared once and started again every step: one call into C,
    which passes the address only if it has changed. The C library's handle is freed with this
    object: no thread can be inside a call on it then."""

    __slots__ = ("job", "pointer", "call", "dtype", "shape", "tensor", "started", "name", "options",
                 "address", "seen", "used", "lock")

    def __init__(self, job, call, tensor, name, options):
        slot = ctypes.c_void_p()
        status = c.library.tutti_declare(job._pointer, call, ctypes.byref(slot))
        if status < 0:
            error = job._error(status, name)
            raise HorovodInternalError(str(error)) from error
        self.job, self.pointer, self.call, self.name = job, slot, call, name
        self.dtype, self.shape, self.options = tensor.dtype, tensor.shape, options
        self.address, self.seen = tensor.data_ptr(), _nobody
        self.tensor = self.started = None  # while it runs: its memory, and its handle
        self.used = 0  # see Keeper
        self.lock = threading.Lock()  # held inside C: no restart while a thread waits

    def __del__(self):
        if c is not None and getattr(self, "job", None):
            drop(self.job, self.pointer, self.tensor)

    def is_running(self):
        """Is its last start in flight?"""
        started = self.started
        return started is not None and self.job._pointer is not None and not started.poll()

    def forget(self, name):
        """The Keeper has dropped it; `name` is the caller's name of it."""
        if _latest.get(name) is self:
            _latest.pop(name, None)

    def start(self, tensor, address):
        """A handle; or None if it cannot be started."""
        if address == self.address:
            status = _restart(self.pointer)
        else:
            status = _restart_at(self.pointer, address, address)
        if status < 0:
            return None
        self.tensor, self.address, self.used = tensor, address, _kept.age
        self.started = handle = KeptHandle()
        handle._kept = self
        return handle


class Declared(Kept):
    """One that is dropped with its owner, in flight or not."""

    __slots__ = ("memory",)

    def __init__(self, job, call, tensor, name, options):
        super().__init__(job, call, tensor, name, options)
        self.memory = tensor

    def __del__(self):
        if c is not None and getattr(self, "job", None):
            drop(self.job, self.pointer, self.memory)


class KeptHandle:
    """A started call of a Kept."""

    __slots__ = ("_kept", "_result", "_error")

    def _settle(self, kept, status):
        """Called with the lock, once."""
        self._result, self._error = kept.tensor, None
        if status < 0:
            text = c.library.tutti_handle_error(kept.pointer).decode(errors="replace")
            self._error = tutti.errors.from_status(status, text, kept.job.rank, kept.name)
        kept.tensor = kept.started = None
        self._kept = None  # last: other threads take the result from here on

    def poll(self):
        """Is it over? While another thread waits for it: has that thread seen its end?"""
        kept = self._kept
        if kept is not None and kept.lock.acquire(False):
            try:
                if self._kept is not None:
                    _check_alive(kept)
                    status = _poll(kept.pointer)
                    if status != _IN_PROGRESS:
                        self._settle(kept, status)
            finally:
                kept.lock.release()
        return self._kept is None

    def wait(self):
        """The tensor, once it is over. Ctrl-C interrupts the wait."""
        kept = self._kept
        while self._kept is not None:
            lock = kept.lock
            if lock.acquire(False) or lock.acquire(True, _LOCK_S):
                try:
                    if self._kept is not None:  # no other thread has seen it end
                        _check_alive(kept)
                        status = _wait(kept.pointer, 0.25)
                        if status != _IN_PROGRESS:
                            self._settle(kept, status)
                finally:
                    lock.release()
        if self._error is not None:
            raise HorovodInternalError(str(self._error)) from self._error
        return self._result


def _check_alive(kept):
    if kept.job._pointer is None:
        raise HorovodInternalError("the job was left before this call was waited for")


def _keep(key, tensor, process_set):
    """The Kept of `key` for a tensor like this one, created if necessary; None if the tensor needs
    more than an address, or if the one of this name still runs."""
    name, (op, prescale, postscale, _, *codec) = key
    job = basics._job
    if job is None or not tensor.is_cpu or tensor.dtype not in DTYPES:
        return None
    old = _kept.get(key)
    if old is not None and old.job is job:
        started = old.started
        if started is not None and not started.poll():
            return None
        _kept.pop(key, None)
    elif old is not None:
        _kept.clear()  # of a job that was left, which freed its handles
        _latest.clear()
    _latest.pop(name, None)
    call = job.new_call(c.ALLREDUCE, f"allreduce.{name}", set_of(process_set))
    call.dtype = DTYPES[tensor.dtype]
    call.op = reduce_op(op, tensor.dtype, False, "allreduce")
    call.prescale, call.postscale = prescale, postscale
    call.input = call.output = tensor.data_ptr()
    call.count = tensor.numel()
    c.set_shape(call, tensor.shape)
    if codec:
        call.codec, call.flags = c.encoded_codec(codec[0]), c.GRADIENT
    kept = Kept(job, call, tensor, f"allreduce.{name}", key[1])
    _kept.add(key, kept)
    return kept


def find_kept(tensor, name, options, process_set):
    """The Kept for a plain tensor in host memory, or None."""
    if (name is None or type(tensor) not in PLAIN or tensor.layout is not _strided
            or not tensor.is_contiguous()):
        return None
    kept = _kept.get((name, options))
    if (kept is None or kept.shape != tensor.shape or kept.dtype is not tensor.dtype
            or kept.job is not basics._job or not tensor.is_cpu):
        kept = _keep((name, options), tensor, process_set)
    else:
        kept.used = _kept.age
    return kept


def check_free(name, set_number):
    """Raise NameInUse (a ValueError, as in Horovod) if a reduction of this name is in flight."""
    kept = _latest.get(name)
    started = kept.started if kept is not None else None
    if (started is not None and kept.options[3] == set_number and kept.job is basics._job
            and not started.poll()):
        raise tutti.errors.NameInUse(kept.name, kept.job.rank)


def _start_found(tensor, name, options, process_set):
    """A handle for a tensor that does not match the latest Kept; None as find_kept."""
    check_free(name, options[3])
    kept = find_kept(tensor, name, options, process_set)
    if kept is None:
        return None
    kept.job.check_free(kept.name, options[3])
    _latest[name] = kept
    return kept.start(tensor, tensor.data_ptr())


def start_kept(tensor, name, options, process_set):
    """A handle of the call that is kept for such a tensor; None if there cannot be one. The first
    half is the path of nearly every gradient: it calls torch as little as possible. A tensor that
    is the same object in the same place still is strided and in host memory; all else may have been
    changed in place."""
    kept = _latest.get(name)
    if (kept is None or kept.started is not None or kept.options != options
            or kept.job is not basics._job):
        return _start_found(tensor, name, options, process_set)
    is_known = kept.seen() is tensor
    if ((not is_known and (type(tensor) not in PLAIN or tensor.layout is not _strided))
            or tensor.dtype is not kept.dtype or tensor.shape != kept.shape
            or not tensor.is_contiguous()):
        return _start_found(tensor, name, options, process_set)
    if kept.job._named:
        kept.job.check_free(kept.name, options[3])
    address = tensor.data_ptr()
    if not is_known or address != kept.address:
        if not tensor.is_cpu:
            return None
        if address == kept.address:
            kept.seen = weakref.ref(tensor)
    return kept.start(tensor, address)


class KeptGroup:
    """The calls of a named group in place, kept for the next step."""

    __slots__ = ("job", "calls", "slots", "names", "kinds", "addresses", "started", "used")

    def __init__(self, parts, names, tensors):
        self.job, self.names, self.started = basics.job(), names, []
        self.calls = (c.Call * len(parts))(*[part[0] for part in parts])
        self.slots = ctypes.c_void_p * len(parts)
        self.kinds = [(tensor.dtype, tensor.shape) for tensor in tensors]
        self.addresses = [0] * len(parts)
        self.used = 0  # see Keeper

    def is_running(self):
        """Is a call of it in flight?"""
        return self.job._pointer is not None and not all(handle.poll() for handle in self.started)

    def forget(self, name):
        """The Keeper has dropped it; there is no other reference."""

    def fits(self, tensors):
        """Are these tensors like the ones it was made for, with nothing to copy?"""
        return self.job is basics._job and len(tensors) == len(self.kinds) and all(
            tensor.is_cpu and (tensor.dtype, tensor.shape) == kind and tensor.is_contiguous()
            for tensor, kind in zip(tensors, self.kinds))

    def start(self, tensors):
        """Their handles."""
        if not all(handle.poll() for handle in self.started):
            raise tutti.errors.NameInUse(self.names[0], self.job.rank)
        for name in self.names if self.job._named else ():
            self.job.check_free(name, self.calls[0].set)
        calls, addresses = self.calls, self.addresses
        for i, tensor in enumerate(tensors):
            address = tensor.data_ptr()
            if addresses[i] != address:
                calls[i].input = calls[i].output = addresses[i] = address
        slots = self.slots()
        status = c.library.tutti_start_group(self.job._pointer, calls, len(tensors), slots)
        if status < 0:
            error = self.job._error(status, self.names[0])
            raise HorovodInternalError(str(error)) from error
        number = calls[0].set
        self.started = [tutti.Handle(self.job, slot, tensor, None, name, number)
                        for slot, tensor, name in zip(slots, tensors, self.names)]
        return self.started
