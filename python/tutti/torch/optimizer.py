# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: gradients are reduced while backward still runs."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Iterable, Optional, Tuple, Type

import torch

import tutti

from . import basics, ops
from .basics import Average, ProcessSet, Sum, global_process_set, is_alone
from .compression import Compression, Compressor
from .functions import broadcast_object

_TOO_MANY_PASSES = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). "
    "Increase backward_passes_per_step to accumulate gradients locally.")
_SMALL_BYTES, _BUCKET_BYTES = 64 * 1024, 256 * 1024
_SYNCHRONIZED_TWICE = (
    "optimizer.step() called without optimizer.skip_synchronize() context after "
    "optimizer.synchronize(). This can cause training slowdown. You may want to consider using "
    "optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code.")
_ZEROED_TOO_EARLY = (
    "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
    "optimizer.synchronize(). This is prohibited as it can cause a race condition.")


class _Options:
    """The arguments of DistributedOptimizer, under Horovod's names."""

    @property
    def backward_passes_per_step(self):
        return self._tutti["passes"]

    @property
    def op(self):
        return self._tutti["op"]

    @property
    def gradient_predivide_factor(self):
        return self._tutti["predivide"]

    @property
    def sparse_as_dense(self):
        return self._tutti["sparse_as_dense"]

    @property
    def process_set(self):
        return self._tutti["process_set"]


class _Mixin(_Options):
    """What a user's optimizer gains. Mixed in front of its class by DistributedOptimizer."""

    def _tutti_prepare(self, named_parameters, options):
        self._tutti = options
        self._handles = {}
        self._is_synchronized = False
        self._should_synchronize = True
        parameters = [p for group in self.param_groups for p in group["params"]]
        names = _names_of(named_parameters, parameters)
        self._parameter_names = names
        self._passes_left = {p: options["passes"] for p in parameters if p.requires_grad}
        self._groups = _groups_of(options["groups"], [p for p in parameters if p.requires_grad],
                                  names, options["process_set"])
        self._group_of = {p: i for i, group in enumerate(self._groups) for p in group}
        self._group_ready = [set() for _ in self._groups]
        self._scales = self._factors()
        self._homes = _Homes(len(self._passes_left))
        self._is_alone = is_alone(options["process_set"])  # then this is the plain optimizer
        self._hooks = [] if self._is_alone else [_on_gradient(p, self._gradient_is_ready)
                                                 for p in self._passes_left]

    # ---- during backward ----

    def _gradient_is_ready(self, p):
        if p in self._handles:
            raise AssertionError(_TOO_MANY_PASSES)
        assert not p.grad.requires_grad
        if self._passes_left[p] <= 0:
            raise AssertionError(_TOO_MANY_PASSES)
        self._passes_left[p] -= 1
        if self._passes_left[p] == 0:
            self._submit(p)

    def _submit(self, p):
        self._homes.take_in(p)
        if p not in self._group_of:
            self._handles[p] = self._start_one(p)
            return
        number = self._group_of[p]
        self._group_ready[number].add(p)
        if len(self._group_ready[number]) == len(self._groups[number]):
            self._group_ready[number].clear()
            self._start_group(number)

    def _factors(self):
        """Operator and scales: the average, divided partly before and partly after the sum."""
        options, divide = self._tutti, self._tutti["predivide"]
        if options["op"] != Average or divide == 1.0:
            return options["op"], 1.0, 1.0
        return Sum, 1.0 / divide, divide / options["process_set"].size()

    def _start_one(self, p):
        options = self._tutti
        gradient, name = p.grad, self._parameter_names[p]
        if gradient.is_sparse:
            if not options["sparse_as_dense"]:
                finish = ops.sparse_allreduce_async(gradient, name, options["op"],
                                                    options["process_set"])
                return lambda: setattr(p, "grad", finish())
            gradient = gradient.to_dense()
        op, before, after = self._scales
        if options["compression"] is Compression.none and gradient is p.grad:
            if gradient.is_contiguous():
                return ops.allreduce_async_(gradient, None, name, op, before, after,
                                            options["process_set"]).wait
        smaller, context = options["compression"].compress(gradient)
        if not smaller.is_contiguous():
            smaller = smaller.contiguous()
        handle = ops.allreduce_async_(smaller, name=name, op=op, prescale_factor=before,
                                      postscale_factor=after, process_set=options["process_set"])
        return lambda: _store(p, options["compression"].decompress(ops.synchronize(handle),
                                                                   context))

    def _start_group(self, number):
        options, members = self._tutti, self._groups[number]
        op, before, after = self._scales
        if any(p.grad.is_sparse for p in members) and not options["sparse_as_dense"]:
            for p in members:
                self._handles[p] = self._start_one(p)
            return
        packed = [options["compression"].compress(p.grad.to_dense() if p.grad.is_sparse else p.grad)
                  for p in members]
        tensors = [tensor if tensor.is_contiguous() else tensor.contiguous()
                   for tensor, _ in packed]
        name = f"group.{number}.{self._parameter_names[members[0]]}"
        handle = ops.grouped_allreduce_async_(tensors, name=name, op=op, prescale_factor=before,
                                              postscale_factor=after,
                                              process_set=options["process_set"])

        def finish():
            for p, tensor, (_, context) in zip(members, handle.wait(), packed):
                _store(p, options["compression"].decompress(tensor, context))

        self._handles.update(dict.fromkeys(members, None))
        self._handles[members[0]] = finish

    # ---- Horovod's methods ----

    def set_backward_passes_per_step(self, passes):
        """Backward passes whose gradients are added up before they are exchanged."""
        self._tutti["passes"] = passes
        for p in self._passes_left:
            self._passes_left[p] = passes

    def synchronize(self):
        """Wait until every gradient is reduced. Parameters without a gradient take part with
        zeros, because other ranks may have one."""
        if not self._is_alone:
            for p in self._passes_left:
                if p not in self._handles and p not in self._waiting_members():
                    if p.grad is None:
                        p.grad = torch.zeros_like(p)
                    self._submit(p)
            for finish in self._handles.values():
                if finish is not None:
                    finish()
        self._handles.clear()
        for p in self._passes_left:
            self._passes_left[p] = self._tutti["passes"]
        self._is_synchronized = True

    def _waiting_members(self):
        return set().union(*self._group_ready) if self._group_ready else set()

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Inside, step() does not synchronize: it was done by hand."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure=None):
        """Synchronize, then the optimizer's own step."""
        if self._should_synchronize:
            if self._is_synchronized:
                warnings.warn(_SYNCHRONIZED_TWICE)
            self.synchronize()
        self._is_synchronized = False
        basics.step_is_over()
        return super().step(closure) if closure is not None else super().step()

    def load_state_dict(self, *arguments, **options):
        """The optimizer's own; what was begun is forgotten."""
        for finish in self._handles.values():
            if finish is not None:
                finish()
        self._handles.clear()
        for ready in self._group_ready:
            ready.clear()
        self._is_synchronized, self._should_synchronize = False, True
        self.set_backward_passes_per_step(self._tutti["passes"])
        return super().load_state_dict(*arguments, **options)

    def zero_grad(self, *arguments, **options):
        """The optimizer's own, refused while gradients are under way."""
        if self._handles:
            raise AssertionError(_ZEROED_TOO_EARLY)
        return super().zero_grad(*arguments, **options)


