# SPDX-License-Identifier: Apache-2.0
"""Buckets of CrossBarrier: which parameters are exchanged and updated together.

A bucket is a piece of the forward pass: parameters in the order of their first reader, whole
readers only, so that a layer waits for nothing that later layers read unless it is small."""

import collections

import torch

import tutti

from . import basics
from .unfinished import unfinished

# A bucket closes at a third of the bytes between it and the nearer end of the forward pass, but
# within these shares of all bytes: about 20 buckets. The first layers' gradients come last and are
# needed first, so what travels with them is waited for; the last layers' come first, and the wire
# is idle until such a bucket is whole.
_END_SHARE, _LEAST_SHARE, _MOST_SHARE = 1 / 3, 1 / 64, 1 / 10


class Bucket:
    """One exchange and one optimizer. Its gradients live side by side in one piece of memory per
    type, shared with the other ranks of the host where that is possible."""

    __slots__ = ("number", "parameters", "places", "flats", "missing", "handles", "calls",
                 "is_under_way", "is_due", "zero", "optimizer", "sources", "is_prompt", "absent",
                 "_shown")

    def __init__(self, number, parameters):
        self.number = number
        self.parameters = parameters
        self.places, self.flats = _lay_out(parameters)
        self.optimizer = self.sources = None
        self.is_prompt = False  # has no reader that announces itself: updated inside step()
        self.handles, self.calls = [], []
        self._shown = {}  # the unfinished tensors that users see
        self.begin()

    def begin(self):
        """A new step: every gradient is missing again."""
        self.missing = set(self.parameters)
        self.absent = []  # parameters that take part with zeros
        self.is_under_way = False
        self.is_due = False
        self.zero = None

    @property
    def has_begun(self):
        """Has a gradient arrived?"""
        return len(self.missing) < len(self.parameters)

    def take_in(self, p, settle):
        """Move p.grad to its place; zeros where there is none. Users see it as unfinished."""
        place = self.places[p]
        if p.grad is None:
            place.zero_()
            self.absent.append(p)
        elif p.grad.data_ptr() != place.data_ptr():
            place.copy_(p.grad)
        p.grad = self._shown[p] = unfinished(place, settle)
        self.missing.discard(p)

    def show(self):
        """The elements are final: users see plain tensors. A gradient that the user dropped
        meanwhile stays dropped."""
        for p, shown in self._shown.items():
            if p.grad is shown:
                p.grad = self.places[p]
        self._shown.clear()


def _lay_out(parameters):
    """Places of the gradients and the pieces of memory they lie in, one per type and device."""
    alike = collections.OrderedDict()
    for p in parameters:
        alike.setdefault((p.dtype, p.device), []).append(p)
    places, flats = {}, []
    for (dtype, device), members in alike.items():
        flat = _memory(sum(p.numel() for p in members), dtype, device)
        flats.append(flat)
        at = 0
        for p in members:
            places[p] = flat[at:at + p.numel()].view(p.shape)
            at += p.numel()
    return places, flats


def _memory(count, dtype, device):
    if device.type == "cpu" and count > 0:
        try:
            shared = basics.job().allocate(count * torch.empty((), dtype=dtype).element_size())
            return torch.frombuffer(shared, dtype=dtype)
        except tutti.TuttiError:  # no room: the sum is only slower
            pass
    return torch.zeros(count, dtype=dtype, device=device)


def _enough(before, total):
    """Bytes that make a bucket whole, `before` bytes after the begin of the forward pass."""
    share = _END_SHARE * min(before, total - before)
    return max(_LEAST_SHARE * total, min(_MOST_SHARE * total, share))


class Readers:
    """Which module reads which parameter first, learnt from the first forward pass."""

    def __init__(self, model, names):
        self._names = names
        self._modules = dict(model.named_modules())
        self._owners = collections.OrderedDict((p, []) for p in names)
        for path, module in self._modules.items():
            for p in module._parameters.values():
                if p in self._owners:
                    self._owners[p].append(path)
        self._place = {}

    def note(self, module):
        """`module` runs now."""
        self._place.setdefault(module, len(self._place))

    def of(self, p):
        """Modules that wait for p: its owners, and where none of them ran (some modules hand their
        children's parameters to a function), the nearest one around it that did."""
        owners = [self._modules[path] for path in self._owners[p]]
        if any(module in self._place for module in owners):
            return owners
        for path in self._owners[p]:
            while path:
                path = path.rpartition(".")[0]
                if self._modules[path] in self._place:
                    return owners + [self._modules[path]]
        return []

    def layout(self):
        """Names of each bucket's parameters, buckets by first use."""
        last = len(self._place)
        by_reader = collections.OrderedDict()
        for p in self._names:
            first = min((self._place.get(module, last) for module in self.of(p)), default=last)
            by_reader.setdefault(first, []).append(p)
        size = {p: p.numel() * p.element_size() for p in self._names}
        total = sum(size.values())
        buckets, bucket, used, before = [], [], 0, 0
        for first in sorted(by_reader):
            needs = sum(size[p] for p in by_reader[first])
            enough = _enough(before, total)
            if bucket and (used >= enough or needs >= enough or first == last):
                buckets.append(bucket)
                before += used
                bucket, used = [], 0
            bucket += by_reader[first]
            used += needs
        if bucket:
            buckets.append(bucket)
        return [[self._names[p] for p in members] for members in buckets]
