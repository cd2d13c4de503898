# SPDX-License-Identifier: Apache-2.0
"""Pieces of DistributedOptimizer: gradients that are exchanged together.

A piece is one block of memory, shared with the other ranks of the host where that is possible. Its
gradients lie there side by side, are summed there without a copy, and stay there as long as the
training loop keeps them (zero_grad(set_to_none=False)); new ones are copied in. Which parameters
share a piece depends on names and sizes alone, so it is the same on every rank. Every parameter
takes part in every step, so a piece becomes complete on every rank.

After the gradients there is one element for each of them, which is not 0 if some rank's gradient
was sparse: a rank without a gradient learns from it that the others' are.

A coded gradient has a piece of its own, without that element: what a codec loses is kept under the
piece's name, which is the parameter's, and codecs do not keep zeros zero."""

import re
import weakref

import torch

from . import basics, ops
from .buckets import shared_memory
from .compression import PLAIN
from .kept import Declared
from .tensors import DTYPES
from .unfinished import unfinished

# Smaller gradients share pieces of up to this size; larger ones have a piece of their own.
_PIECE_BYTES = 4 * 1024 * 1024
_ALIGNED_BYTES = 64


class Slot:
    """A parameter, and where its gradient is in this step."""

    __slots__ = ("parameter", "name", "codec", "owner", "passes_left", "is_in", "piece", "group",
                 "place", "shown", "plain", "sparse_dims", "__weakref__")

    def __init__(self, parameter, name, owner, passes, codec):
        self.parameter, self.name, self.passes_left = parameter, name, passes
        self.codec = codec  # see compression.Codecs
        self.owner = weakref.ref(owner)
        self.is_in = False  # the gradient was passed to the exchange
        self.piece = self.group = self.place = None
        self.shown = self.plain = None  # what users see meanwhile, and afterwards
        self.sparse_dims = 0

    def settled(self):
        """The gradient, for its reader: waits until it is final."""
        owner, p = self.owner(), self.parameter
        if owner is not None:
            owner._settle()
        return self.plain if p.grad is None or p.grad is self.shown else p.grad

    def hide(self):
        """Users see the gradient as unfinished."""
        shown = self.shown
        if shown is None:
            seen = self.plain
            if seen.is_sparse:  # torch has no such view of a sparse tensor
                seen = torch.zeros((), dtype=seen.dtype, device=seen.device).expand(seen.shape)
            shown = unfinished(seen, _settling(self))
        self.parameter.grad = self.shown = shown

    def show(self):
        """The elements are final. A gradient that the user replaced meanwhile stays as it is."""
        if self.parameter.grad is self.shown:
            self.parameter.grad = self.plain


def _settling(slot):
    """Holds a weak reference, because the parameter refers to it: both would never be freed."""
    reference, plain = weakref.ref(slot), slot.plain
    return lambda: plain if reference() is None else reference().settled()


def can_be_in_piece(p):
    """Are the parameter's gradients floating-point numbers in host memory, which can share a
    piece?"""
    return (p.device.type == "cpu" and p.layout is torch.strided and p.dtype in DTYPES
            and p.dtype.is_floating_point)


class Piece:
    """Slots whose gradients are exchanged as one."""

    __slots__ = ("slots", "name", "options", "missing", "job", "flat", "flags", "kept", "handle")

    def __init__(self, slots, options):
        self.slots, self.options = slots, options
        more = f"+{len(slots) - 1}" if len(slots) > 1 else ""
        self.name = slots[0].name[:230] + more
        self.job = self.flat = self.flags = self.kept = self.handle = None
        for slot in slots:
            slot.piece = self
        self.begin()

    @property
    def is_coded(self):
        """Is it one gradient that has a codec, or may get one by rule?"""
        return self.slots[0].codec != PLAIN

    @property
    def has_no_sparse(self):
        """Is it one gradient that is gathered instead if it is sparse: too large to be sent dense,
        or coded?"""
        p = self.slots[0].parameter
        return self.is_coded or (len(self.slots) == 1
                                 and p.numel() * p.element_size() > _PIECE_BYTES)

    def begin(self):
        """A new step: every gradient is missing again."""
        self.missing, self.handle = len(self.slots), None

    def settle_in(self):
        """Take memory of the current job, and declare the call that is started every step."""
        op, before, after, process_set = self.options
        first = self.slots[0].parameter
        step = _ALIGNED_BYTES // first.element_size()
        starts, at = [], 0
        for slot in self.slots:
            starts.append(at)
            at += -(-slot.parameter.numel() // step) * step
        if self.is_coded:
            at = first.numel()
        flat = shared_memory(at + (0 if self.is_coded else len(self.slots)), first.dtype,
                             first.device)
        for slot, start in zip(self.slots, starts):
            slot.place = flat[start:start + slot.parameter.numel()].view(slot.parameter.shape)
            slot.plain, slot.shown = slot.place, None
        name = f"allreduce.{self.name}"
        call, _, _ = ops.gradient_call(flat, op, name, process_set, (before, after),
                                       self.slots[0].codec)
        self.kept = Declared(basics.job(), call, flat, name, None)
        self.job, self.flat, self.flags = basics.job(), flat, flat[at:]

    def take_in(self, slot):
        """Move the gradient to its place; zeros if there is none. True if the piece is complete."""
        if self.job is not basics._job:
            self.settle_in()
        if self.missing == len(self.slots):
            self.flags.zero_()
        gradient, place = slot.parameter.grad, slot.place
        if gradient is None:
            place.zero_()
        elif gradient is not place:
            self._copy_in(slot, gradient, place)
        self.missing -= 1
        return self.missing == 0

    def _copy_in(self, slot, gradient, place):
        if gradient.is_sparse:
            slot.sparse_dims = gradient.sparse_dim()
            place.zero_().add_(gradient)
            if not self.is_coded:
                self.flags[self.slots.index(slot)] = 1.0
        else:
            place.copy_(gradient)
            if gradient.stride() != place.stride():  # the optimizer needs the parameter's strides
                slot.plain, slot.shown = gradient, None

    def start(self):
        """Start its exchange."""
        kept = self.kept
        if kept.started is not None:  # an earlier wait for it was interrupted
            kept.started.wait()
        self.handle = kept.start(self.flat, kept.address)
        if self.handle is None:
            self.handle = ops._start(kept.call, self.flat, None, kept.name)

    def wait(self):
        """Wait until its elements are final, and put them where the optimizer reads them."""
        self.handle.wait()
        flags = [0.0] if self.is_coded else self.flags.tolist()
        for slot, flag in zip(self.slots, flags):
            if flag:
                slot.plain = slot.place.to_sparse(slot.sparse_dims or 1)
            elif slot.plain is not slot.place:
                slot.plain.copy_(slot.place)
            slot.show()
            if slot.plain is not slot.place:
                slot.plain, slot.shown = slot.place, None


def _natural(slot):
    """Sort key: numbers in names compare as numbers, so that layers come in order."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part)
            for part in re.split(r"(\d+)", slot.name)]


def pieces_of(slots, options):
    """The slots in pieces."""
    pieces, members, used = [], [], 0
    for slot in sorted(slots, key=_natural):
        p = slot.parameter
        if slot.codec != PLAIN:
            pieces.append(Piece([slot], options))
            continue
        nbytes = p.numel() * p.element_size()
        if members and (used + nbytes > _PIECE_BYTES or p.dtype != members[0].parameter.dtype):
            pieces.append(Piece(members, options))
            members, used = [], 0
        members.append(slot)
        used += nbytes
    if members:
        pieces.append(Piece(members, options))
    return pieces
