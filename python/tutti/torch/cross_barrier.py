# SPDX-License-Identifier: Apache-2.0
"""CrossBarrier: the exchange of one step overlaps with the next step's forward pass.

ByteScheduler's idea (SOSP'19), with a dependency proxy per module. A gradient is sent when backward
has computed it; step() only marks updates as due, with the current hyper-parameters; the forward
pre-hook of the first module that reads a parameter waits for its exchange and applies the update.
The layers that come first in forward are the most urgent in the exchange."""

import collections
import copy
import importlib
import warnings
import weakref
from typing import Any

import torch

from tutti import _library as c

from . import basics, ops
from .basics import Average, global_process_set, is_alone, next_name
from .buckets import Bucket, Readers, Slot
from .compression import PLAIN, Codecs, Compressing, Compression, add_state, take_state
from .functions import broadcast_object
from .kept import Declared
from .optimizer import _TOO_MANY_PASSES, _on_gradient
from .unfinished import unfinished

_COMPILED = ("CrossBarrier: the model is compiled, so its forward pass runs as one piece without "
             "the hooks of its modules: nothing can overlap, updates are applied inside step()")
_models = weakref.WeakKeyDictionary()


class _Crossing:
    """Methods that CrossBarrier adds to the user's optimizer, as a mixin in front of its class."""

    def _cross_prepare(self, model, original, options):
        self._original, self._options = original, options
        self._names = _names_of(model, original)
        self._is_outside = options["process_set"].included() is False  # then nothing is exchanged
        self._prefix = next_name("cross_barrier", options["process_set"])
        self._readers = Readers(model, self._names)
        self._codecs = Codecs(options["compression"], options["op"], "CrossBarrier")
        self._slots = {p: Slot(p, name, options["passes"], self._codecs.of(name, p))
                       for p, name in self._names.items()}
        self._buckets, self._read_by = None, {}
        self._early = []
        self._is_whole = _is_compiled(model)
        if self._is_whole:
            warnings.warn(_COMPILED)
        self._hooks = [_on_gradient(p, _telling(slot, weakref.ref(self)))
                       for p, slot in self._slots.items()]
        self._watch(model)

    def _watch(self, model):
        """Hooks hold weak references to this optimizer, and copies of the model hold none."""
        me = weakref.ref(self)
        for module in model.modules():
            if not self._is_whole:
                self._hooks.append(module.register_forward_pre_hook(_Watch(me, "_before_forward")))
            # The entries share memory with the parameters: updating them now is early enough.
            self._hooks.append(module._register_state_dict_hook(_Watch(me, "_after_state_dict")))
        _models[model] = me
        methods = _Methods(model)
        model.__dict__.update(train=methods.train, __deepcopy__=methods.deepcopy)

    def _after_state_dict(self, _):
        self.flush()

    # ---- during backward ----

    def _gradient_is_ready(self, slot, p):
        if p.grad.is_sparse:
            raise ValueError(f"CrossBarrier: the gradient of '{slot.name}' is sparse; use "
                             f"DistributedOptimizer, or make the layer with sparse=False")
        bucket = slot.bucket
        if bucket is not None and bucket.is_due:
            raise RuntimeError(
                f"CrossBarrier: '{slot.name}' was read before its last update: no module that "
                f"owns it ran forward. Call flush() on the optimizer before such a forward pass")
        if slot.passes_left <= 0:
            raise AssertionError(_TOO_MANY_PASSES)
        slot.passes_left -= 1
        if slot.passes_left > 0:
            return
        if bucket is None:
            self._early.append(slot)
            p.grad = unfinished(p.grad, self._settling(slot, p.grad))
        elif bucket.take_in(slot):
            self._submit(bucket, slot.piece)

    def _settling(self, slot, gradient):
        """The function that an unfinished gradient calls when it is read. It holds weak references,
        because the parameter refers to it."""
        me, reference = weakref.ref(self), weakref.ref(slot)
        return lambda: gradient if me() is None else me()._settle(reference())

    def _submit(self, bucket, piece):
        if self._is_outside:
            return
        if self._codecs.compressor is not Compression.none:
            handle = _Packed(self, bucket, piece)
        elif piece.flat.device.type != "cpu":  # its current elements are copied to host memory
            handle = ops._start(*self._call(bucket, piece, piece.flat))
        else:
            handle = self._restart(bucket, piece)
        bucket.handles.append(handle)

    def _restart(self, bucket, piece):
        """The exchange of a piece in host memory, declared once."""
        kept = piece.kept
        if kept is None or kept.job is not basics._job:
            call, _, _, name = self._call(bucket, piece, piece.flat)
            kept = piece.kept = Declared(basics.job(), call, piece.flat, name, None)
        elif kept.started is not None:  # an earlier wait for it was interrupted
            kept.started.wait()
        return (kept.start(piece.flat, kept.address)
                or ops._start(*self._call(bucket, piece, piece.flat)))

    def _call(self, bucket, piece, tensor):
        """The arguments that start the exchange of one piece, whose elements are in `tensor`."""
        options, name = self._options, f"{self._prefix}.{piece.label}"
        call, keep, finish = ops.gradient_call(tensor, options["op"], name,
                                               options["process_set"], (1.0, 1.0), piece.codec)
        # Never fused, so that less urgent pieces do not delay it.
        call.priority = len(self._buckets) - bucket.number
        call.flags |= c.ALONE
        return call, keep, finish, name

    # ---- layout ----

    def _build(self):
        """Buckets from the forward pass of the first member; all members must use the same."""
        process_set = self._options["process_set"]
        layout = self._readers.layout()
        if not self._is_outside:
            layout = broadcast_object(layout, min(process_set.ranks), self._prefix + ".layout",
                                      process_set)
        by_name = {slot.name: slot for slot in self._slots.values()}
        named = [name for pieces in layout for names in pieces for name in names]
        if set(named) != set(by_name):
            strange = sorted(set(named) ^ set(by_name))[0]
            raise ValueError(f"CrossBarrier: ranks train different parameters; '{strange}' is not "
                             f"on all of them")
        self._buckets = [Bucket(i, [[by_name[name] for name in names] for names in pieces])
                         for i, pieces in enumerate(layout)]
        for slot in self._slots.values():
            slot.shown = unfinished(slot.place, self._settling(slot, slot.place))
        for bucket in self._buckets:
            self._adopt(bucket)
        early, self._early = self._early, []
        for slot in early:
            if slot.parameter.grad is not None:
                slot.parameter.grad = slot.parameter.grad.as_subclass(torch.Tensor)
            self._take_in(slot)

    def _take_in(self, slot):
        if slot.bucket.take_in(slot):
            self._submit(slot.bucket, slot.piece)

    def _adopt(self, bucket):
        """Find the readers and make the optimizer of a new bucket."""
        for slot in bucket.slots:
            readers = [] if self._is_whole else self._readers.of(slot.parameter)
            bucket.is_prompt = bucket.is_prompt or not readers
            for module in readers:
                waiting = self._read_by.setdefault(module, [])
                if bucket not in waiting:
                    waiting.append(bucket)
        part = self._original.__class__.__new__(self._original.__class__)
        part.__dict__.update(self._original.__dict__)
        part.__dict__.pop("step", None)  # a scheduler's wrapper of the whole optimizer's
        for hooks in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
            part.__dict__[hooks] = collections.OrderedDict()
        members = {slot.parameter for slot in bucket.slots}
        part.param_groups, bucket.sources = [], []
        for i, group in enumerate(self.param_groups):
            mine = [p for p in group["params"] if p in members]
            if mine:
                part.param_groups.append({**group, "params": mine})
                bucket.sources.append(i)
        part.state = self.state
        bucket.optimizer, bucket.update = part, _update_of(part)

    # ---- waiting and updating ----

    def _before_forward(self, module):
        if self._buckets is None:
            self._readers.note(module)
            return
        for bucket in self._read_by.get(module, ()):
            if bucket.is_due:
                self._finish(bucket)

    def _settle(self, slot):
        """The gradient is read: returns the final tensor."""
        if slot.bucket is not None and slot.bucket.is_due:
            self._finish(slot.bucket)
        else:
            self.synchronize()
        return slot.place

    def _reduce(self, bucket):
        handles, bucket.handles = bucket.handles, []
        for handle in handles:
            handle.wait()
        bucket.show()

    def _finish(self, bucket):
        """Wait for the bucket's exchange and apply its update."""
        self._reduce(bucket)
        dropped = [slot for slot in bucket.slots if slot.parameter.grad is None]
        for slot in dropped:
            slot.parameter.grad = slot.place
        if is_alone(self._options["process_set"]):  # no other rank can have these gradients
            for p in bucket.absent:
                p.grad = None
        zero = bucket.zero
        bucket.update()
        self._begin(bucket)
        for slot in dropped:
            slot.parameter.grad = None
        if zero is not None:
            bucket.clear(zero)

    def _begin(self, bucket):
        bucket.begin()
        for slot in bucket.slots:
            slot.passes_left = self._options["passes"]

    def _complete(self):
        """Start every bucket; parameters without a gradient contribute zeros, because other ranks
        may have one."""
        if self._buckets is None:
            self._build()
        for bucket in self._buckets:
            for slot in bucket.slots if bucket.missing else ():
                if not slot.is_in:
                    self._take_in(slot)

    def synchronize(self):
        """Wait until the gradients of this backward pass are reduced, for example to clip them.
        Does nothing before a backward pass."""
        if self._early or any(b.has_begun and not b.is_due for b in self._buckets or ()):
            self.flush()
            self._complete()
            for bucket in self._buckets:
                self._reduce(bucket)

    def flush(self):
        """Apply every update that is due. state_dict() and eval() do it by themselves."""
        for bucket in self._buckets or ():
            if bucket.is_due:
                self._finish(bucket)

    # ---- the optimizer's methods ----

    def step(self, closure=None):
        """Mark the updates as due, with the current hyper-parameters. Each is applied when the
        next forward pass reaches the first module that reads the parameter."""
        if closure is not None:
            raise ValueError("CrossBarrier: step(closure) would have to wait for everything; "
                             "use DistributedOptimizer")
        self.flush()
        self._complete()
        for bucket in self._buckets:
            for mine, source in zip(bucket.optimizer.param_groups, bucket.sources):
                mine.update((key, _snapshot(value))
                            for key, value in self.param_groups[source].items() if key != "params")
            bucket.is_due = True
        for bucket in self._buckets:
            if bucket.is_prompt:
                self._finish(bucket)

    def zero_grad(self, set_to_none=True):
        """The optimizer's own; gradients that are still needed are dropped after their update."""
        self.synchronize()
        for bucket in self._buckets or ():
            if bucket.is_due:
                bucket.zero = set_to_none
            else:
                self._begin(bucket)
                bucket.clear(set_to_none)
        for p in self._names if self._buckets is None else ():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.zero_()

    def state_dict(self, *arguments, **options):
        """The optimizer's own, after all updates that are due; with what codecs have left out so
        far on this rank."""
        self.flush()
        state = super().state_dict(*arguments, **options)
        if self._is_outside or all(slot.codec == PLAIN for slot in self._slots.values()):
            return state
        self.synchronize()
        return add_state(state)

    def load_state_dict(self, state):
        """The optimizer's own, after all updates that are due. What codecs of another rank had
        left out is skipped, with a warning."""
        self.flush()
        super().load_state_dict(take_state(state))
        for bucket in self._buckets or ():
            bucket.optimizer.state = self.state

    def add_param_group(self, group):
        """Refused: the optimizer must have all parameters when CrossBarrier is created."""
        raise ValueError("CrossBarrier: add parameters to the optimizer before CrossBarrier is "
                         "created, or call remove() and create it again")

    def remove(self):
        """Apply the updates that are due and remove all hooks from the model."""
        self.flush()
        for hook in self._hooks:
            (hook[1] if isinstance(hook, tuple) else hook).remove()
        self._hooks = []
        for model in [model for model, me in _models.items() if me() is self]:
            del _models[model]
            for name in _Methods.NAMES:
                model.__dict__.pop(name, None)


