# SPDX-License-Identifier: Apache-2.0
"""Tensors as a call needs them: an address in host memory, a count and a type; and the checks
before any data moves."""

import torch

from tutti import _library as c

from .tensors import DEVICES, DTYPES

# How an element is sent: the C library's type, how many of them, and the supported reductions
# (None: all).
_SUMS = (c.SUM, c.AVERAGE)
_KINDS = {dtype: (number, 1, None) for dtype, number in DTYPES.items()}
_KINDS.update({dtype: (number, 2, _SUMS) for dtype, number in (
    (torch.complex64, c.F32), (torch.complex128, c.F64), (torch.complex32, c.F16))})
_KINDS.update({getattr(torch, name): (number, 1, ()) for name, number in (
    ("uint32", c.I32), ("uint64", c.I64), ("float8_e4m3fn", c.U8), ("float8_e5m2", c.U8),
    ("float8_e4m3fnuz", c.U8), ("float8_e5m2fnuz", c.U8), ("float8_e8m0fnu", c.U8))
    if hasattr(torch, name)})


def dtype_of_plain(tensor):
    """The C library's type of a tensor that can be summed in place; None: it needs a View."""
    if tensor.is_cpu and tensor.layout is torch.strided and tensor.is_contiguous() and \
            not tensor.is_neg():
        return DTYPES.get(tensor.dtype)
    return None


class View:
    """A tensor's elements in contiguous host memory. `store` writes them back where that is a
    copy."""

    __slots__ = ("tensor", "host", "dtype", "count", "address")

    def __init__(self, tensor, is_output=False):
        kind = _KINDS.get(tensor.dtype)
        if kind is None or tensor.layout is not torch.strided:
            _refuse_kind(tensor)
        self.dtype, width, _ = kind
        self.tensor = tensor
        if tensor.is_cpu and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
            self.host = tensor
        else:
            self._stage(is_output)
        self.count = tensor.numel() * width
        self.address = self.host.data_ptr()

    def _stage(self, is_output):
        if self.tensor.device.type not in DEVICES:
            raise NotImplementedError(f"a tensor on {self.tensor.device} is not supported; move it "
                                      f"to the CPU first")
        plain = self.tensor.detach()
        if is_output:
            self.host = torch.empty(plain.shape, dtype=plain.dtype)
        else:
            self.host = plain.resolve_conj().resolve_neg().to("cpu").contiguous()
            if self.host.data_ptr() == plain.data_ptr():  # for example of one element
                self.host = self.host.clone()

    @property
    def bytes(self):
        return self.count * c.ITEM_BYTES[self.dtype]

    def leave(self):
        """Use other memory than the tensor's until `store`."""
        if self.host is self.tensor:
            self.host = torch.empty(self.tensor.shape, dtype=self.tensor.dtype)
            self.address = self.host.data_ptr()

    def store(self):
        if self.host is not self.tensor:
            self.tensor.detach().copy_(self.host)


def _refuse_kind(tensor):
    if tensor.layout is not torch.strided:
        raise NotImplementedError(f"a tensor of layout {tensor.layout} is not supported; sparse "
                                  f"ones are supported by all_reduce only")
    raise NotImplementedError(f"tensor type {tensor.dtype} is not supported")


def told(tensor):
    """Shape and type, for messages."""
    return f"{tuple(tensor.shape)} of {str(tensor.dtype).replace('torch.', '')}"


def _check_written(tensor, what):
    """Several elements must not share one address."""
    if any(stride == 0 and extent > 1 for stride, extent in zip(tensor.stride(), tensor.shape)):
        raise ValueError(f"{what} {told(tensor)} is expanded: several of its elements share memory"
                         f"; clone it first")


def output(tensor):
    """A view to be written."""
    view = View(tensor, is_output=True)
    _check_written(tensor, "output")
    return view


def both(tensor):
    """A view to be read and written."""
    view = View(tensor)
    _check_written(tensor, "tensor")
    return view


def check_reduction(tensor, op, names):
    """Does this type support this operation?"""
    allowed = _KINDS[tensor.dtype][2]
    if allowed is not None and op not in allowed:
        has = "sum and average only" if allowed else "no arithmetic: it can be moved, not reduced"
        raise NotImplementedError(f"{names[op]} of {tensor.dtype}: this type supports {has}")


def check_dtype(target, source):
    if target.dtype != source.dtype:
        raise TypeError(f"output {told(target)} and input {told(source)} have different types")


def check_gathered(target, source, size):
    """An output for `size` inputs like this one."""
    check_dtype(target, source)
    if target.numel() != size * source.numel():
        raise ValueError(f"output {told(target)} has {target.numel()} elements; {size} ranks with "
                         f"an input {told(source)} need {size * source.numel()}")


def check_scattered(target, source, size):
    """An input that is `size` outputs like this one."""
    check_dtype(target, source)
    if source.numel() != size * target.numel():
        raise ValueError(f"input {told(source)} has {source.numel()} elements; {size} ranks with "
                         f"an output {told(target)} need {size * target.numel()}")


def check_list(tensors, size, what):
    if len(tensors) != size:
        raise ValueError(f"{what} is a list of {len(tensors)} tensors; {size} are needed")


def check_alike(tensors, other, what):
    """Each tensor must have the type and the count of `other`."""
    for index, tensor in enumerate(tensors):
        if tensor.dtype != other.dtype or tensor.numel() != other.numel():
            raise ValueError(f"{what}[{index}] is {told(tensor)}, the other side {told(other)}")


def check_splits(tensor, splits, size, what):
    """Elements for each rank; without splits, equal parts of the first dimension."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not splits:
        if rows % size:
            raise ValueError(f"{what} {told(tensor)} does not divide by {size} ranks; give its "
                             f"split sizes")
        splits = [rows // size] * size
    if len(splits) != size or any(split < 0 for split in splits) or sum(splits) != rows:
        raise ValueError(f"{what} {told(tensor)} has split sizes {list(splits)}; {size} are needed "
                         f"that add up to {rows}")
    row = _KINDS[tensor.dtype][1] * (tensor.numel() // rows if rows else 0)
    return [split * row for split in splits]


def overlap(one, other):
    """Do two views share memory?"""
    return one.address < other.address + other.bytes and other.address < one.address + one.bytes
