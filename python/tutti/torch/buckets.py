# SPDX-License-Identifier: Apache-2.0
"""Buckets of CrossBarrier: which parameters are exchanged and updated together.

A bucket is a piece of the forward pass: parameters in the order of their first reader, whole
readers only. It has one optimizer, and a layer waits for all of its bucket, so small readers share
one and large ones have their own. Its gradients are sent in smaller pieces, so that the wire is
not idle until a bucket is complete. A coded gradient is a piece of its own, named after its
parameter."""

import collections
import itertools

import torch

import tutti

from . import basics
from .compression import PLAIN

# Neighbours in the forward pass are merged where that costs least, until there are at most
# _MOST_BUCKETS and no merge costs less than _NEXT_TO_NOTHING of all bytes.
_MOST_BUCKETS, _NEXT_TO_NOTHING = 20, 1 / 200
# Time of a layer's forward pass, in bytes sent, per byte of its parameters: a third of the
# computation is forward, and crossing pays where the exchange takes as long as the computation.
_FORWARD_SHARE = 1 / 3
# Time lost at the ends of the forward pass cannot be made up for: the first layers' gradients are
# ready last and needed first. A loss at this share of all bytes from the nearer end counts half as
# much as one at the end.
_END_SHARE = 1 / 5
# The smallest piece, as a share of all bytes, unless its bucket is smaller.
_PIECE_SHARE = 1 / 100


class Slot:
    """A parameter and the place of its gradient. `shown` is the place as users see it while the
    exchange is in flight."""

    __slots__ = ("parameter", "name", "codec", "passes_left", "bucket", "piece", "place",
                 "address", "shown", "is_in", "__weakref__")

    def __init__(self, parameter, name, passes, codec):
        self.parameter, self.name, self.passes_left = parameter, name, passes
        self.codec = codec  # see compression.Codecs
        self.bucket = self.piece = self.place = self.address = self.shown = None
        self.is_in = False  # the gradient is in its place


class Piece:
    """Gradients that are sent together, side by side in one block of memory, shared with the other
    ranks of the host where that is possible."""

    __slots__ = ("slots", "flat", "missing", "kept", "label", "codec")

    def __init__(self, slots, label):
        self.slots, self.missing, self.kept = slots, len(slots), None
        self.codec = slots[0].codec
        self.label = label if self.codec == PLAIN else f"gradient.{slots[0].name}"
        first = slots[0].parameter
        self.flat = shared_memory(sum(slot.parameter.numel() for slot in slots), first.dtype,
                                  first.device)
        at = 0
        for slot in slots:
            count = slot.parameter.numel()
            slot.piece = self
            slot.place = self.flat[at:at + count].view(slot.parameter.shape)
            slot.address = slot.place.data_ptr()
            at += count


class Bucket:
    """One optimizer, and the exchange of its gradients. `pieces` are lists of slots."""

    __slots__ = ("number", "slots", "pieces", "missing", "handles", "is_due", "zero", "optimizer",
                 "update", "sources", "is_prompt", "absent")

    def __init__(self, number, pieces):
        self.number = number
        self.slots = [slot for piece in pieces for slot in piece]
        self.pieces = [Piece(alike, f"{number}.{i}") for i, alike in
                       enumerate(alike for piece in pieces for alike in _alike(piece))]
        for slot in self.slots:
            slot.bucket = self
        self.optimizer = self.update = self.sources = None
        self.is_prompt = False  # no module is known to read it: updated inside step()
        self.handles = []
        self.begin()

    def begin(self):
        """A new step: every gradient is missing again."""
        self.missing = len(self.slots)
        for piece in self.pieces:
            piece.missing = len(piece.slots)
        for slot in self.slots:
            slot.is_in = False
        self.absent = []  # parameters that contribute zeros
        self.is_due = False
        self.zero = None

    @property
    def has_begun(self):
        """Has a gradient arrived?"""
        return self.missing < len(self.slots)

    def take_in(self, slot):
        """Move the gradient to its place; zeros if there is none. Users see it as unfinished.
        True if its piece is complete now."""
        p, piece = slot.parameter, slot.piece
        gradient = p.grad
        if gradient is None:
            slot.place.zero_()
            self.absent.append(p)
        elif gradient.data_ptr() != slot.address:
            slot.place.copy_(gradient)
        p.grad = slot.shown
        slot.is_in = True
        self.missing -= 1
        piece.missing -= 1
        return piece.missing == 0

    def show(self):
        """The elements are final: users see plain tensors. A gradient that the user dropped
        meanwhile stays dropped."""
        for slot in self.slots:
            if slot.is_in and slot.parameter.grad is slot.shown:
                slot.parameter.grad = slot.place

    def clear(self, set_to_none):
        """Clear the gradients, as zero_grad does."""
        for piece in self.pieces:
            if set_to_none:
                for slot in piece.slots:
                    slot.parameter.grad = None
            elif all(slot.parameter.grad is slot.place for slot in piece.slots):
                piece.flat.zero_()
            else:
                for slot in piece.slots:
                    if slot.parameter.grad is not None:
                        slot.parameter.grad.zero_()