class _Packed:
    """The exchange of a piece as its Compressor makes it."""

    def __init__(self, owner, bucket, piece):
        self._compressor, self._flat = owner._codecs.compressor, piece.flat
        smaller, self._context = self._compressor.compress(piece.flat)
        self._handle = ops._start(*owner._call(bucket, piece, smaller.contiguous()))

    def wait(self):
        """Wait until the elements are final."""
        summed = self._compressor.decompress(self._handle.wait(), self._context)
        if summed.data_ptr() != self._flat.data_ptr():
            self._flat.copy_(summed)


def _telling(slot, me):
    """Holds weak references, because the parameter refers to it: dropped optimizers and models must
    be freed."""
    reference = weakref.ref(slot)

    def ready(p):
        if me() is not None:
            me()._gradient_is_ready(reference(), p)

    return ready


class _Watch:
    """A hook of a module. Copying or saving the module applies the updates that are due (torch.save
    writes tensors after all objects); the hook of the copy does nothing."""

    def __init__(self, me=None, method=None):
        self._me, self._method = me, method

    def __call__(self, module, *_):
        owner = self._me() if self._me is not None else None
        if owner is not None:
            getattr(owner, self._method)(module)

    def __reduce__(self):
        owner = self._me() if self._me is not None else None
        if owner is not None:
            owner.flush()
        return _Watch, ()


