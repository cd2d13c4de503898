# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: gradients are reduced while backward still runs."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from typing import Any, Iterable, Optional, Tuple

import torch

import tutti

from . import basics, ops
from .basics import Average, ProcessSet, Sum, global_process_set, is_alone
from .compression import PLAIN, Codecs, Compressing, Compression, add_state, take_state
from .functions import broadcast_object
from .pieces import Slot, can_be_in_piece, pieces_of

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
    """Methods that DistributedOptimizer adds to the user's optimizer, as a mixin in front of its
    class."""

    def _tutti_prepare(self, named_parameters, options):
        self._tutti = options
        self._is_alone = is_alone(options["process_set"])  # then this is the plain optimizer
        self._is_synchronized, self._should_synchronize = False, True
        self._is_settled = False  # reduced already, because a gradient was read
        self._is_unused = False  # reduced, and no step has used it yet
        self._codecs = Codecs(options["compression"], options["op"], "DistributedOptimizer")
        self._started = []  # functions that wait for started exchanges
        parameters = [p for group in self.param_groups for p in group["params"]]
        self._names = _names_of(named_parameters, parameters)
        self._scales = self._factors()
        self._slots, self._pieces, self._frozen, self._hooks = {}, [], [], []
        weakref.finalize(self, _remove_all, self._hooks).atexit = False
        self._groups = []
        trained = self._take_up(parameters)
        if options["groups"] is not None:
            self._groups = _groups_of(options["groups"], [slot.parameter for slot in trained],
                                      self._names, options["process_set"])
            trained = self._into_groups(trained)
        self._lay_out(trained)
        self._forget_codecs()

    # ---- which parameters there are ----

    def _take_up(self, parameters):
        """New slots for the parameters that are trained. The others may be unfrozen later."""
        slots = []
        for p in parameters:
            if p in self._slots:
                continue
            if not p.requires_grad:
                self._frozen.append(p)
                continue
            self._names.setdefault(p, f"added.{len(self._names)}")
            slot = self._slots[p] = Slot(p, self._names[p], self, self._tutti["passes"],
                                         self._codecs.of(self._names[p], p))
            slots.append(slot)
            if not self._is_alone:
                self._hooks.append(_on_gradient(p, _telling(slot)))
        return slots

    def _forget_codecs(self):
        """An earlier optimizer may have left residuals under these names."""
        slots, process_set = self._slots, self._tutti["process_set"]
        if self._is_alone or all(slot.codec == PLAIN for slot in slots.values()):
            return
        names = [f"allreduce.{slot.name}" for slot in slots.values()]
        for number, group in enumerate(self._groups):
            names += ops._member_names(_group_name(number, slots[group[0]]), "grouped_allreduce",
                                       len(group), process_set)
        for name in names if basics.is_initialized() else ():
            with contextlib.suppress(tutti.TuttiError):  # a coded call is in flight
                basics.job().codec_reset(name, process_set._number())

    def _into_groups(self, slots):
        """The slots that are in none of the user's groups."""
        for number, group in enumerate(self._groups):
            for p in group:
                self._slots[p].group = number
        return [slot for slot in slots if slot.group is None]

    def _lay_out(self, slots):
        """Pieces for these slots; those that cannot be in pieces form groups if they are small."""
        options = self._tutti
        if self._is_alone or options["groups"] is not None:
            return
        can = (self._codecs.compressor is Compression.none and options["op"] in (Average, Sum))
        eligible = [slot for slot in slots if can and can_be_in_piece(slot.parameter)]
        self._pieces += pieces_of(eligible, (*self._scales, options["process_set"]))
        rest = [slot.parameter for slot in slots if slot.piece is None and slot.codec == PLAIN]
        first = len(self._groups)
        self._groups += _small_groups_of(rest, self._names)
        for number, group in enumerate(self._groups[first:], first):
            for p in group:
                self._slots[p].group = number

    def _thaw(self):
        """Take up parameters that were frozen and are trained now."""
        if any(p.requires_grad for p in self._frozen):
            frozen, self._frozen = self._frozen, []
            self._lay_out(self._take_up(frozen))

    def add_param_group(self, group):
        """The optimizer's own; the parameters are reduced from now on."""
        super().add_param_group(group)
        self._lay_out(self._take_up(self.param_groups[-1]["params"]))

    # ---- during backward ----

    def _gradient_is_ready(self, slot):
        if self._is_settled:  # the step was skipped
            self._begin()
        if self._is_unused:
            self._is_unused = False
            basics.step_was_skipped()
        slot.passes_left -= 1
        if slot.passes_left > 0:
            return
        assert not slot.parameter.grad.requires_grad
        if slot.passes_left < 0 or slot.is_in:
            raise AssertionError(_TOO_MANY_PASSES)
        self._submit(slot)

    def _submit(self, slot):
        p, piece = slot.parameter, slot.piece
        slot.is_in = True
        is_gathered = (p.grad is not None and p.grad.is_sparse
                       and not self._tutti["sparse_as_dense"] and piece is not None
                       and piece.has_no_sparse)
        if piece is not None and not is_gathered:
            if piece.take_in(slot):
                piece.start()
                self._started.append(piece.wait)
            slot.hide()
            return
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        slot.plain, slot.shown = p.grad, None
        if slot.group is None:
            self._started.append(self._start_one(slot))
            slot.hide()
            return
        members = [self._slots[member] for member in self._groups[slot.group]]
        if all(member.is_in for member in members):
            self._started.append(self._start_group(slot.group, members))
            for member in members:
                member.hide()

    def _factors(self):
        """Operator and scales: the average, divided partly before and partly after the sum."""
        options, divide = self._tutti, self._tutti["predivide"]
        if options["op"] != Average or divide == 1.0:
            return options["op"], 1.0, 1.0
        return Sum, 1.0 / divide, divide / options["process_set"].size()

    def _start_one(self, slot, name=None):
        """Start the exchange of one gradient; returns a function that waits for it. `name` is the
        library's name of the call: the same for sparse and dense gradients, so that ranks that
        disagree get an error."""
        options, gradient = self._tutti, slot.plain
        name = name or f"allreduce.{slot.name}"
        op, before, after = self._scales
        if gradient.is_sparse and not options["sparse_as_dense"]:
            finish = ops.start_sparse(gradient, name, options["op"], options["process_set"])

            def store():
                summed = finish()
                slot.show()
                slot.parameter.grad = summed

            return store
        dense = gradient.to_dense() if gradient.is_sparse else gradient
        compressor = self._codecs.compressor
        smaller, context = compressor.compress(dense)
        handle = ops.start_gradient(smaller if smaller.is_contiguous() else smaller.contiguous(),
                                    name, (op, before, after), options["process_set"], slot.codec)

        def store():
            summed = compressor.decompress(handle.wait(), context)
            slot.show()
            _store(slot.parameter, summed)

        return store

    def _start_group(self, number, members):
        options, compressor = self._tutti, self._codecs.compressor
        name = _group_name(number, members[0])
        if any(slot.plain.is_sparse for slot in members) and not options["sparse_as_dense"]:
            names = ops._member_names(name, "grouped_allreduce", len(members),
                                      options["process_set"])
            finishes = [self._start_one(slot, own) for slot, own in zip(members, names)]
            return lambda: [finish() for finish in finishes]
        packed = [compressor.compress(
            slot.plain.to_dense() if slot.plain.is_sparse else slot.plain) for slot in members]
        tensors = [tensor if tensor.is_contiguous() else tensor.contiguous()
                   for tensor, _ in packed]
        handle = ops.start_gradients(tensors, name, self._scales, options["process_set"],
                                     [slot.codec for slot in members])

        def store():
            for slot, tensor, (_, context) in zip(members, handle.wait(), packed):
                slot.show()
                _store(slot.parameter, compressor.decompress(tensor, context))

        return store

    # ---- waiting ----

    def _finish(self):
        """Wait for all started exchanges, so that no memory is in use any more."""
        started, self._started = self._started, []
        problem = None
        for wait in started:
            try:
                wait()
            except Exception as its_own:
                problem = problem or its_own
        if problem is not None:
            self._begin()
            raise problem

    def _begin(self):
        """A new step: every gradient is missing again."""
        passes = self._tutti["passes"]
        for slot in self._slots.values():
            slot.passes_left, slot.is_in = passes, False
            slot.show()
        for piece in self._pieces:
            piece.begin()
        self._is_settled = False

    def _exchange(self):
        """Reduce every gradient. Parameters without one contribute zeros, because other ranks may
        have one."""
        if self._is_settled or self._is_alone:
            return
        self._thaw()
        for slot in self._slots.values():
            if not slot.is_in:
                self._submit(slot)
        self._finish()
        self._is_unused = True

    def _settle(self):
        """A gradient in flight is read: wait until it, and with it all others, are final."""
        if not self._is_settled and any(slot.is_in for slot in self._slots.values()):
            self._exchange()
            self._is_settled = True

    # ---- Horovod's methods ----

    def set_backward_passes_per_step(self, passes):
        """Backward passes whose gradients are added up before they are exchanged."""
        self._tutti["passes"] = passes
        for slot in self._slots.values():
            slot.passes_left = passes

    def synchronize(self):
        """Wait until every gradient is reduced."""
        self._exchange()
        self._begin()
        self._is_synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Inside, step() does not synchronize: it was done by hand."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure=None):
        """Synchronize, then the optimizer's own step. Gradients that a closure computes are
        synchronized before they are used."""
        if closure is not None:
            return super().step(self._reducing(closure))
        if self._should_synchronize:
            if self._is_synchronized:
                warnings.warn(_SYNCHRONIZED_TWICE)
            self.synchronize()
        elif self._is_settled:
            self._begin()
        self._is_synchronized = self._is_unused = False
        basics.step_is_over()
        return super().step()

    def _reducing(self, closure):
        """The closure, whose gradients are reduced when it returns."""
        if any(slot.is_in for slot in self._slots.values()):  # the closure zeroes them
            self._exchange()
            self._begin()

        def reduced():
            loss = closure()
            if self._should_synchronize:
                self._exchange()
                self._begin()
            self._is_unused = False
            basics.step_is_over()
            return loss

        self._is_synchronized = False
        return reduced

    def state_dict(self, *arguments, **options):
        """The optimizer's own, with what codecs have left out so far on this rank: each rank has
        its own. Waits for exchanges in flight if there are codecs."""
        state = super().state_dict(*arguments, **options)
        if self._is_alone or all(slot.codec == PLAIN for slot in self._slots.values()):
            return state
        self._settle()
        return add_state(state)

    def load_state_dict(self, state_dict, *arguments, **options):
        """The optimizer's own; started exchanges are discarded. What codecs of another rank had
        left out is skipped, with a warning."""
        self._finish()
        self._begin()
        self._is_synchronized, self._should_synchronize = False, True
        self._is_unused = False
        return super().load_state_dict(take_state(state_dict), *arguments, **options)

    def zero_grad(self, *arguments, **options):
        """The optimizer's own, refused while gradients are in flight."""
        if self._is_settled:
            self._begin()
        if any(slot.is_in for slot in self._slots.values()):
            raise AssertionError(_ZEROED_TOO_EARLY)
        return super().zero_grad(*arguments, **options)