class _AdasumMixin(_Options):
    """Adasum works on steps, not on gradients: each rank steps by itself, and what its parameters
    moved by is what is combined."""

    def _tutti_prepare(self, named_parameters, options):
        self._tutti = options
        parameters = [p for group in self.param_groups for p in group["params"]]
        self._parameter_names = _names_of(named_parameters, parameters)

    def set_backward_passes_per_step(self, passes):
        """Nothing is exchanged before step(): gradients add up as long as it is not called."""
        self._tutti["passes"] = passes

    def synchronize(self):
        """Nothing to wait for: step() exchanges, and waits."""

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Refused, as in Horovod."""
        raise AssertionError("Skipping synchronization is not supported when using Adasum "
                             "optimizer.")
        yield

    def step(self, closure=None):
        """The optimizer's own step; then every parameter goes where all ranks' steps together
        lead."""
        options = self._tutti
        basics.step_is_over()
        parameters = [p for p in self._parameter_names if p.requires_grad]
        starts = [p.detach().clone() for p in parameters]
        loss = super().step(closure) if closure is not None else super().step()
        if not options["process_set"].included():
            return loss
        handles = []
        for p, start in zip(parameters, starts):
            moved, context = options["compression"].compress(p.detach() - start)
            handle = ops.allreduce_async_(moved.contiguous(), op=basics.Adasum,
                                          name=f"adasum.{self._parameter_names[p]}",
                                          process_set=options["process_set"])
            handles.append((handle, context))
        for p, start, (handle, context) in zip(parameters, starts, handles):
            moved = options["compression"].decompress(ops.synchronize(handle), context)
            p.detach().copy_(start + moved)
        return loss


class _Homes:
    """Places for gradients in the memory that the ranks of a host share, where they are summed
    without a copy. A gradient moves in once and stays there as long as the training loop keeps it
    (zero_grad(set_to_none=False)); where the loop drops it, moving in every time would not pay."""

    def __init__(self, count):
        self._by_parameter = {}
        self._losses_left = count + 1

    def take_in(self, p):
        """Move p.grad to its place, unless it lives there or would not stay."""
        gradient = p.grad
        place = self._by_parameter.get(p)
        if place is not None and gradient.data_ptr() == place.data_ptr():
            return
        if (self._losses_left <= 0 or gradient.layout is not torch.strided
                or gradient.device.type != "cpu" or not gradient.is_contiguous()
                or gradient.numel() == 0):
            return
        if place is not None:
            self._losses_left -= 1
            if self._losses_left == 0:
                self._by_parameter.clear()
                return
        else:
            try:
                memory = basics.job().allocate(gradient.numel() * gradient.element_size())
            except tutti.TuttiError:  # no room: the sum is only slower
                self._losses_left = 0
                return
            place = torch.frombuffer(memory, dtype=gradient.dtype).view(gradient.shape)
            self._by_parameter[p] = place
        place.copy_(gradient)
        p.grad = place


def _store(p, gradient):
    """The reduced gradient where the optimizer looks for it."""
    if p.grad is None or p.grad.is_sparse or p.grad.shape != gradient.shape:
        p.grad = gradient
    elif p.grad.data_ptr() != gradient.data_ptr():
        p.grad.detach().copy_(gradient)


def _on_gradient(p, ready):
    """Call ready(p) whenever backward has accumulated p.grad."""
    if hasattr(p, "register_post_accumulate_grad_hook"):
        return p.register_post_accumulate_grad_hook(ready)
    accumulator = p.expand_as(p).grad_fn.next_functions[0][0]  # torch before 2.1
    handle = accumulator.register_hook(lambda *_: ready(p))
    return accumulator, handle  # the node must live as long as its hook


def _names_of(named_parameters, parameters):
    if named_parameters is None:
        return {p: f"noname.{i}" for i, p in enumerate(parameters)}
    named = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in named):
        raise ValueError("named_parameters should be a sequence of tuples (name, parameter), "
                         "usually produced by model.named_parameters().")
    names = [name for name, _ in named]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError("Parameter names in named_parameters must be unique. Found duplicates: "
                         + ", ".join(repeated))
    known = {p for _, p in named}
    missing = [p for p in parameters if p not in known]
    if missing:
        raise ValueError(f"named_parameters was specified, but one or more model parameters were "
                         f"not named. Parameters without a name: {len(missing)}")
    return {p: name for name, p in named}


def _buckets_of(parameters, names):
    """Small parameters, a few at a time: one exchange instead of many. That is safe because every
    parameter takes part in every step (synchronize), and equal on all ranks because it follows
    from names and sizes alone."""
    buckets, bucket, used = [], [], 0
    for p in sorted(parameters, key=names.get):
        nbytes = p.numel() * p.element_size()
        if nbytes > _SMALL_BYTES:
            continue
        if bucket and (used + nbytes > _BUCKET_BYTES or p.dtype != bucket[0].dtype):
            buckets.append(bucket)
            bucket, used = [], 0
        bucket.append(p)
        used += nbytes
    if bucket:
        buckets.append(bucket)
    return [members for members in buckets if len(members) > 1]


def _groups_of(groups, parameters, names, process_set):
    """Lists of parameters that are reduced as one request."""
    if groups is None:
        return _buckets_of(parameters, names)
    if groups == 0:
        return []
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError("groups should be a non-negative integer or a list of parameters")
        if is_alone(process_set):
            return []
        order = {name: i for i, name in enumerate(
            broadcast_object([names[p] for p in parameters], min(process_set.ranks),
                             "group_order", process_set))}
        ordered = sorted(parameters, key=lambda p: order[names[p]])
        count = min(groups, len(ordered))
        share, extra = divmod(len(ordered), count)
        ends = [(i + 1) * share + min(i + 1, extra) for i in range(count)]
        return [ordered[begin:end] for begin, end in zip([0, *ends], ends)]
    seen, lists = set(), []
    for group in groups:
        members = list(group)
        for p in members:
            if not isinstance(p, torch.Tensor) or id(p) in seen:
                raise ValueError("groups should be lists of parameters, each in one group only")
            seen.add(id(p))
        members = [p for p in members if p.requires_grad]
        if members:
            lists.append(members)
    return lists


def DistributedOptimizer(optimizer: torch.optim.Optimizer,
                         named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]] = None,
                         compression: Type[Compressor] = Compression.none,
                         backward_passes_per_step: int = 1, op: int = Average,
                         gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                         groups: Any = None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set) -> Any:
    """The optimizer, with gradients averaged over all ranks before each step. It is an instance
    of a subclass of the given optimizer's class, with the same parameters and state."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    if num_groups:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`.", DeprecationWarning)
        groups = num_groups if groups is None else groups
    base = optimizer.__class__
    kind = type(base.__name__, (_AdasumMixin if op == basics.Adasum else _Mixin, base), {})
    distributed = kind.__new__(kind)
    distributed.__dict__.update(optimizer.__dict__)
    distributed.__dict__.pop("step", None)  # a scheduler's wrapper, bound to the original
    distributed._tutti_prepare(named_parameters, {
        "compression": compression, "passes": backward_passes_per_step, "op": op,
        "predivide": gradient_predivide_factor, "groups": groups,
        "sparse_as_dense": sparse_as_dense, "process_set": process_set})
    return distributed