class _Methods:
    """Methods of a model with CrossBarrier, in front of those of its class."""

    NAMES = ("train", "__deepcopy__")

    def __init__(self, model):
        self._model = weakref.ref(model)

    def _flush(self):
        owner = _models.get(self._model())
        if owner is not None and owner() is not None:
            owner().flush()

    def train(self, mode=True):
        """Module.train, and eval, after all updates that are due."""
        self._flush()
        model = self._model()
        return type(model).train(model, mode)

    def deepcopy(self, memo):
        """A copy after all updates that are due, without these methods."""
        self._flush()
        model = self._model()
        mine = {name: model.__dict__.pop(name) for name in self.NAMES if name in model.__dict__}
        try:
            return copy.deepcopy(model, memo)
        finally:
            model.__dict__.update(mine)

    def __reduce__(self):
        self._flush()
        return _Methods, (self._model(),)


def _update_of(optimizer):
    """step() of a bucket's optimizer. torch wraps it for hooks and profiles, which takes as long as
    updating a small tensor; a bucket's has no hooks, so only global ones and profilers need it."""
    whole = optimizer.step
    inner = getattr(type(optimizer).step, "__wrapped__", None)
    if not getattr(type(optimizer).step, "hooked", False) or inner is None:
        return whole
    module = importlib.import_module("torch.optim.optimizer")
    hooks = [getattr(module, f"_global_optimizer_{when}_hooks", ()) for when in ("pre", "post")]

    def update():
        if any(hooks) or torch.autograd._profiler_enabled():
            whole()
        else:
            inner(optimizer)

    return update


