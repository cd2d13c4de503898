# SPDX-License-Identifier: Apache-2.0
"""Collectives on tensors: blocking, started, in place, grouped, differentiable."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, List, Optional, Sequence, Union

import torch

import tutti
from tutti import _library as c
from tutti import errors
from tutti.context import row_count
from tutti.handle import Result

from . import basics
from .basics import (Adasum, Average, Max, Min, ProcessSet, Product, Sum,
                     global_process_set)
from .compression import Compressing, Compression, codec_for, split
from .exceptions import HorovodInternalError
from .kept import KeptGroup, KeptHandle, Keeper, check_free, find_kept, start_kept
from .tensors import (DTYPES, Staged, check, check_in_place, check_rows, name_of, reduce_op,
                      reduction, set_of)


class TensorHandle:
    """A started call on one tensor, or on the tensors of a group, for poll and synchronize."""

    __slots__ = ("_handles", "_finish", "_result", "_finishing")

    def __init__(self, handles, finish):
        self._handles = handles  # None: the result is there
        self._finish = finish
        self._result = None
        self._finishing = threading.Lock()

    def poll(self):
        """Is it over?"""
        handles = self._handles  # another thread may take them away
        return handles is None or all(handle.poll() for handle in handles)

    def wait(self):
        """The result, once it is over."""
        handles = self._handles
        if handles is not None:
            problem = None
            for handle in handles:  # all, so that no buffer is in use any more
                try:
                    handle.wait()
                except tutti.TuttiError as error:
                    problem = problem or error
            if problem is not None:
                raise HorovodInternalError(str(problem)) from problem
            with self._finishing:
                if self._handles is not None:
                    self._result = self._finish()
                    self._handles = self._finish = None
        return self._result


def _start(call, keep, finish, name):
    """One call as a TensorHandle."""
    try:
        handle = basics.job().start(call, keep, None, name)
    except errors.NameInUse:  # a ValueError, as in Horovod
        raise
    except tutti.TuttiError as error:
        raise HorovodInternalError(str(error)) from error
    return TensorHandle([handle], finish if finish is not None else lambda: keep)


# ---- allreduce ----

def _allreduce_call(tensor, output, op, name, process_set, scales, codec=None):
    """The call, the objects to keep alive, and the function that makes the result. `output` None: a
    new tensor."""
    staged = Staged(tensor)
    source = staged.host
    is_in_place = output is tensor
    target = source if is_in_place or staged.device is not None else torch.empty_like(source)
    if is_in_place and not source.data_ptr() == tensor.data_ptr() and staged.device is None:
        raise ValueError("allreduce_ needs a contiguous tensor")
    call = basics.job().new_call(c.ALLREDUCE, name, set_of(process_set))
    call.dtype = DTYPES[source.dtype]
    call.op = reduce_op(op, source.dtype, staged.is_complex, "allreduce")
    call.prescale, call.postscale = scales
    call.input, call.output = source.data_ptr(), target.data_ptr()
    call.count = source.numel()
    call.codec = c.encoded_codec(codec)
    c.set_shape(call, source.shape)

    def finish():
        if not is_in_place:
            return staged.back(target)
        if staged.device is not None:
            tensor.detach().copy_(staged.back(target), non_blocking=True)
        return tensor

    return call, (source, target, tensor), finish


def gradient_call(tensor, op, name, process_set, scales, codec):
    """_allreduce_call of a gradient in place: rules may choose its codec, if `codec` is None."""
    call, keep, finish = _allreduce_call(tensor, tensor, op, name, process_set, scales, codec)
    call.flags = c.GRADIENT
    return call, keep, finish


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None,
                    name: Optional[str] = None, op: Optional[int] = None,
                    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> Any:
    """Start a reduction into a new tensor."""
    check(tensor, "allreduce")
    check_free(name, process_set.process_set_id)
    name = name_of(name, "allreduce", process_set)
    return _start(*_allreduce_call(tensor, None, reduction(op, average), name, process_set,
                                   (prescale_factor, postscale_factor)), name)


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None,
                     name: Optional[str] = None, op: Optional[int] = None,
                     prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> Any:
    """Start a reduction in place."""
    if op is None or average is not None:
        op = reduction(op, average)
    options = (op, prescale_factor, postscale_factor, process_set.process_set_id)
    handle = start_kept(tensor, name, options, process_set)
    if handle is None:
        handle = _start(*_in_place(tensor, name, options, process_set))
    return handle


def _in_place(tensor, name, options, process_set):
    """The arguments of _start and _run for a reduction in place."""
    check_free(name, options[3])
    kept = find_kept(tensor, name, options, process_set)
    if kept is not None:
        kept.call.input = kept.call.output = tensor.data_ptr()
        return kept.call, tensor, None, name
    check_in_place(tensor, "allreduce_")
    name = name_of(name, "allreduce", process_set)
    return (*_allreduce_call(tensor, tensor, options[0], name, process_set, options[1:3]), name)


def _run(call, keep, finish, name):
    """Start one call and wait for it."""
    try:
        result = basics.job().run(call, keep, finish, name)
    except errors.NameInUse:
        raise
    except tutti.TuttiError as error:
        raise HorovodInternalError(str(error)) from error
    return keep if finish is None else result


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
               op: Optional[int] = None, prescale_factor: float = 1.0,
               postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set
               ) -> torch.Tensor:
    """Reduce in place."""
    return _run(*_in_place(tensor, name, (reduction(op, average), prescale_factor, postscale_factor,
                                          process_set.process_set_id), process_set))


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, average, name, op, scales, process_set, codec):
        ctx.arguments = (average, op, scales, process_set)
        check(tensor, "allreduce")
        check_free(name, process_set.process_set_id)
        name = name_of(name, "allreduce", process_set)
        return _run(*_allreduce_call(tensor, None, reduction(op, average), name, process_set,
                                     scales, codec), name)

    @staticmethod
    def backward(ctx, grad):
        average, op, scales, process_set = ctx.arguments
        reduced = allreduce(grad, average=average, op=op, prescale_factor=scales[0],
                            postscale_factor=scales[1], process_set=process_set)
        return reduced, None, None, None, None, None, None


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
              compression: Compressing = Compression.none, op: Optional[int] = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The reduction of `tensor` over all ranks, as a new tensor. Differentiable; its gradient is
    not coded. `compression`: a codec such as "int8:block=512", which needs a name unless it has
    ef=off; a function of name and tensor that returns one or None; or a Compressor."""
    check(tensor, "allreduce")
    compressor, codec_of = split(compression)
    codec = codec_for(codec_of, name, tensor, "allreduce")
    smaller, context = compressor.compress(tensor)
    summed = _Allreduce.apply(smaller, average, name, op, (prescale_factor, postscale_factor),
                              process_set, codec)
    return compressor.decompress(summed, context)