class _AdasumMixin(_Options):
    """Adasum works on steps, not on gradients: each rank steps by itself, and the changes of its
    parameters are combined."""

    def _tutti_prepare(self, named_parameters, options):
        self._tutti = options
        parameters = [p for group in self.param_groups for p in group["params"]]
        self._parameter_names = _names_of(named_parameters, parameters)
        codecs = Codecs(options["compression"], options["op"], "DistributedOptimizer")
        self._compressor = codecs.compressor
        for p, name in self._parameter_names.items():
            codecs.of(name, p)  # refuses codecs

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
        """The optimizer's own step; then every parameter moves by the Adasum of all ranks'
        steps."""
        options = self._tutti
        basics.step_is_over()
        parameters = [p for p in self._parameter_names if p.requires_grad]
        starts = [p.detach().clone() for p in parameters]
        loss = super().step(closure) if closure is not None else super().step()
        if not options["process_set"].included():
            return loss
        handles = []
        for p, start in zip(parameters, starts):
            moved, context = self._compressor.compress(p.detach() - start)
            handle = ops.allreduce_async_(moved.contiguous(), op=basics.Adasum,
                                          name=f"adasum.{self._parameter_names[p]}",
                                          process_set=options["process_set"])
            handles.append((handle, context))
        for p, start, (handle, context) in zip(parameters, starts, handles):
            moved = self._compressor.decompress(ops.synchronize(handle), context)
            p.detach().copy_(start + moved)
        return loss


