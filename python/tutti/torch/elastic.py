# SPDX-License-Identifier: Apache-2.0
"""Horovod's elastic names, as far as a job of fixed size goes: state that is saved, restored and
sent from rank 0, and a sampler that remembers what was seen. A job cannot yet grow or shrink."""

import copy
import functools

import torch
from torch.utils.data import Sampler

from . import basics
from .exceptions import HorovodInternalError
from .functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters


def run(func):
    """Call func(state, ...) with rank 0's state on every rank. Horovod would go on with fewer or
    more ranks after a failure; here the failure is raised, with what the script can do."""

    @functools.wraps(func)
    def wrapper(state, *arguments, **options):
        state.sync()
        try:
            return func(state, *arguments, **options)
        except HorovodInternalError as problem:
            raise HorovodInternalError(
                f"{problem}; a job of fixed size cannot go on without a rank: start it again, "
                "from the last checkpoint") from problem

    return wrapper


class TorchState:
    """Model, optimizer, samplers and plain values that are saved, restored and synchronised
    together."""

    def __init__(self, model=None, optimizer=None, **values):
        self.model, self.optimizer = model, optimizer
        self._names = list(values)
        self._callbacks = []
        for name, value in values.items():
            setattr(self, name, value)
        self.save()

    def register_reset_callbacks(self, callbacks):
        """Called by on_reset."""
        self._callbacks.extend(callbacks)

    def on_reset(self):
        """The ranks have changed."""
        for callback in self._callbacks:
            callback()

    def save(self):
        """Remember the present state."""
        self._saved = {name: _snapshot(getattr(self, name)) for name in self._all()}

    def restore(self):
        """Go back to the state last saved."""
        for name in self._all():
            value = getattr(self, name)
            if hasattr(value, "load_state_dict"):
                value.load_state_dict(copy.deepcopy(self._saved[name]))
            else:
                setattr(self, name, copy.deepcopy(self._saved[name]))

    def sync(self):
        """Rank 0's state on every rank, and save it."""
        for name in self._all():
            value = getattr(self, name)
            if isinstance(value, torch.nn.Module):
                broadcast_parameters(value.state_dict(), 0)
            elif isinstance(value, torch.optim.Optimizer):
                broadcast_optimizer_state(value, 0)
            elif hasattr(value, "load_state_dict"):
                value.load_state_dict(broadcast_object(value.state_dict(), 0, name))
            else:
                setattr(self, name, broadcast_object(value, 0, name))
        self.save()

    def commit(self):
        """Save; Horovod would also look for new hosts."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        """The hosts of a job do not change."""

    def _all(self):
        objects = [name for name in ("model", "optimizer") if getattr(self, name) is not None]
        return objects + self._names


def _snapshot(value):
    return copy.deepcopy(value.state_dict() if hasattr(value, "state_dict") else value)


class ElasticSampler(Sampler):
    """Each rank's share of a data set, less what was already seen in this epoch."""

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_indices = set()
        self.reset()

    def set_epoch(self, epoch):
        """A new epoch: nothing is seen yet."""
        self.epoch = epoch
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """This batch of the present order was seen."""
        self.record_indices(self.get_indices(batch_idx, batch_size))

    def record_indices(self, indices):
        """These elements were seen."""
        self.processed_indices.update(indices)

    def get_indices(self, batch_idx, batch_size):
        """The elements of a batch."""
        begin = batch_idx * batch_size
        return self.indices[begin:begin + batch_size]

    def reset(self):
        """Share out what is left over the ranks of now."""
        self.num_replicas, self.rank = basics.size(), basics.rank()
        left = [i for i in range(len(self.dataset)) if i not in self.processed_indices]
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            left = [left[i] for i in torch.randperm(len(left), generator=generator).tolist()]
        per_rank = -(-len(left) // self.num_replicas)
        padded = left + left[:per_rank * self.num_replicas - len(left)]
        self.remaining_indices = left
        self.indices = padded[self.rank:per_rank * self.num_replicas:self.num_replicas]

    def state_dict(self):
        """What restores this sampler elsewhere."""
        return {"epoch": self.epoch, "processed_indices": set(self.processed_indices)}

    def load_state_dict(self, state):
        """The state of state_dict()."""
        self.epoch = state["epoch"]
        self.processed_indices = set(state["processed_indices"])
        self.reset()

    def __iter__(self):
        return iter(self.indices)

    def __len__(self):
        return len(self.indices)