# ---- groups of allreduce ----

def _start_group(parts, names):
    """Several (call, keep, finish) as one TensorHandle."""
    if not parts:
        raise ValueError("a group needs at least one tensor")
    calls = [part[0] for part in parts]
    try:
        handles = basics.job().start_many(calls, [part[1] for part in parts],
                                          [None] * len(parts), names)
    except errors.NameInUse:
        raise
    except tutti.TuttiError as error:
        raise HorovodInternalError(str(error)) from error
    return TensorHandle(handles, lambda: [part[2]() for part in parts])


def _member_names(name, kind, count, process_set):
    base = name_of(name, kind, process_set)
    return [f"{base}_{i + 1}of{count}" for i in range(count)]


_kept_groups = Keeper()


def _grouped_allreduce(tensors, is_in_place, options, codecs=None, flags=0):
    average, name, op, scales, process_set = options
    tensors = list(tensors)
    codecs = tuple(codecs) if codecs is not None else (None,) * len(tensors)
    key = (name, op, average, scales, process_set.process_set_id, codecs, flags)
    kept = _kept_groups.get(key) if is_in_place else None
    if kept is not None and kept.fits(tensors):
        kept.used = _kept_groups.age
        return TensorHandle(kept.start(tensors), lambda: tensors)
    for tensor in tensors:
        (check_in_place if is_in_place else check)(tensor, "grouped_allreduce")
    names = _member_names(name, "grouped_allreduce", len(tensors), process_set)
    parts = [_allreduce_call(tensor, tensor if is_in_place else None, reduction(op, average),
                             member, process_set, scales, codec)
             for tensor, member, codec in zip(tensors, names, codecs)]
    for call, _, _ in parts:
        call.flags = flags
    if (is_in_place and name is not None and tensors
            and all(tensor.is_cpu and tensor.dtype in DTYPES for tensor in tensors)):
        if any(kept.job is not basics._job for kept in _kept_groups.values()):
            _kept_groups.clear()
        kept = KeptGroup(parts, names, tensors)
        handle = _start_group(parts, names)
        kept.started = handle._handles
        _kept_groups.add(key, kept)
        return handle
    return _start_group(parts, names)


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                            name: Optional[str] = None, op: Optional[int] = None,
                            prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> Any:
    """Start the reduction of several tensors as one request, into new tensors."""
    return _grouped_allreduce(tensors, False, (average, name, op,
                                               (prescale_factor, postscale_factor), process_set))


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                             name: Optional[str] = None, op: Optional[int] = None,
                             prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> Any:
    """The same in place."""
    return _grouped_allreduce(tensors, True, (average, name, op,
                                              (prescale_factor, postscale_factor), process_set))


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                       name: Optional[str] = None, op: Optional[int] = None,
                       prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """Reduce several tensors in place, as one request."""
    return synchronize(grouped_allreduce_async_(tensors, average, name, op, prescale_factor,
                                                postscale_factor, process_set))


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, average, name, op, scales, process_set, codecs, *tensors):
        ctx.arguments = (average, op, scales, process_set)
        return tuple(synchronize(_grouped_allreduce(
            tensors, False, (average, name, op, scales, process_set), codecs)))

    @staticmethod
    def backward(ctx, *grads):
        average, op, scales, process_set = ctx.arguments
        reduced = grouped_allreduce(list(grads), average=average, op=op,
                                    prescale_factor=scales[0], postscale_factor=scales[1],
                                    process_set=process_set)
        return (None, None, None, None, None, None, *reduced)


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                      name: Optional[str] = None, compression: Compressing = Compression.none,
                      op: Optional[int] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set
                      ) -> List[torch.Tensor]:
    """Reductions of several tensors as one request. Differentiable. `compression` as in
    allreduce; a function gets the name of the group and each tensor."""
    compressor, codec_of = split(compression)
    codecs = [codec_for(codec_of, name, tensor, "grouped_allreduce") for tensor in tensors]
    smaller = [compressor.compress(tensor) for tensor in tensors]
    summed = _GroupedAllreduce.apply(average, name, op, (prescale_factor, postscale_factor),
                                     process_set, codecs, *[tensor for tensor, _ in smaller])
    return [compressor.decompress(tensor, context)
            for tensor, (_, context) in zip(summed, smaller)]