def _snapshot(value):
    return value.clone() if isinstance(value, torch.Tensor) else value


def _is_compiled(model):
    return any(hasattr(module, "_orig_mod")
               or getattr(module, "_compiled_call_impl", None) is not None
               for module in model.modules())


def _names_of(model, optimizer):
    """Names of the parameters that are trained; in the model's order."""
    trained = {p for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
    names = collections.OrderedDict((p, name) for name, p in model.named_parameters()
                                    if p in trained)
    strange = sum(1 for p in trained if p not in names)
    if strange:
        raise ValueError(f"CrossBarrier: {strange} parameters of the optimizer are not in the "
                         f"model, so it is unknown when they are read; optimize the model's only")
    return names


def CrossBarrier(model: torch.nn.Module, optimizer: Any, op: int = Average,
                 backward_passes_per_step: int = 1, process_set: Any = global_process_set,
                 compression: Compressing = Compression.none) -> Any:
    """The optimizer, with gradients reduced over all ranks and without a barrier in step(): each
    layer of the next forward pass waits for its own parameters only. Made for slow links, where the
    exchange takes about as long as the computation. It works with every optimizer that treats
    parameters independently of each other, and gives the same bits as the same exchange without
    it. `compression` as in DistributedOptimizer; a Compressor gets several gradients as one flat
    tensor."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("CrossBarrier: LBFGS needs all gradients at once, and the same loss on "
                         "all ranks; use another optimizer")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    base = optimizer.__class__
    kind = type(base.__name__, (_Crossing, base), {"_tutti_base": base})
    crossing = kind.__new__(kind)
    crossing.__dict__.update(optimizer.__dict__)
    crossing.__dict__.pop("step", None)
    crossing._cross_prepare(model, optimizer, {"op": op, "passes": backward_passes_per_step,
                                               "process_set": process_set,
                                               "compression": compression})
    return crossing
