# SPDX-License-Identifier: Apache-2.0
"""hvd.LocalSGD, DiLoCo and PipelinedOptimizer against training by hand, and tutti.Rounds."""

import copy

import pytest
import torch

import tutti
import tutti.torch as hvd


@pytest.fixture(scope="module", autouse=True)
def started():
    hvd.init()
    yield
    hvd.shutdown()


def model_of(seed=0, dtype=torch.float32):
    torch.manual_seed(seed + hvd.rank())  # rank 0's parameters count
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(),
                               torch.nn.Linear(16, 4)).to(dtype)


def loss_of(model, step):
    generator = torch.Generator().manual_seed(100 * step + hvd.rank())
    dtype = next(model.parameters()).dtype
    inputs = torch.randn(8, 8, generator=generator).to(dtype)
    targets = torch.randn(8, 4, generator=generator).to(dtype)
    return (model(inputs) - targets).square().mean()


def train(model, optimizer, steps, first=0):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), lr=0.1, **options)


def values_of(model):
    return [p.detach().clone() for p in model.parameters()]


def mean(values):
    return [hvd.allreduce(v, op=hvd.Average, name=f"mean.{i}") for i, v in enumerate(values)]


def is_equal_everywhere(model):
    return all(torch.equal(hvd.allreduce(p.detach(), op=hvd.Max, name=f"max.{i}"), p.detach())
               for i, p in enumerate(model.parameters()))


def start(seed=0):
    model = model_of(seed)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return model


def test_local_sgd_is_the_mean_of_models():
    model, twin = model_of(), start()
    local, own = hvd.LocalSGD(model, sgd(model), period=3), sgd(twin)
    for i in range(2):
        train(model, local, 3, 3 * i)
        train(twin, own, 3, 3 * i)
        with torch.no_grad():
            for p, value in zip(twin.parameters(), mean(values_of(twin))):
                p.copy_(value)
    for p, q in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(p, q)
    assert local.counts()["rounds"] == 2
    assert local.counts()["bytes"] == 2 * sum(4 * p.numel() for p in model.parameters())
    train(model, local, 1, 6)
    local.flush()
    assert is_equal_everywhere(model)
    local.close()


def test_diloco_is_an_outer_sgd():
    model, twin = model_of(), start()
    outer = hvd.DiLoCo(model, sgd(model), period=2, lr=0.7, momentum=0.9)
    own = sgd(twin)
    anchor = [torch.nn.Parameter(v) for v in values_of(twin)]
    by_hand = torch.optim.SGD(anchor, lr=0.7, momentum=0.9, nesterov=True)
    for i in range(3):
        train(model, outer, 2, 2 * i)
        train(twin, own, 2, 2 * i)
        deltas = [a.detach() - p.detach() for a, p in zip(anchor, twin.parameters())]
        for a, delta in zip(anchor, mean(deltas)):
            a.grad = delta
        by_hand.step()
        with torch.no_grad():
            for p, a in zip(twin.parameters(), anchor):
                p.copy_(a)
    for p, q in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(p, q)
    outer.close()


def test_a_pipeline_applies_every_gradient_late():
    model, twin = model_of(), start()
    late, own, gradients = hvd.PipelinedOptimizer(sgd(model), model, delay=2), sgd(twin), []

    def apply():
        for p, g in zip(twin.parameters(), gradients.pop(0)):
            p.grad = g
        own.step()

    for step in range(5):
        train(model, late, 1, step)
        own.zero_grad()
        loss_of(twin, step).backward()
        gradients.append(mean([p.grad for p in twin.parameters()]))
        if step >= 2:
            apply()
    late.flush()
    apply(), apply()
    for p, q in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(p, q)
    late.close()


@pytest.mark.parametrize("rule", ["keep", "average", "reset"])
def test_state_of_the_optimizer(rule):
    model = model_of()
    local = hvd.LocalSGD(model, sgd(model, momentum=0.9), period=2, state=rule)
    train(model, local, 1)
    train(model, local, 1, 1)
    found = [local.state[p]["momentum_buffer"] for p in model.parameters()] \
        if local.state else []
    assert bool(found) == (rule != "reset")
    if rule == "average":
        assert all(torch.equal(hvd.allreduce(m, op=hvd.Max, name=f"m.{i}"), m)
                   for i, m in enumerate(found))
    train(model, local, 1, 2)
    local.close()


def test_short_floats_have_a_copy():
    model = model_of(dtype=torch.bfloat16)
    local = hvd.LocalSGD(model, sgd(model), period=2)
    train(model, local, 4)
    assert is_equal_everywhere(model)
    local.close()


@pytest.mark.parametrize("make", [
    lambda m: hvd.LocalSGD(m, sgd(m, momentum=0.5), period="1,4@2"),
    lambda m: hvd.DiLoCo(m, sgd(m), period=4, fragments=2, delay=1, alpha=0.5),
    lambda m: hvd.PipelinedOptimizer(sgd(m), m, delay=1)])
def test_a_state_goes_on_with_the_same_bits(make):
    model = model_of()
    optimizer = make(model)
    train(model, optimizer, 5)
    kept = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(model.state_dict())
    train(model, optimizer, 6, 5)
    optimizer.close()
    again = model_of(7)
    other = make(again)
    again.load_state_dict(kept[1])
    other.load_state_dict(kept[0])
    train(again, other, 6, 5)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), again.parameters()))
    other.close()


def test_misuse_names_the_cure():
    model = model_of()
    with pytest.raises(ValueError, match="keep, average, reset, not 'drop'"):
        hvd.LocalSGD(model, sgd(model), state="drop")
    with pytest.raises(tutti.errors.BadArgument, match="use period=12"):
        hvd.DiLoCo(model, sgd(model), period=10, fragments=4)
    with pytest.raises(ValueError, match="no parameter that requires a gradient"):
        hvd.LocalSGD([], sgd(model))
    with pytest.raises(tutti.errors.Unsupported, match="neither f32 nor f64"):
        rounds = tutti.Rounds("local:period=1")
        rounds.add("counter", torch.zeros(3, dtype=torch.int64))
    local = hvd.LocalSGD(model, sgd(model), period=1)
    with pytest.raises(ValueError, match="not of such an optimizer"):
        local.load_state_dict({})
    local.close()
    with pytest.raises(tutti.errors.BadArgument, match="are closed"):
        local.flush()
    local = hvd.LocalSGD(model, sgd(model), period=1)
    first = next(model.parameters())
    first.data = first.data.clone()
    with pytest.raises(RuntimeError, match="has moved in memory"):
        train(model, local, 1)
    local.close()