def start_gradients(tensors, name, scales, process_set, codecs):
    """Start the reduction of several gradients in place, as one request."""
    return _grouped_allreduce(tensors, True, (None, name, scales[0], scales[1:], process_set),
                              codecs, c.GRADIENT)


def start_gradient(tensor, name, scales, process_set, codec):
    """Start the reduction of a gradient in place under the library's own name; `scales` is
    operator, factor before and factor after. For gradients that are not in pieces."""
    prefix = "allreduce."
    if name.startswith(prefix):
        handle = start_kept(tensor, name[len(prefix):],
                            (*scales, process_set.process_set_id, codec), process_set)
        if handle is not None:
            return handle
    check_in_place(tensor, "allreduce_")
    return _start(*gradient_call(tensor, scales[0], name, process_set, scales[1:], codec), name)


def start_sparse(tensor, name, op, process_set):
    """Start the reduction of a sparse tensor. `name` is the library's own for the indices."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_sparse:
        raise ValueError("sparse_allreduce_async takes a sparse tensor")
    if op not in (Average, Sum):
        raise ValueError("sparse_allreduce_async: sparse tensors support sum and average only")
    tensor = tensor.coalesce()
    indices = _start(*_gather_call(tensor.indices().transpose(0, 1).contiguous(), name,
                                   process_set), name)
    members = process_set.size()

    def result():
        all_indices = synchronize(indices)
        # Started only now: a rank whose tensor is not sparse has failed, and never makes this call.
        values = _start(*_gather_call(tensor.values(), f"{name}.values", process_set),
                        f"{name}.values")
        all_values = synchronize(values)
        if op == Average:
            all_values = all_values / members
        return torch.sparse_coo_tensor(all_indices.transpose(0, 1), all_values,
                                       tensor.size()).coalesce()

    return result


def sparse_allreduce_async(tensor: torch.Tensor, name: str, op: int,
                           process_set: ProcessSet = global_process_set
                           ) -> Callable[[], torch.Tensor]:
    """Start the reduction of a sparse tensor; returns a function that waits for it and returns it.
    Indices and values are gathered from all ranks and added up."""
    return start_sparse(tensor, name_of(name, "sparse_allreduce", process_set), op, process_set)


# ---- allgather, alltoall: results whose length is known only at the end ----

def _take(result, like, lengths, row_shape):
    """A tensor of the elements that the library allocated, which are freed."""
    shape = (sum(lengths),) + tuple(row_shape)
    output = torch.empty(shape, dtype=like.dtype)
    if output.numel() > 0:
        ctypes.memmove(output.data_ptr(), result.address, output.numel() * output.element_size())
    result.free()
    return output


def _gather_call(tensor, name, process_set):
    staged = Staged(tensor)
    source = staged.host
    counts = (ctypes.c_uint64 * process_set.size())()
    result = Result(basics.job())
    call = basics.job().new_call(c.ALLGATHER, name, set_of(process_set))
    call.dtype, call.input, call.count = DTYPES[source.dtype], source.data_ptr(), source.numel()
    c.set_shape(call, source.shape)
    call.output_counts = counts
    call.result_out = result.out()
    row = row_count(source.shape)

    def finish():
        if row:
            lengths = [count // row for count in counts]
        else:  # rows without elements: their number must be exchanged
            mine = torch.tensor([source.shape[0]])
            lengths = synchronize(allgather_async(mine, f"{name}.rows", process_set)).tolist()
        return staged.back(_take(result, source, lengths, source.shape[1:]))

    return call, (source, counts, result), finish


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Any:
    """Start joining the tensors of all ranks along the first dimension, which may differ."""
    check_rows(tensor, "allgather")
    name = name_of(name, "allgather", process_set)
    return _start(*_gather_call(tensor, name, process_set), name)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, name, process_set):
        ctx.rows, ctx.process_set = tensor.shape[0], process_set
        return synchronize(allgather_async(tensor, name, process_set))

    @staticmethod
    def backward(ctx, grad):
        averaged = allreduce(grad, op=Average, process_set=ctx.process_set)
        rows = synchronize(allgather_async(torch.tensor([ctx.rows]), None, ctx.process_set))
        begin = int(rows[:ctx.process_set.rank()].sum())
        return averaged.narrow(0, begin, ctx.rows), None, None


def allgather(tensor: torch.Tensor, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The tensors of all ranks joined along the first dimension. Differentiable."""
    check_rows(tensor, "allgather")
    return _Allgather.apply(tensor, name, process_set)


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                            process_set: ProcessSet = global_process_set) -> Any:
    """Start joining several tensors, as one request."""
    tensors = list(tensors)
    for tensor in tensors:
        check_rows(tensor, "grouped_allgather")
    names = _member_names(name, "grouped_allgather", len(tensors), process_set)
    return _start_group([_gather_call(tensor, member, process_set)
                         for tensor, member in zip(tensors, names)], names)


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.rows, ctx.process_set = [tensor.shape[0] for tensor in tensors], process_set
        return tuple(synchronize(grouped_allgather_async(tensors, name, process_set)))

    @staticmethod
    def backward(ctx, *grads):
        averaged = grouped_allreduce(list(grads), op=Average, process_set=ctx.process_set)
        mine = torch.tensor([ctx.rows])
        rows = synchronize(allgather_async(mine, None, ctx.process_set))
        before = rows[:ctx.process_set.rank()].sum(0)
        parts = [grad.narrow(0, int(before[i]), ctx.rows[i]) for i, grad in enumerate(averaged)]
        return (None, None, *parts)


