# SPDX-License-Identifier: Apache-2.0
"""State and objects from one rank to all: parameters, optimizer state, anything picklable.

Objects are the user's own: they are pickled by the sender and unpickled here, from ranks of this
job only, whose links are authenticated."""

from __future__ import annotations

import collections.abc
import io
import pickle
from typing import Any, Callable, List, Optional

import torch

from . import basics, ops
from .basics import ProcessSet, global_process_set
from .compression import without_state

try:  # it can also pickle functions of scripts, as Horovod's users expect
    import cloudpickle as _pickler
except ImportError:
    _pickler = pickle


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Root's parameters on every rank, in place. `params` is model.state_dict() or
    model.named_parameters()."""
    if isinstance(params, collections.abc.Mapping):
        pairs = sorted(params.items())
    elif isinstance(params, collections.abc.Iterable):
        pairs = [pair if isinstance(pair, tuple) else (None, pair) for pair in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    handles = []
    for name, tensor in pairs:
        if not isinstance(tensor, torch.Tensor):
            continue
        if tensor.is_contiguous():
            handles.append((ops.broadcast_async_(tensor, root_rank, name), None))
        else:
            handles.append((ops.broadcast_async(tensor, root_rank, name), tensor))
    for handle, scattered in handles:
        received = ops.synchronize(handle)
        if scattered is not None:
            scattered.detach().copy_(received)


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """Root's object, on every rank."""
    basics.job()
    name = name or basics.next_name("broadcast_object", process_set)
    is_root = process_set.rank() == process_set._member(root_rank)
    payload, mark = _packed(obj) if is_root else (bytearray(), 0)
    length = torch.tensor([mark], dtype=torch.int64)
    ops.broadcast_(length, root_rank, f"{name}.sz", process_set)
    data = torch.frombuffer(payload, dtype=torch.uint8) if payload else None
    if data is None:
        data = torch.empty(abs(int(length)), dtype=torch.uint8)
    ops.broadcast_(data, root_rank, f"{name}.t", process_set)
    if int(length) < 0:
        raise _unsendable(root_rank, data)
    return obj if is_root else _loads(data)


def broadcast_object_fn(root_rank: int = 0, name: Optional[str] = None,
                        process_set: ProcessSet = global_process_set) -> Callable[[Any], Any]:
    """A function of one object that broadcasts it."""
    return lambda obj: broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj: Any, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> List[Any]:
    """The objects of all ranks as a list, in rank order."""
    basics.job()
    name = name or basics.next_name("allgather_object", process_set)
    payload, mark = _packed(obj)
    marks = ops.allgather(torch.tensor([mark]), f"{name}.sz", process_set).tolist()
    joined = ops.allgather(torch.frombuffer(payload, dtype=torch.uint8), f"{name}.t", process_set)
    parts = torch.split(joined, [abs(mark) for mark in marks])
    for member, (part, mark) in enumerate(zip(parts, marks)):
        if mark < 0:
            raise _unsendable(process_set.ranks[member], part)
    return [_loads(part) for part in parts]


def _packed(obj):
    """The pickled object and its length; if it cannot be pickled, the cause and its length,
    negated. The other ranks wait for an object: they get the cause instead."""
    try:
        payload = bytearray(_dumps(obj))
        return payload, len(payload)
    except Exception as problem:  # whatever its __reduce__ raises
        why = bytearray(f"a {type(obj).__name__} cannot be pickled ({type(problem).__name__}: "
                        f"{problem})".encode(errors="replace"))
        return why, -len(why)


def _unsendable(rank, text):
    return ValueError(f"rank {rank}: {bytes(text.tolist()).decode(errors='replace')}; send its "
                      f"parts instead")


def _dumps(obj):
    buffer = io.BytesIO()
    _pickler.dump(obj, buffer)
    return buffer.getvalue()


def _loads(tensor):
    return pickle.loads(tensor.numpy().tobytes() if _has_numpy() else bytes(tensor.tolist()))


def _has_numpy():
    try:
        import numpy  # noqa: F401
    except ImportError:
        return False
    return True


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int,
                              model: Optional[torch.nn.Module] = None) -> None:
    """Root's optimizer state on every rank: tensors, options and all else, in place. If an
    optimizer has made no step, its state is created first, as by a step with zero gradients;
    parameters and gradients are not changed. What codecs keep is each rank's own and stays."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    if not optimizer.state_dict()["state"]:
        _make_state(optimizer)
    skeleton, tensors = _without_tensors(without_state(optimizer.state_dict()))
    skeleton = broadcast_object(skeleton, root_rank, name="optimizer_state")
    restored, received, is_alike = _with_tensors(skeleton, tensors)
    broadcast_parameters(received, root_rank)
    if not is_alike:
        optimizer.load_state_dict(restored)
        return
    numbers = iter(range(sum(len(group["params"]) for group in optimizer.param_groups)))
    for group, its in zip(optimizer.param_groups, restored["param_groups"]):
        group.update((key, value) for key, value in its.items() if key != "params")
        for p, number in zip(group["params"], numbers):
            if number in restored["state"]:
                optimizer.state[p].update(restored["state"][number])


def _make_state(optimizer):
    """Create the state that a step with zero gradients leaves, and undo its other effects."""
    trained = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    before = [(p.detach().clone(), p.grad) for p in trained]
    for p in trained:
        p.grad = torch.zeros_like(p)
        if isinstance(optimizer, torch.optim.SparseAdam):
            p.grad = p.grad.to_sparse()
    decays = [group.get("weight_decay") for group in optimizer.param_groups]
    for group, decay in zip(optimizer.param_groups, decays):
        if decay is not None:
            group["weight_decay"] = 0.0
    # Without the exchange: ranks that have a state already do not make this step.
    getattr(type(optimizer), "_tutti_base", type(optimizer)).step(optimizer)
    for group, decay in zip(optimizer.param_groups, decays):
        if decay is not None:
            group["weight_decay"] = decay
    with torch.no_grad():
        for p, (value, gradient) in zip(trained, before):
            p.copy_(value)
            p.grad = gradient


class _Place:
    """Where a tensor of an optimizer's state belongs."""

    def __init__(self, key, tensor):
        self.key = key
        self.shape, self.dtype, self.device = tuple(tensor.shape), tensor.dtype, tensor.device.type


def _without_tensors(state, path="optimizer"):
    """The state with every tensor replaced by a _Place, and the tensors by key."""
    tensors = {}

    def walk(value, key):
        if isinstance(value, torch.Tensor):
            tensors[key] = value
            return _Place(key, value)
        if isinstance(value, dict):
            return {name: walk(item, f"{key}.{name}") for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(walk(item, f"{key}.{i}") for i, item in enumerate(value))
        return value

    return walk(state, path), tensors


def _with_tensors(skeleton, mine):
    """The skeleton with a tensor in every place: this rank's own where it fits, else a new one;
    the tensors by key; and whether all were this rank's own, and it has no others."""
    tensors, made = {}, []

    def walk(value):
        if isinstance(value, _Place):
            tensor = mine.get(value.key)
            if tensor is None or (tuple(tensor.shape), tensor.dtype) != (value.shape, value.dtype):
                tensor = torch.zeros(value.shape, dtype=value.dtype)
                made.append(value.key)
            tensors[value.key] = tensor
            return tensor
        if isinstance(value, dict):
            return {name: walk(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(walk(item) for item in value)
        return value

    restored = walk(skeleton)
    return restored, tensors, not made and len(tensors) == len(mine)
