# SPDX-License-Identifier: Apache-2.0
"""LocalSGD, DiLoCo, PipelinedOptimizer: torch optimizers that exchange less often, or later
(docs/synchronisation.md)."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

import torch

import tutti
from tutti import _library as c
from tutti.buffers import Buffer

from . import basics
from .functions import broadcast_parameters
from .optimizer import _names_of
from .ops import Average, grouped_allreduce_
from .server_optimizer import _as_horovod

_Model = Union[torch.nn.Module, Iterable[Tuple[str, torch.Tensor]]]
_DTYPES = {torch.float32: c.F32, torch.float64: c.F64}
_STATES = ("keep", "average", "reset")


def _named(model: _Model) -> List[Tuple[str, torch.Tensor]]:
    named = model.named_parameters() if isinstance(model, torch.nn.Module) else model
    return [(name, p) for p, name in _names_of(list(named), []).items() if p.requires_grad]


def _changed(tensor):
    """Its memory was written to outside torch."""
    if hasattr(torch.autograd.graph, "increment_version"):  # from torch 2.1 on
        torch.autograd.graph.increment_version(tensor)


class _Values:
    """What is exchanged of a parameter: its own memory, or a copy in f32 of what is elsewhere or
    shorter."""

    __slots__ = ("name", "parameter", "host", "address")

    def __init__(self, name, parameter, copies):
        value = parameter.detach()
        is_direct = value.is_cpu and value.is_contiguous() and value.dtype in _DTYPES
        self.name, self.parameter = name, parameter
        self.host = None if is_direct and not copies else \
            torch.zeros(value.shape, dtype=value.dtype if value.dtype in _DTYPES else torch.float32)
        self.address = value.data_ptr()

    def buffer(self):
        tensor = self.parameter.detach() if self.host is None else self.host
        return Buffer(tensor.data_ptr(), tensor.shape, _DTYPES[tensor.dtype], True, tensor, tensor)

    def give(self):
        """Before a step: the exchange sees the parameter."""
        value = self.parameter.detach()
        if self.host is not None:
            self.host.copy_(value)
        elif value.data_ptr() != self.address:
            raise RuntimeError(f"parameter '{self.name}' has moved in memory since the optimizer "
                               f"was created; create it after model.to() and the like")

    def take(self):
        """Values were written."""
        if self.host is None:
            _changed(self.parameter)
        else:
            with torch.no_grad():
                self.parameter.copy_(self.host)


class _InRounds:
    """The inner optimizer steps on this rank alone; then the policy exchanges."""

    def __init__(self, model: _Model, optimizer: torch.optim.Optimizer, policy: str,
                 codec: Optional[str] = None) -> None:
        named = _named(model)
        if not named:
            raise ValueError(f"{type(self).__name__}: there is no parameter that requires a "
                             f"gradient")
        self.optimizer = optimizer
        with torch.no_grad():
            broadcast_parameters(named, root_rank=0)
        self._values = [_Values(name, p, self._copies) for name, p in named]
        with _as_horovod():
            self._rounds = tutti.Rounds(policy, codec=codec, context=basics.job())
            for values in self._values:
                if not self._copies:
                    values.give()
                self._rounds.add(values.name, values.buffer())

    _copies = False  # are all values copies?

    # ---- what torch's optimizers have ----

    @property
    def param_groups(self) -> List[Dict[str, Any]]:
        """Those of the inner optimizer. Give that one to a scheduler of the learning rate."""
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:
        """That of the inner optimizer."""
        return self.optimizer.state

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def step(self, closure: Any = None) -> Any:
        """A step of the inner optimizer; then what is due of the policy."""
        loss = self.optimizer.step(closure)
        self._exchange(self._rounds.step)
        basics.step_is_over()
        return loss

    def flush(self) -> None:
        """Parameters are equal on all ranks then: before evaluation and checkpoints. Every rank
        calls it."""
        self._exchange(self._rounds.flush)

    def _exchange(self, call):
        for values in self._values:
            values.give()
        try:
            with _as_horovod():
                is_changed = call()
        except Exception:
            for values in self._values:
                values.take()  # those of the last round
            raise
        if is_changed:
            for values in self._values:
                values.take()
            self._after_round()
        return is_changed

    def _after_round(self):
        pass

    def counts(self) -> Dict[str, Any]:
        """Steps, rounds, bytes, waits, distance from the mean: tutti_sync_counts of
        tutti/sync.h."""
        return self._rounds.count()

    def state_dict(self) -> Dict[str, Any]:
        """The inner optimizer's, and what the rounds have (anchor, outer momentum, what is in
        flight): each rank's own. Parameters are in the model's."""
        return {"optimizer": self.optimizer.state_dict(), "policy": self._rounds.policy,
                "rounds": torch.frombuffer(bytearray(self._rounds.save()), dtype=torch.uint8)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Go on; every rank calls it, with its own, after the model's was loaded."""
        if "rounds" not in state_dict:
            raise ValueError(f"{type(self).__name__}: this state_dict is not of such an optimizer")
        with _as_horovod():
            self._rounds.load(bytes(state_dict["rounds"].numpy().tobytes()))
        self.optimizer.load_state_dict(state_dict["optimizer"])

    def close(self) -> None:
        """What is in flight is dropped: flush() before. May be repeated."""
        self._rounds.close()