def grouped_allgather(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """Several tensors, each joined along its first dimension. Differentiable."""
    for tensor in tensors:
        check_rows(tensor, "grouped_allgather")
    return list(_GroupedAllgather.apply(name, process_set, *tensors))


def _splits(tensor, splits, process_set):
    members, rows = process_set.size(), tensor.shape[0]
    if splits is None:
        if rows % members:
            raise ValueError("Tensor is not evenly divisible by the number of ranks; give splits.")
        return [rows // members] * members
    splits = splits.tolist() if isinstance(splits, torch.Tensor) else list(splits)
    if any(isinstance(split, bool) or not hasattr(split, "__index__") for split in splits):
        raise ValueError(f"splits must be integers, not {splits}")
    splits = [int(split) for split in splits]
    if len(splits) != members:
        raise ValueError(f"Number of entries in splits, {len(splits)}, is not the number of ranks, "
                         f"{members}.")
    if any(split < 0 for split in splits) or sum(splits) > rows:
        raise ValueError("Sum of splits entries is greater than the first dimension of tensor.")
    return splits


def alltoall_async(tensor: torch.Tensor, splits: Union[None, torch.Tensor, Sequence[int]] = None,
                   name: Optional[str] = None, process_set: ProcessSet = global_process_set
                   ) -> Any:
    """Start sending splits[r] rows to member r. synchronize gives the received tensor, with the
    received splits where splits were given."""
    return _start_alltoall(tensor, splits, name, process_set, splits is not None)


def _start_alltoall(tensor, splits, name, process_set, is_split):
    check_rows(tensor, "alltoall")
    name = name_of(name, "alltoall", process_set)
    try:
        parts = _splits(tensor, splits, process_set)
    except ValueError as problem:  # the others wait for this rank's rows
        basics.job().refuse(basics.job().new_call(c.ALLTOALL, name, set_of(process_set)),
                            str(problem))
        raise
    staged = Staged(tensor)
    source = staged.host
    row, members = row_count(source.shape), len(parts)
    inputs = (ctypes.c_uint64 * members)(*[part * row for part in parts])
    outputs = (ctypes.c_uint64 * members)()
    result = Result(basics.job())
    call = basics.job().new_call(c.ALLTOALL, name, set_of(process_set))
    call.dtype, call.input = DTYPES[source.dtype], source.data_ptr()
    c.set_shape(call, source.shape)
    call.input_counts, call.output_counts = inputs, outputs
    call.result_out = result.out()

    def finish():
        if row:
            lengths = [count // row for count in outputs]
        else:
            lengths = synchronize(alltoall_async(torch.tensor(parts), None, f"{name}.rows",
                                                 process_set)).tolist()
        received = staged.back(_take(result, source, lengths, source.shape[1:]))
        return (received, torch.tensor(lengths, dtype=torch.int32)) if is_split else received

    return _start(call, (source, inputs, outputs, result), finish, name)


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        output = synchronize(_start_alltoall(tensor, splits, name, process_set, True))
        ctx.received, ctx.process_set = output[1], process_set
        ctx.mark_non_differentiable(output[1])
        return output

    @staticmethod
    def backward(ctx, grad, _):
        back = synchronize(alltoall_async(grad, ctx.received, None, ctx.process_set))[0]
        return back, None, None, None


def alltoall(tensor: torch.Tensor, splits: Union[None, torch.Tensor, Sequence[int]] = None,
             name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """The rows that all ranks sent to this one; with splits also the received splits.
    Differentiable."""
    check_rows(tensor, "alltoall")
    received, lengths = _Alltoall.apply(tensor, splits, name, process_set)
    return received if splits is None else (received, lengths)


# ---- broadcast ----

def _broadcast_call(tensor, output, root_rank, name, process_set):
    staged = Staged(tensor)
    source = staged.host
    is_in_place = output is tensor
    target = source if is_in_place or staged.device is not None else source.clone()
    call = basics.job().new_call(c.BROADCAST, name, set_of(process_set))
    call.dtype, call.count = DTYPES[source.dtype], target.numel()
    c.set_shape(call, target.shape)
    call.input = call.output = target.data_ptr()
    call.root = process_set._member(root_rank)

    def finish():
        if not is_in_place:
            return staged.back(target)
        if staged.device is not None:
            tensor.detach().copy_(staged.back(target), non_blocking=True)
        return tensor

    return call, (target, tensor), finish


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Any:
    """Start sending root's tensor (a world rank) to all ranks, into a new tensor."""
    check(tensor, "broadcast")
    name = name_of(name, "broadcast", process_set)
    return _start(*_broadcast_call(tensor, None, root_rank, name, process_set), name)


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """The same in place."""
    check_in_place(tensor, "broadcast_")
    name = name_of(name, "broadcast", process_set)
    return _start(*_broadcast_call(tensor, tensor, root_rank, name, process_set), name)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Copy root's tensor into that of every rank, in place."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.arguments = (root_rank, process_set)
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, grad):
        root_rank, process_set = ctx.arguments
        averaged = allreduce(grad, op=Average, process_set=process_set)
        if basics.rank() != root_rank:
            averaged = torch.zeros_like(averaged)
        return averaged, None, None, None


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Root's tensor on every rank, as a new tensor. Differentiable."""
    return _Broadcast.apply(tensor, root_rank, name, process_set)


# ---- reducescatter ----

def _scatter_call(tensor, op, name, process_set, scales, codec=None):
    staged = Staged(tensor)
    source = staged.host
    members, member = process_set.size(), process_set.rank()
    rows, row = source.shape[0], row_count(source.shape)
    parts = [rows // members + (1 if r < rows % members else 0) for r in range(members)]
    counts = (ctypes.c_uint64 * members)(*[part * row for part in parts])
    target = torch.empty((parts[member],) + tuple(source.shape[1:]), dtype=source.dtype)
    call = basics.job().new_call(c.REDUCESCATTER, name, set_of(process_set))
    call.dtype = DTYPES[source.dtype]
    call.op = reduce_op(op, source.dtype, staged.is_complex, "reducescatter")
    call.prescale, call.postscale = scales
    call.input, call.output = source.data_ptr(), target.data_ptr()
    call.codec = c.encoded_codec(codec)
    c.set_shape(call, source.shape)
    call.input_counts, call.output_capacity = counts, target.numel()
    return call, (source, target, counts), lambda: staged.back(target)


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> Any:
    """Start a reduction of which every rank gets its part of the first dimension."""
    return _start_scatter(tensor, name, op, process_set, (prescale_factor, postscale_factor))


def _start_scatter(tensor, name, op, process_set, scales, codec=None):
    check_rows(tensor, "reducescatter")
    name = name_of(name, "reducescatter", process_set)
    return _start(*_scatter_call(tensor, op, name, process_set, scales, codec), name)


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, name, op, process_set, scales, codec):
        ctx.arguments = (op, process_set, scales)
        return synchronize(_start_scatter(tensor, name, op, process_set, scales, codec))

    @staticmethod
    def backward(ctx, grad):
        op, process_set, scales = ctx.arguments
        if op == Sum:
            grad = grad * process_set.size()
        grad = grad * (scales[0] * scales[1])
        return allgather(grad, process_set=process_set), None, None, None, None, None


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None,
                  compression: Compressing = Compression.none, op: int = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    """This rank's part of the reduction. Differentiable. `compression` as in allreduce."""
    compressor, codec_of = split(compression)
    codec = codec_for(codec_of, name, tensor, "reducescatter")
    smaller, context = compressor.compress(tensor)
    part = _Reducescatter.apply(smaller, name, op, process_set,
                                (prescale_factor, postscale_factor), codec)
    return compressor.decompress(part, context)


def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                                op: int = Average, process_set: ProcessSet = global_process_set,
                                prescale_factor: float = 1.0, postscale_factor: float = 1.0
                                ) -> Any:
    """Start the reductions of several tensors, as one request."""
    return _start_scatters(tensors, name, op, process_set, (prescale_factor, postscale_factor))


def _start_scatters(tensors, name, op, process_set, scales, codecs=None):
    tensors = list(tensors)
    for tensor in tensors:
        check_rows(tensor, "grouped_reducescatter")
    names = _member_names(name, "grouped_reducescatter", len(tensors), process_set)
    codecs = [None] * len(tensors) if codecs is None else codecs
    return _start_group([_scatter_call(tensor, op, member, process_set, scales, codec)
                         for tensor, member, codec in zip(tensors, names, codecs)], names)


class _GroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, process_set, scales, codecs, *tensors):
        ctx.arguments = (op, process_set, scales)
        return tuple(synchronize(_start_scatters(tensors, name, op, process_set, scales, codecs)))

    @staticmethod
    def backward(ctx, *grads):
        op, process_set, scales = ctx.arguments
        factor = (process_set.size() if op == Sum else 1.0) * scales[0] * scales[1]
        gathered = grouped_allgather([grad * factor for grad in grads], process_set=process_set)
        return (None, None, None, None, None, *gathered)


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                          compression: Compressing = Compression.none, op: int = Average,
                          process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0, postscale_factor: float = 1.0
                          ) -> List[torch.Tensor]:
    """This rank's parts of several reductions. Differentiable. `compression` as in
    grouped_allreduce."""
    compressor, codec_of = split(compression)
    codecs = [codec_for(codec_of, name, tensor, "grouped_reducescatter") for tensor in tensors]
    smaller = [compressor.compress(tensor) for tensor in tensors]
    parts = _GroupedReducescatter.apply(name, op, process_set,
                                        (prescale_factor, postscale_factor), codecs,
                                        *[tensor for tensor, _ in smaller])
    return [compressor.decompress(part, context) for part, (_, context) in zip(parts, smaller)]