def _store(p, gradient):
    """Store the reduced gradient where the optimizer reads it."""
    if p.grad is None or p.grad.is_sparse or p.grad.shape != gradient.shape:
        p.grad = gradient
    elif p.grad.data_ptr() != gradient.data_ptr():
        p.grad.detach().copy_(gradient)


def _telling(slot):
    """Holds a weak reference, because the parameter refers to it: dropped optimizers and models
    must be freed."""
    reference = weakref.ref(slot)

    def ready(_):
        slot = reference()
        if slot is not None:
            slot.owner()._gradient_is_ready(slot)

    return ready


def _on_gradient(p, ready):
    """Call ready(p) whenever backward has accumulated p.grad."""
    if hasattr(p, "register_post_accumulate_grad_hook"):
        return p.register_post_accumulate_grad_hook(ready)
    accumulator = p.expand_as(p).grad_fn.next_functions[0][0]  # torch before 2.1
    handle = accumulator.register_hook(lambda *_: ready(p))
    return accumulator, handle  # the node must live as long as its hook


def _remove_all(hooks):
    """Remove hooks from their parameters."""
    for hook in hooks:
        (hook[1] if isinstance(hook, tuple) else hook).remove()
    hooks.clear()


def _group_name(number, first):
    return f"group.{number}.{first.name}"


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


