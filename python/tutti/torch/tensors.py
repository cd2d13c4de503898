# SPDX-License-Identifier: Apache-2.0
"""Tensors as arguments of calls: types, checks, staging in host memory."""

import warnings

import torch

from tutti import _library as c

from . import basics
from .basics import Adasum, Average, Max, Min, Product, Sum

DTYPES = {torch.uint8: c.U8, torch.int8: c.I8, torch.int16: c.I16, torch.int32: c.I32,
           torch.int64: c.I64, torch.float16: c.F16, torch.bfloat16: c.BF16,
           torch.float32: c.F32, torch.float64: c.F64, torch.bool: c.BOOL}
if hasattr(torch, "uint16"):
    DTYPES[torch.uint16] = c.U16
DEVICES = ("cpu", "cuda")
PLAIN = (torch.Tensor, torch.nn.Parameter)
OPS = {Average: c.AVERAGE, Sum: c.SUM, Adasum: c.ADASUM, Min: c.MIN, Max: c.MAX,
        Product: c.PRODUCT}


def check(tensor, what):
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{what} takes a torch.Tensor, not a {type(tensor).__name__}")
    basics.job()
    if tensor.is_sparse:
        raise ValueError(f"{what}: the tensor is sparse; use sparse_allreduce_async")
    if tensor.device.type == "meta":
        raise ValueError(f"{what}: the tensor is on the meta device and has no data")
    if tensor.device.type not in DEVICES:
        raise ValueError(f"{what}: the tensor is on {tensor.device}, which is not supported; "
                         f"move it to the CPU first")
    if tensor.layout is not torch.strided:
        raise ValueError(f"{what}: the layout {tensor.layout} is not supported; "
                         f"call tensor.to_dense() first")
    if tensor.dtype not in DTYPES and not tensor.is_complex():
        raise ValueError(f"{what}: tensor type {tensor.dtype} is not supported")


def check_rows(tensor, what):
    check(tensor, what)
    if tensor.dim() == 0:
        raise ValueError(f"{what} needs a tensor of at least one dimension")


def check_in_place(tensor, what):
    check(tensor, what)
    if not tensor.is_contiguous():
        raise ValueError(f"{what} works in place and needs a contiguous tensor; "
                         f"call tensor.contiguous() first")


class Staged:
    """A tensor's elements in host memory, and the way back.

    A device tensor is copied through pinned memory on its own stream; only the event of that copy
    is waited for. A complex tensor is seen as pairs of reals."""

    __slots__ = ("host", "device", "is_complex")

    def __init__(self, tensor):
        self.is_complex = tensor.is_complex()
        tensor = tensor.detach().resolve_conj().resolve_neg()  # memory holds the values themselves
        if self.is_complex:
            tensor = torch.view_as_real(tensor)
        self.device = None
        if tensor.device.type == "cpu":
            self.host = tensor if tensor.is_contiguous() else tensor.contiguous()
            return
        self.device = tensor.device
        self.host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.host.copy_(tensor, non_blocking=True)
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(tensor.device))
        event.synchronize()

    def back(self, host):
        """`host` on the device and with the type of the caller's tensor."""
        tensor = host if self.device is None else host.to(self.device)
        return torch.view_as_complex(tensor) if self.is_complex else tensor


def set_of(process_set):
    number = process_set._number()
    if not process_set.included():
        raise ValueError(f"Rank {basics.rank()} is not a member of the provided process set.")
    return number


def reduction(op, average):
    if average is not None:
        if op is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of "
                             "them.")
        warnings.warn("Parameter `average` has been replaced with `op`.", DeprecationWarning,
                      stacklevel=3)
        op = Average if average else Sum
    return Average if op is None else op


def reduce_op(op, dtype, is_complex, what):
    if op not in OPS:
        raise ValueError(f"{what}: op {op} does not exist")
    if is_complex and op not in (Sum, Average):
        raise ValueError(f"{what}: complex tensors support sum and average only")
    if op == Adasum and what != "allreduce":
        raise NotImplementedError(f"{what}: Adasum is supported by allreduce only")
    if op == Adasum and not dtype.is_floating_point:
        raise ValueError(f"{what}: Adasum is supported for floating-point tensors only")
    if dtype == torch.bool and op == Average:
        raise ValueError(f"{what}: the average of bool is not defined")
    return OPS[op]


def name_of(name, kind, process_set):
    return f"{kind}.{name}" if name is not None else basics.next_name(kind, process_set)
