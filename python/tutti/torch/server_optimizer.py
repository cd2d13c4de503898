# SPDX-License-Identifier: Apache-2.0
"""ServerOptimizer: parameters live in a store, and their owners apply the update.

A gradient is pushed when backward has computed it; step() ends the iteration and pulls the new
values. How far workers may drift apart is the store's policy (docs/servers.md)."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from typing import Any, Dict, Iterable, Optional, Tuple

import torch

import tutti
from tutti import _library as c
from tutti.buffers import Buffer

from . import basics
from .exceptions import HorovodInternalError
from .optimizer import _TOO_MANY_PASSES, _ZEROED_TOO_EARLY, _names_of, _on_gradient, _remove_all

_STATE_KEY = "tutti_store"
_PRIORITY_MAX = 32767
_LEARNING_RATES = {"sgd": 0.01, "momentum": 0.01, "adam": 0.001}  # where the text has none


def _buffer(host):
    """A contiguous tensor of f32 in host memory, for the store."""
    return Buffer(host.data_ptr(), host.shape, c.F32, True, host, host)


class _Slot:
    """A parameter: its place in the order, and its push in flight."""

    __slots__ = ("parameter", "name", "priority", "passes_left", "push", "version", "host",
                 "__weakref__")

    def __init__(self, parameter, name, priority, passes):
        self.parameter, self.name, self.priority = parameter, name, priority
        self.passes_left = passes
        self.push, self.version = None, None
        self.host = None  # where the value arrives, if the parameter cannot take it itself

    def target(self):
        """A tensor that a pull may write to."""
        value = self.parameter.detach()
        if value.is_cpu and value.is_contiguous():
            self.host = None
            return value
        if self.host is None:
            self.host = torch.empty(value.shape, dtype=torch.float32)
        return self.host

    def take(self):
        """The value has arrived."""
        if self.host is not None:
            with torch.no_grad():
                self.parameter.copy_(self.host)
        elif hasattr(torch.autograd.graph, "increment_version"):  # from torch 2.1 on
            torch.autograd.graph.increment_version(self.parameter)


class ServerOptimizer(torch.optim.Optimizer):
    """An optimizer whose update runs at the owners of a store; every rank creates it, with the
    same arguments.

        optimizer = hvd.ServerOptimizer(model.named_parameters(), update="sgd:lr=0.1",
                                        policy="stale:3")

    `update` is "sgd", "momentum" or "adam" with its options, in the text or as keywords (lr=0.1);
    `policy` is "bulk", "stale:S", "async" or "quorum:K"; with `codec`, such as "int8", gradients
    take fewer bytes. Rank 0's parameters are the first values,
    and rank 0's param_groups[0]["lr"] is the learning rate: a change takes effect with the next
    iteration, under other policies than bulk as soon as possible.

    Parameters are f32; the first in `named_parameters` are the most urgent. A parameter without a
    gradient pushes zeros, so momentum and adam go on for it. Gradients are pushed during backward
    and must stay as they are until step() returns; with `overlap=False` step() pushes them, so that
    they can be clipped before. `backward_passes_per_step` as in DistributedOptimizer.

    close() ends the training: it waits for the other ranks and pulls the final values."""

    def __init__(self, named_parameters: Iterable[Tuple[str, torch.Tensor]], update: str = "sgd",
                 policy: str = "bulk", *, codec: Optional[str] = None, overlap: bool = True,
                 backward_passes_per_step: int = 1, **options: float) -> None:
        if backward_passes_per_step <= 0:
            raise ValueError("backward_passes_per_step must be > 0")
        named = list(named_parameters)
        names = _names_of(named, [])
        self._kind, self._texts = _options_of(update, options)
        trained = [(p, name) for p, name in names.items() if p.requires_grad]
        if not trained:
            raise ValueError("ServerOptimizer: there is no parameter that requires a gradient")
        for p, name in trained:
            _check_parameter(p, name)
        self._slots = {p: _Slot(p, name, min(len(trained) - i, _PRIORITY_MAX),
                                backward_passes_per_step)
                       for i, (p, name) in enumerate(trained)}
        rate = float(self._texts.get("lr", _LEARNING_RATES.get(self._kind, 0.0)))
        self._store, self._is_ready = None, False
        super().__init__([p for p, _ in trained], {"lr": rate})
        self._is_ready = True  # no parameters are added from here on
        self.policy, self.codec = policy, codec
        self._overlaps, self._passes = overlap, backward_passes_per_step
        self._clock_before = 0  # iterations of earlier stores, see load_state_dict
        self.counted = True  # False: the last step's gradients were too late for the quorum
        self._hooks: Any = []
        weakref.finalize(self, _remove_all, self._hooks).atexit = False
        self._open()
        for p, slot in self._slots.items():
            self._hooks.append(_on_gradient(p, _telling(slot, weakref.ref(self))))

    # ---- the store ----

    def _open(self):
        """A new store with the parameters as first values, of rank 0."""
        self._rate = self.param_groups[0]["lr"]
        self._texts["lr"] = repr(float(self._rate))
        with _as_horovod():
            self._store = tutti.Store(basics.job(), policy=self.policy, update=self.update,
                                      codec=self.codec)
            for slot in self._slots.values():
                first = slot.parameter.detach().to("cpu").contiguous()
                self._store.add(slot.name, _buffer(first))
        self.pull()
        _wait_for_ranks()  # so that no rank begins with another one's first push

    @property
    def update(self) -> str:
        """The update and its options, as the store has them."""
        return self._kind + ":" + ",".join(f"{key}={value}" for key, value in self._texts.items())

    @property
    def clock(self) -> int:
        """How many iterations this rank has completed."""
        return self._clock_before + (self._store.completed if self._store is not None else 0)

    def _checked(self):
        if self._store is None:
            raise ValueError("ServerOptimizer: it was closed; create another one")
        return self._store

    def pull(self) -> None:
        """Read the newest values into the parameters. step() does it by itself."""
        store = self._checked()
        with _as_horovod():
            pulls = [(slot, store.start_pull(slot.name, _buffer(slot.target()),
                                             priority=slot.priority))
                     for slot in self._slots.values()]
            _wait_for_all(handle for _, handle in pulls)
        for slot, _ in pulls:
            slot.take()

    def close(self) -> None:
        """Wait for the other ranks, pull the final values and close the store; every rank calls
        it. Ranks that have died are not waited for. May be repeated."""
        if self._store is None:
            return
        self._discard()
        _wait_for_ranks()  # all pushes were applied
        self.pull()
        completed = self._store.completed
        store, self._store = self._store, None
        self._clock_before += completed
        _remove_all(self._hooks)
        with _as_horovod():
            store.close()

    def save(self, path: Any) -> None:
        """Write values and the state of owners (momentum, adam) to one file; every rank calls it
        after the same step, and rank 0 writes."""
        store = self._checked()
        self._follow_rate()
        with _as_horovod():
            store.save(path)

    def load(self, path: Any) -> None:
        """Go on from a file that save() has written, with any number of ranks and servers; every
        rank calls it. Also after a server has died, when step() has raised on every rank: parts go
        to the owners left. The learning rate stays that of param_groups."""
        store = self._checked()
        pushes = [slot.push for slot in self._slots.values() if slot.push is not None]
        with contextlib.suppress(tutti.TuttiError):  # of a store that has failed
            if pushes and self.policy.startswith("quorum:"):
                store.clock()  # a push ends with its iteration
            _wait_for_all(pushes)
        self._begin()
        with _as_horovod():
            store.load(path)
        self._clock_before, self._rate = 0, None  # rank 0 tells owners its rate again
        self.pull()
        _wait_for_ranks()  # so that no rank sees another one's first push

    # ---- pushes ----

    def _gradient_is_ready(self, slot):
        if self._store is None:
            return
        slot.passes_left -= 1
        if slot.passes_left < 0:
            raise AssertionError(_TOO_MANY_PASSES)
        if slot.passes_left == 0 and self._overlaps:
            self._push(slot)

    def _push(self, slot):
        gradient = slot.parameter.grad
        if gradient is None:
            gradient = torch.zeros(slot.parameter.shape, dtype=torch.float32)
        elif gradient.is_sparse:
            raise ValueError(f"ServerOptimizer: the gradient of '{slot.name}' is sparse, and "
                             f"owners update whole tensors; make the layer with sparse=False")
        elif gradient.dtype != torch.float32:
            raise ValueError(f"ServerOptimizer: the gradient of '{slot.name}' is "
                             f"{gradient.dtype}; owners take torch.float32")
        self._follow_rate()
        host = gradient.detach().to("cpu").contiguous()
        slot.version = None if slot.parameter.grad is None else slot.parameter.grad._version
        with _as_horovod():
            slot.push = self._checked().start_push(slot.name, _buffer(host),
                                                   priority=slot.priority)

    def _follow_rate(self):
        """Before the first push of an iteration: rank 0 tells owners a new learning rate. Under
        bulk no owner can have applied this iteration before rank 0 has pushed."""
        rate = self.param_groups[0]["lr"]
        if rate == self._rate:
            return
        if basics.rank() == 0:
            store = self._checked()
            is_bulk = self.policy in ("bulk", "stale:0")
            try:
                with _as_horovod():
                    store.set("lr", float(rate), store.completed if is_bulk else None)
            except tutti.errors.Unsupported as problem:
                raise tutti.errors.Unsupported(
                    f"ServerOptimizer: the learning rate cannot be changed: {problem}") from None
        self._rate = rate
        self._texts["lr"] = repr(float(rate))

    def _discard(self):
        """Wait for pushes of an iteration that has no step() yet; it goes on with the next one."""
        pushes = [slot.push for slot in self._slots.values() if slot.push is not None]
        if pushes and self._store is not None:
            with _as_horovod():
                self._store.clock()
        self._begin()
        with _as_horovod():
            _wait_for_all(pushes)

    def _begin(self):
        for slot in self._slots.values():
            slot.push, slot.passes_left = None, self._passes

    def _check_unchanged(self):
        for slot in self._slots.values():
            gradient = slot.parameter.grad
            if slot.push is not None and gradient is not None \
                    and slot.version is not None and gradient._version != slot.version:
                raise RuntimeError(
                    f"ServerOptimizer: the gradient of '{slot.name}' was changed after backward "
                    f"had pushed it; create the optimizer with overlap=False to change gradients "
                    f"before step()")

    # ---- torch's methods ----

    def step(self, closure: Any = None) -> Any:
        """End the iteration: push the gradients that were not pushed yet, wait until the policy
        lets this rank go on, and pull the new values."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        store = self._checked()
        self._check_unchanged()
        for slot in self._slots.values():
            if slot.push is None:
                self._push(slot)
        pushes = [slot.push for slot in self._slots.values()]
        self._begin()
        with _as_horovod():
            store.clock()
        self.pull()
        with _as_horovod():
            self.counted = all(_wait_for_all(pushes))
        basics.step_is_over()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """torch's own, refused while gradients are in flight."""
        if any(slot.push is not None for slot in getattr(self, "_slots", {}).values()):
            raise AssertionError(_ZEROED_TOO_EARLY)
        super().zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Refused: a store has one learning rate."""
        if getattr(self, "_is_ready", False):
            raise ValueError("ServerOptimizer: parameters cannot be added later, and there is one "
                             "group; create another ServerOptimizer for them")
        super().add_param_group(param_group)

    def state_dict(self) -> Dict[str, Any]:
        """Policy, update, clock and parameters as this rank has them. What owners keep for
        momentum and adam is not in it; save() writes that to a file."""
        state = super().state_dict()
        state[_STATE_KEY] = {
            "policy": self.policy, "update": self.update, "clock": self.clock,
            "values": {slot.name: slot.parameter.detach().cpu().clone()
                       for slot in self._slots.values()}}
        return state

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Go on from a state_dict; every rank calls it. Rank 0's values become those of the store,
        which is opened anew: momentum and adam begin with nothing, with a warning; load() a file
        afterwards to have their state."""
        kept = state_dict.get(_STATE_KEY)
        if kept is None:
            raise ValueError("ServerOptimizer: this state_dict is not of a ServerOptimizer")
        kind = kept["update"].partition(":")[0]
        if (kept["policy"], kind) != (self.policy, self._kind):
            raise ValueError(f"ServerOptimizer: the state is of policy {kept['policy']} and update "
                             f"{kind}, this optimizer has {self.policy} and {self._kind}; create "
                             f"it with those")
        values = kept["values"]
        strange = sorted(set(values) ^ {slot.name for slot in self._slots.values()})
        if strange:
            raise ValueError(f"ServerOptimizer: parameter '{strange[0]}' is not both in the state "
                             f"and in the model")
        self._discard()
        super().load_state_dict({key: value for key, value in state_dict.items()
                                 if key != _STATE_KEY})
        with torch.no_grad():
            for slot in self._slots.values():
                slot.parameter.copy_(values[slot.name])
        self._restart(kept)

    def _restart(self, kept):
        """A new store with the parameters as they are."""
        if self._kind != "sgd":
            warnings.warn(f"ServerOptimizer: the state of {self._kind} at owners is not part of a "
                          f"state_dict; it begins with nothing, unless you load() a file of save() "
                          f"next", stacklevel=3)
        with _as_horovod():
            if self._store is not None:
                self._store.close()
        self._texts = _options_of(kept["update"], {})[1]
        self._clock_before = kept["clock"]
        self._open()