def _small_groups_of(parameters, names):
    """Small parameters that cannot be in pieces, a few at a time."""
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
                         compression: Compressing = Compression.none,
                         backward_passes_per_step: int = 1, op: int = Average,
                         gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                         groups: Any = None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set) -> Any:
    """The optimizer, with gradients averaged over all ranks before each step. It is an instance
    of a subclass of the given optimizer's class, with the same parameters and state.

    `compression` is a codec such as "int8:block=512"; a function of name and parameter that
    returns a codec or None, the same on all ranks; or a Compressor, such as Compression.fp16.
    Gradients of at most TUTTI_CODEC_MIN bytes (64 KiB) are not coded. Optimizers whose codecs are
    in use at the same time need parameters of different names."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("DistributedOptimizer: LBFGS searches along each rank's own loss, so the "
                         "ranks would diverge; use another optimizer")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    if num_groups:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`.", DeprecationWarning)
        groups = num_groups if groups is None else groups
    base = optimizer.__class__
    kind = type(base.__name__, (_AdasumMixin if op == basics.Adasum else _Mixin, base),
                {"_tutti_base": base})
    distributed = kind.__new__(kind)
    distributed.__dict__.update(optimizer.__dict__)
    distributed.__dict__.pop("step", None)  # a scheduler's wrapper, bound to the original
    distributed._tutti_prepare(named_parameters, {
        "compression": compression, "passes": backward_passes_per_step, "op": op,
        "predivide": gradient_predivide_factor, "groups": groups,
        "sparse_as_dense": sparse_as_dense, "process_set": process_set})
    return distributed