def _alike(slots):
    """The slots in lists of one type and device; coded ones by themselves."""
    lists = collections.OrderedDict()
    for slot in slots:
        own = None if slot.codec == PLAIN else slot.name
        lists.setdefault((slot.parameter.dtype, slot.parameter.device, own), []).append(slot)
    return lists.values()


def shared_memory(count, dtype, device):
    """Zeros, in memory that the ranks of this host share if that is possible."""
    if device.type == "cpu" and count > 0:
        try:
            shared = basics.job().allocate(count * torch.empty((), dtype=dtype).element_size())
            return torch.frombuffer(shared, dtype=dtype)
        except tutti.TuttiError:  # no room: the sum is only slower
            pass
    return torch.zeros(count, dtype=dtype, device=device)


def _cost(sizes):
    """Time, in bytes sent, that one bucket of these readers loses compared with a bucket for each:
    transfers that could have overlapped with the first readers' computation, or computation that
    could have started earlier."""
    before, after, least = 0, sum(sizes), float("inf")
    for size in sizes:
        after -= size
        least = min(least, after + _FORWARD_SHARE * before)
        before += size
    return least


def _join(sizes):
    """How many readers each bucket has. `sizes` are the readers' bytes, by first use."""
    total, starts = sum(sizes), [0, *itertools.accumulate(sizes)]
    ends = list(range(len(sizes) + 1))  # bucket i has the readers from ends[i] to ends[i + 1]

    def cost(i):
        begin, end = ends[i], ends[i + 2]
        nearer = min(starts[begin], total - starts[end])
        return _cost(sizes[begin:end]) / (_END_SHARE * total + nearer)

    costs = [cost(i) for i in range(len(sizes) - 1)]
    while costs:
        at = costs.index(min(costs))
        little = _cost(sizes[ends[at]:ends[at + 2]]) <= _NEXT_TO_NOTHING * total
        if len(ends) - 1 <= _MOST_BUCKETS and not little:
            break
        del ends[at + 1], costs[at]
        for i in (at - 1, at):
            if 0 <= i < len(costs):
                costs[i] = cost(i)
    return [end - begin for begin, end in zip(ends, ends[1:])]


def _cut(sizes, least):
    """How many readers each piece of a bucket has. Gradients are ready last reader first, so a
    piece that is too small waits for the gradients of an earlier reader."""
    counts, count, held = [], 0, 0
    for size in reversed(sizes):
        count, held = count + 1, held + size
        if held >= least:
            counts.append(count)
            count = held = 0
    if count and counts:
        counts[-1] += count
    elif count:
        counts.append(count)
    return counts[::-1]


def _split(items, counts):
    """The items, in lists of these lengths."""
    rest = iter(items)
    return [list(itertools.islice(rest, count)) for count in counts]


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
        """Modules that wait for p: its owners; if none of them ran (some modules pass their
        children's parameters to a function), also the nearest enclosing module that did."""
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
        """Names of the parameters of each piece of each bucket, buckets by first use."""
        last = len(self._place)
        by_reader = collections.OrderedDict()
        for p in self._names:
            first = min((self._place.get(module, last) for module in self.of(p)), default=last)
            by_reader.setdefault(first, []).append(p)
        unread = by_reader.pop(last, None)  # no module is known to read these
        readers = [by_reader[first] for first in sorted(by_reader)]
        sizes = [sum(p.numel() * p.element_size() for p in members) for members in readers]
        counts, least = _join(sizes), _PIECE_SHARE * sum(sizes)
        layout = [_split(members, _cut(own, least)) for members, own in
                  zip(_split(readers, counts), _split(sizes, counts))]
        if unread:
            layout.append([[unread]])
        return [[[self._names[p] for members in piece for p in members] for piece in bucket]
                for bucket in layout]