def _wait_for_ranks():
    """Those that have died are not waited for."""
    with contextlib.suppress(tutti.errors.PeerDown, tutti.errors.PeerLeft):
        basics.job().barrier()


def _wait_for_all(handles):
    """Results of all; the first failure is raised when none of them uses memory any more."""
    results, problem = [], None
    for handle in list(handles):
        try:
            results.append(handle.wait())
        except tutti.TuttiError as its_own:
            problem = problem or its_own
    if problem is not None:
        raise problem
    return results


@contextlib.contextmanager
def _as_horovod():
    """Failures of the job are HorovodInternalError, as everywhere in this package; wrong arguments
    stay as they are."""
    try:
        yield
    except (tutti.errors.BadArgument, tutti.errors.Unsupported):
        raise
    except tutti.TuttiError as problem:
        raise HorovodInternalError(str(problem)) from problem


def _telling(slot, me):
    """Holds weak references, because the parameter refers to it."""
    reference = weakref.ref(slot)

    def ready(_):
        optimizer, slot = me(), reference()
        if optimizer is not None and slot is not None:
            optimizer._gradient_is_ready(slot)

    return ready


def _options_of(update: str, options: Dict[str, Optional[float]]) -> Tuple[str, Dict[str, str]]:
    """Name and options of an update, from its text and from keywords. What is wrong in them is
    left to the library, which knows all options; ranks compare the text."""
    if not isinstance(update, str):
        raise TypeError(f"ServerOptimizer: update is a text such as 'sgd:lr=0.1', not a "
                        f"{type(update).__name__}")
    kind, _, rest = update.partition(":")
    if kind in ("sum", "add", "own"):
        raise ValueError(f"ServerOptimizer: update '{kind}' is no optimizer that it knows; use "
                         f"sgd, momentum or adam, or tutti.Store")
    texts = {}
    for word in rest.split(",") if rest else ():
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"ServerOptimizer: update '{update}': options are KEY=VALUE, with a "
                             f"comma between two")
        texts[key] = value
    for key, number in options.items():
        if key in texts:
            raise ValueError(f"ServerOptimizer: {key} is given twice, in update and as a keyword")
        texts[key] = repr(float(number))
    try:
        float(texts.get("lr", "0"))
    except ValueError:
        raise ValueError(f"ServerOptimizer: update '{update}': lr={texts['lr']} is not a "
                         f"number") from None
    return kind, texts


def _check_parameter(p, name):
    if p.dtype != torch.float32 or p.layout is not torch.strided:
        raise ValueError(f"ServerOptimizer: parameter '{name}' is {p.dtype}, {p.layout}; owners "
                         f"update dense torch.float32: convert it with .float(), or use "
                         f"DistributedOptimizer")