class LocalSGD(_InRounds):
    """Every `period` steps the ranks' parameters are replaced by their mean; in between,
    `optimizer` steps on each rank alone.

        optimizer = hvd.LocalSGD(model, torch.optim.SGD(model.parameters(), lr=0.1), period=8)

    `period` is a number of steps or a schedule, "1,16@1000": 16 after step 1000 (post-local SGD).
    With `inside` ranks of a host average every `inside` steps, all of them every `period`. `state`
    says what a round does with the optimizer's state: "keep", "average" or "reset". What is
    exchanged: parameters."""

    def __init__(self, model: _Model, optimizer: torch.optim.Optimizer,
                 period: Union[int, str] = 8, *, state: str = "keep",
                 inside: Optional[int] = None) -> None:
        if state not in _STATES:
            raise ValueError(f"LocalSGD: state is one of {', '.join(_STATES)}, not {state!r}")
        self._state_rule = state
        super().__init__(model, optimizer,
                         f"local:inside={inside},outside={period}" if inside is not None
                         else f"local:period={period}")

    def _after_round(self):
        if self._state_rule == "reset":
            self.optimizer.state.clear()
        elif self._state_rule == "average":
            states = [self.optimizer.state.get(values.parameter, {}) for values in self._values]
            tensors = [value for state in states for _, value in sorted(state.items())
                       if isinstance(value, torch.Tensor) and value.is_floating_point()
                       and value.dim() > 0]
            if tensors:
                grouped_allreduce_(tensors, op=Average, name="sync.state")


class DiLoCo(_InRounds):
    """Every `period` steps the mean of the ranks' deltas is applied by an outer SGD with Nesterov
    momentum; in between, `inner` steps on each rank alone and keeps its state.

        optimizer = hvd.DiLoCo(model, torch.optim.AdamW(model.parameters()), period=500)

    `fragments`: the parameters in equal parts, exchanged in turns; `delay`: results are merged so
    many steps later, while training goes on; `alpha`: the share of the local values in a merge
    (Streaming DiLoCo). With lr=1, momentum=0 it is local SGD. `codec`, such as "int8", for deltas.
    What is exchanged: deltas of parameters."""

    def __init__(self, model: _Model, inner: torch.optim.Optimizer, period: int = 500, *,
                 lr: float = 0.7, momentum: float = 0.9, nesterov: bool = True,
                 fragments: int = 1, delay: int = 0, alpha: float = 0.0,
                 codec: Optional[str] = None) -> None:
        super().__init__(model, inner,
                         f"outer:period={period},lr={lr!r},momentum={momentum!r},"
                         f"nesterov={int(nesterov)},fragments={fragments},delay={delay},"
                         f"alpha={alpha!r}", codec)


class PipelinedOptimizer(_InRounds):
    """Each step applies the mean gradient of `delay` steps before, whose exchange has run
    meanwhile.

        optimizer = hvd.PipelinedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model)

    The first `delay` steps apply none; flush() applies what is left. A parameter without a gradient
    gives zeros. `codec`, such as "int8", for gradients. What is exchanged: gradients."""

    _copies = True

    def __init__(self, optimizer: torch.optim.Optimizer, model: _Model, delay: int = 1, *,
                 codec: Optional[str] = None) -> None:
        super().__init__(model, optimizer, f"pipeline:delay={delay}", codec)

    def step(self, closure: Any = None) -> Any:
        """Give the gradients of this step; apply those of an earlier one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for values in self._values:
            gradient = values.parameter.grad
            if gradient is None:
                values.host.zero_()
            elif gradient.is_sparse:
                raise ValueError(f"PipelinedOptimizer: the gradient of '{values.name}' is sparse; "
                                 f"make the layer with sparse=False")
            else:
                values.host.copy_(gradient)
        with _as_horovod():
            is_ready = self._rounds.step()
        if is_ready:
            self._apply()
        basics.step_is_over()
        return loss

    def _apply(self):
        for values in self._values:
            p = values.parameter
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            p.grad.copy_(values.host)
        self.optimizer.step()

    def flush(self) -> None:
        """Apply the gradients in flight, in order; every rank calls it."""
        while True:
            with _as_horovod():
                if not self._rounds.flush():
                    return
            self._apply()


__all__ = ["DiLoCo", "LocalSGD", "PipelinedOptimizer"]
