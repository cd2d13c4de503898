# SPDX-License-Identifier: Apache-2.0
"""Horovod's elastic interface for a job of fixed size: state that is saved, restored and broadcast
from rank 0; a loop that returns to the last commit and joins again after a failed call; a sampler
that remembers its position. A job cannot grow or shrink yet: features that need it raise an
error."""

from __future__ import annotations

import copy
import functools
import random
from typing import Any, Callable

import torch
from torch.utils.data import Sampler

from tutti.errors import PeerDown, PeerLeft, ShutDown

from . import basics
from .exceptions import HorovodInternalError, HostsUpdatedInterrupt
from .functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters

_TRIES = 3  # failures in a row, without a commit between them


def reset() -> None:
    """Leave the job and join it again, with the same ranks."""
    basics.shutdown()
    basics.init()


def run_fn(func, reset):
    """Call func(state, ...) with rank 0's state on every rank; after a failed call again, from the
    last commit; after a change of hosts again, from the current state."""

    @functools.wraps(func)
    def wrapper(state, *arguments, **options):
        has_changed, skips_sync = False, False
        while True:
            if has_changed:
                reset()
                state.on_reset()
            if not skips_sync:
                state.sync()
            skips_sync = False
            try:
                return func(state, *arguments, **options)
            except HorovodInternalError as problem:
                _check_that_all_are_left(problem, state)
                state.restore()
            except HostsUpdatedInterrupt as interrupt:
                skips_sync = interrupt.skip_sync
            has_changed = True

    return wrapper


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates func(state, ...). Horovod would continue with fewer or more ranks; here all of them
    are needed, and the loss of one is raised as an error that names the cure."""
    return run_fn(func, reset)


def _check_that_all_are_left(problem, state):
    if isinstance(problem.__cause__, (PeerDown, PeerLeft, ShutDown)):
        raise HorovodInternalError(
            f"{problem}; a job of fixed size cannot go on without a rank: start it again, "
            "from the last checkpoint") from problem
    state._failures += 1
    if state._failures >= _TRIES:
        raise problem


class State:
    """State that is kept in memory and must be the same on all ranks."""

    def __init__(self, bcast_object, get_rank):
        self._bcast_object, self._rank = bcast_object, get_rank
        self._has_new_hosts = False
        self._failures = 0
        self._reset_callbacks = []

    def register_reset_callbacks(self, callbacks):
        """Called by on_reset, for example to set the learning rate anew."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        """The job was joined again."""
        self._has_new_hosts = False
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp, update_res=None):
        """To be called on every rank when hosts have changed."""
        self._has_new_hosts = True

    def commit(self):
        """Save, and let a change of hosts interrupt."""
        self.save()
        self._failures = 0
        self.check_host_updates()

    def check_host_updates(self):
        """Raise HostsUpdatedInterrupt if on_hosts_updated was called. Tutti itself never calls it:
        the hosts of a job do not change."""
        if self._has_new_hosts:
            self._has_new_hosts = False
            raise HostsUpdatedInterrupt()

    def save(self):
        """Save the current state."""
        raise NotImplementedError

    def restore(self):
        """Go back to the state last saved."""
        raise NotImplementedError

    def sync(self):
        """Copy rank 0's state to every rank."""
        raise NotImplementedError

    def reset(self):
        """Called by on_reset, before the callbacks."""


class ObjectState(State):
    """Plain values, as attributes."""

    def __init__(self, bcast_object=broadcast_object, get_rank=basics.rank, **kwargs):
        super().__init__(bcast_object, get_rank)
        self._saved_state = kwargs
        self._set_attributes()

    def _set_attributes(self):
        for name, value in self._saved_state.items():
            setattr(self, name, copy.deepcopy(value))

    def save(self):
        self._saved_state = {name: copy.deepcopy(getattr(self, name))
                             for name in self._saved_state}

    def restore(self):
        self._set_attributes()

    def sync(self):
        if self._saved_state:
            self.save()
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attributes()


class StateHandler:
    """How one kind of object is saved, restored and sent."""

    def __init__(self, value):
        self.value = value
        self.save()

    def save(self):
        """Save its state."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self):
        """Go back to the saved state."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self):
        """Copy rank 0's state to every rank."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))
        self.save()

    def set_value(self, value):
        """Handle another object from now on."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """Modules: tensors in place."""

    def sync(self):
        broadcast_parameters(self.value.state_dict(), 0)
        self.save()


class OptimizerStateHandler(StateHandler):
    """Optimizers: tensors in place, the rest as an object."""

    def sync(self):
        broadcast_optimizer_state(self.value, 0)
        self.save()


class SamplerStateHandler(StateHandler):
    """Samplers: their own state."""


class LRSchedulerStateHandler(StateHandler):
    """Schedulers of learning rates: their own state."""


_SCHEDULER = getattr(torch.optim.lr_scheduler, "LRScheduler", None) or \
    torch.optim.lr_scheduler._LRScheduler


class ElasticSampler(Sampler):
    """Each rank's share of a data set, without the samples already seen in this epoch. Call
    record_batch after each batch, and set_epoch when an epoch is over."""

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch):
        """Begin a new epoch: no sample is seen yet."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """Every rank has seen a batch of this size."""
        self.processed_num += batch_size * self.num_replicas

    def reset(self):
        """Divide the remaining samples among the current ranks."""
        self.num_replicas, self.rank = basics.size(), basics.rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num:]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def state_dict(self):
        """The state from which load_state_dict restores a sampler."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict):
        """Restore the state of state_dict()."""
        self.epoch, self.processed_num = state_dict["epoch"], state_dict["processed_num"]
        self.reset()

    def __iter__(self):
        left = self.remaining_indices  # from its beginning again, until it divides evenly
        self.indices = [left[i % len(left)]
                        for i in range(self.rank, self.total_size, self.num_replicas)]
        return iter(self.indices)

    def __len__(self):
        return self.num_samples


_handler_registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (_SCHEDULER, LRSchedulerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> Any:
    """Pairs of a class and the StateHandler for its objects."""
    return _handler_registry


def set_handler_registry(registry: Any) -> None:
    """Replace these pairs."""
    global _handler_registry
    _handler_registry = registry


class TorchState(ObjectState):
    """Models, optimizers, schedulers, samplers and plain values that are saved, restored and
    synchronised together, as attributes."""

    def __init__(self, model=None, optimizer=None, **kwargs):
        self._handlers, plain = {}, {}
        for name, value in {**kwargs, "model": model, "optimizer": optimizer}.items():
            handler = next((handler for kind, handler in _handler_registry
                            if isinstance(value, kind)), None)
            if handler is None:
                plain[name] = value
            else:
                self._handlers[name] = handler(value)
                object.__setattr__(self, name, value)
        super().__init__(**plain)

    def save(self):
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self):
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self):
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self):
        """Samplers divide the remaining samples again."""
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()

    def __setattr__(self, name, value):
        if name in self.__dict__.get("_handlers", {}):
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)