# ---- waiting ----

def poll(handle: Any) -> bool:
    """Is the started call over?"""
    if not isinstance(handle, (TensorHandle, KeptHandle)):
        raise ValueError("poll takes the handle of an *_async call")
    return handle.poll()


def synchronize(handle: Any) -> Any:
    """Wait for a started call and return its result."""
    if type(handle) is KeptHandle:
        return handle.wait()
    if handle is None:
        return None
    if not isinstance(handle, TensorHandle):
        raise ValueError("synchronize takes the handle of an *_async call")
    return handle.wait()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until every rank of the set has made this call."""
    name = basics.next_name("barrier", process_set)
    call = basics.job().new_call(c.BARRIER, name, set_of(process_set))
    _start(call, None, None, name).wait()


def join(device: int = -1) -> int:
    """This rank has no more data: it contributes the identity element to the others' reductions
    until all have joined. Returns the rank that joined last."""
    if c.library.tutti_join is None:
        raise NotImplementedError("this libtutti has no join; install a newer Tutti")
    last = ctypes.c_int()
    status = c.library.tutti_join(basics.job()._pointer, 0, ctypes.byref(last))
    if status < 0:
        raise HorovodInternalError(str(basics.job()._error(status)))
    basics.restart_names()  # ranks have made different numbers of calls without a name
    return last.value
