# SPDX-License-Identifier: Apache-2.0
"""hvd.ServerOptimizer: the owners' updates against torch's, policies, what it refuses."""

import copy
import os
import subprocess
import sys

import pytest
import torch

import tutti
import tutti.torch as hvd
from tutti import _library


@pytest.fixture(scope="module", autouse=True)
def started():
    hvd.init()
    yield
    hvd.shutdown()


def model_of(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))


def train(model, optimizer, steps=6, between=None, first=0):
    """Each rank has batches of its own."""
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(100 * step + hvd.rank())
        optimizer.zero_grad()
        inputs = torch.randn(8, 8, generator=generator)
        targets = torch.randn(8, 4, generator=generator)
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        if between is not None:
            between(model)
        optimizer.step()


def server(model, *arguments, **options):
    return hvd.ServerOptimizer(model.named_parameters(), *arguments, **options)


def distributed(model, kind, **options):
    return hvd.DistributedOptimizer(kind(model.parameters(), **options), model.named_parameters())


def assert_close(one, other, **options):
    for mine, theirs in zip(one.parameters(), other.parameters()):
        torch.testing.assert_close(mine, theirs, **options)


@pytest.mark.parametrize("update, kind, options", [
    ("sgd:lr=0.1", torch.optim.SGD, {"lr": 0.1}),
    ("momentum:lr=0.1,momentum=0.8", torch.optim.SGD, {"lr": 0.1, "momentum": 0.8}),
    ("momentum:lr=0.1,nesterov=1", torch.optim.SGD,
     {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("adam:lr=0.01,beta1=0.8", torch.optim.Adam, {"lr": 0.01, "betas": (0.8, 0.999)}),
    ("adam:lr=0.01,decay=0.1", torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1})])
def test_bulk_steps_as_torch_does(update, kind, options):
    model, plain = model_of(hvd.rank()), model_of(0)  # rank 0's first values count
    optimizer = server(model, update)
    assert optimizer.clock == 0 and optimizer.param_groups[0]["lr"] == options["lr"]
    train(model, optimizer)
    train(plain, distributed(plain, kind, **options))
    assert_close(model, plain, rtol=1e-4, atol=1e-5)
    assert optimizer.clock == 6 and optimizer.counted
    for tensor in model.state_dict().values():
        assert all(torch.equal(tensor, other) for other in hvd.allgather_object(tensor))
    optimizer.close()


@pytest.mark.parametrize("policy", ["stale:0", "stale:3", "async", "quorum:1"])
def test_every_policy_ends_with_the_same_values_everywhere(policy):
    model = model_of()
    before = copy.deepcopy(model)
    optimizer = server(model, "momentum", policy, lr=0.05, momentum=0.5)
    assert optimizer.update.startswith("momentum:lr=0.05")
    train(model, optimizer)
    optimizer.close()
    optimizer.close()
    for mine, old in zip(model.parameters(), before.parameters()):
        assert torch.isfinite(mine).all() and not torch.equal(mine, old)
        assert all(torch.equal(mine, other) for other in hvd.allgather_object(mine.detach()))
    with pytest.raises(ValueError, match="closed"):
        optimizer.step()


def test_gradients_may_be_clipped_before_they_are_pushed():
    def clip(model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)

    model, plain = model_of(), model_of()
    optimizer = server(model, "sgd", lr=0.1, overlap=False)
    train(model, optimizer, between=clip)
    optimizer.close()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for step in range(6):
        total = [torch.zeros_like(p) for p in plain.parameters()]
        for rank in range(hvd.size()):
            generator = torch.Generator().manual_seed(100 * step + rank)
            optimizer.zero_grad()
            inputs = torch.randn(8, 8, generator=generator)
            targets = torch.randn(8, 4, generator=generator)
            torch.nn.functional.mse_loss(plain(inputs), targets).backward()
            clip(plain)
            for sum_, p in zip(total, plain.parameters()):
                sum_ += p.grad / hvd.size()
        for sum_, p in zip(total, plain.parameters()):
            p.grad = sum_
        optimizer.step()
    assert_close(model, plain, rtol=1e-4, atol=1e-5)
    model = model_of()
    optimizer = server(model, "sgd", lr=0.1)
    with pytest.raises(RuntimeError, match="overlap=False"):
        train(model, optimizer, between=clip)
    optimizer.close()


class Partly(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.sometimes = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.never = torch.nn.Parameter(torch.ones(3))
        self.frozen = torch.nn.Parameter(torch.full((2,), float(hvd.rank())), requires_grad=False)

    def forward(self, inputs):
        return self.used(inputs) + (self.sometimes(inputs) if hvd.rank() == 0 else 0)


@pytest.mark.parametrize("policy", ["bulk", "stale:2"])
def test_parameters_without_gradients_push_zeros(policy):
    torch.manual_seed(3)
    model = Partly()
    before = copy.deepcopy(model)
    optimizer = server(model, "sgd:lr=0.1", policy)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    optimizer.close()
    assert torch.equal(model.never, torch.ones(3)) and model.frozen[0] == hvd.rank()
    torch.testing.assert_close(model.used.bias, before.used.bias - 3 * 0.1 * 2)
    torch.testing.assert_close(model.sometimes.bias,
                               before.sometimes.bias - 3 * 0.1 * 2 / hvd.size())


def test_accumulated_gradients_are_pushed_once():
    model, plain = model_of(), model_of()
    optimizer = server(model, "sgd:lr=0.1", backward_passes_per_step=2)
    inputs = torch.randn(4, 8, generator=torch.Generator().manual_seed(5))
    for rows in inputs.split(2):
        model(rows).square().sum().backward()
    optimizer.step()
    plain(inputs).square().sum().backward()
    torch.optim.SGD(plain.parameters(), lr=0.1).step()
    assert_close(model, plain)
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        for _ in range(3):
            model(inputs).sum().backward()
    optimizer.close()


def test_what_is_refused():
    model = model_of()
    with pytest.raises(ValueError, match="'0.weight' is torch.float64.*DistributedOptimizer"):
        server(model_of().double(), "sgd")
    for update in "add", "own:sign:lr=0.1":
        with pytest.raises(ValueError, match="is no optimizer"):
            server(model, update)
    with pytest.raises(tutti.errors.BadArgument, match="did you mean 'adam'"):
        server(model, "adan", lr=0.1)
    with pytest.raises(tutti.errors.BadArgument, match="no option .weight_decay.; it has lr"):
        server(model, "sgd", weight_decay=0.1)
    with pytest.raises(ValueError, match="twice"):
        server(model, "sgd:lr=0.1", lr=0.2)
    with pytest.raises(tutti.errors.BadArgument, match="stale:S"):
        server(model, "sgd", "stale")
    with pytest.raises(ValueError, match="no parameter"):
        hvd.ServerOptimizer([])
    with pytest.raises(ValueError, match="unique"):
        hvd.ServerOptimizer([("a", torch.nn.Parameter(torch.ones(1)))] * 2)
    optimizer = server(model)
    with pytest.raises(ValueError, match="cannot be added"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
    model(torch.ones(1, 8)).sum().backward()
    with pytest.raises(AssertionError, match="prohibited"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.close()


def test_sparse_gradients_are_refused():
    model = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = server(model)
    with pytest.raises(ValueError, match="'weight' is sparse.*sparse=False"):
        model(torch.tensor([1])).sum().backward()
    model.zero_grad()
    optimizer.close()


@pytest.mark.parametrize("update", ["sgd", "adam"])
def test_a_state_is_gone_on_from(update, tmp_path):
    model = model_of()
    optimizer = server(model, update, "stale:1", lr=0.05)
    train(model, optimizer, steps=2)
    hvd.barrier()
    optimizer.pull()
    hvd.barrier()
    torch.save(optimizer.state_dict(), tmp_path / "state")
    state, values = torch.load(tmp_path / "state"), copy.deepcopy(model)
    assert state["tutti_store"]["clock"] == 2
    train(model, optimizer, steps=1)
    if update == "sgd":
        optimizer.load_state_dict(state)
    else:
        with pytest.warns(UserWarning, match="begins with nothing"):
            optimizer.load_state_dict(state)
    assert_close(model, values, rtol=0, atol=0)
    assert optimizer.clock == 2 and optimizer.param_groups[0]["lr"] == 0.05
    train(model, optimizer, steps=1)
    assert optimizer.clock == 3
    other = {"state": {}, "param_groups": []}
    with pytest.raises(ValueError, match="not of a ServerOptimizer"):
        optimizer.load_state_dict(other)
    state["tutti_store"]["policy"] = "bulk"
    with pytest.raises(ValueError, match="policy bulk"):
        optimizer.load_state_dict(state)
    optimizer.close()


@pytest.mark.parametrize("update", ["sgd", "momentum", "adam"])
def test_a_file_has_the_state_of_owners(update, tmp_path):
    path = hvd.broadcast_object(str(tmp_path / "store.tutti"), 0)
    model = model_of()
    optimizer = server(model, update, lr=0.05)
    train(model, optimizer, steps=3)
    optimizer.save(path)
    at_save = copy.deepcopy(model)
    train(model, optimizer, steps=2)
    undisturbed = copy.deepcopy(model)
    optimizer.load(path)
    assert_close(model, at_save, rtol=0, atol=0)
    assert optimizer.clock == 3
    train(model, optimizer, steps=2)
    assert_close(model, undisturbed, rtol=0, atol=0)
    optimizer.close()
    other = model_of()
    optimizer = server(other, update, lr=0.05)
    optimizer.load(path)
    train(other, optimizer, steps=2)
    assert_close(other, undisturbed, rtol=0, atol=0)
    optimizer.close()


@pytest.mark.parametrize("policy", ["bulk", "stale:1", "quorum"])
def test_a_file_is_loaded_while_gradients_are_in_flight(policy, tmp_path):
    path = hvd.broadcast_object(str(tmp_path / "store.tutti"), 0)
    model = model_of()
    optimizer = server(model, "sgd", f"quorum:{hvd.size()}" if policy == "quorum" else policy)
    train(model, optimizer, steps=1)
    hvd.barrier()
    optimizer.pull()  # what all have pushed
    hvd.barrier()
    optimizer.save(path)
    at_save = copy.deepcopy(model)
    optimizer.zero_grad()
    model(torch.ones(1, 8)).sum().backward()  # pushed, and no step
    optimizer.load(path)
    assert_close(model, at_save, rtol=0, atol=0)
    train(model, optimizer, steps=1)
    optimizer.close()


def test_a_scheduler_changes_the_learning_rate():
    model, plain = model_of(), model_of()
    optimizer = server(model, "sgd:lr=0.1")
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    if _library.library.tutti_store_set is None:
        train(model, optimizer, steps=1)
        scheduler.step()
        if hvd.rank() == 0:
            with pytest.raises(tutti.errors.Unsupported, match="learning rate cannot be changed"):
                train(model, optimizer, steps=1)
            optimizer.param_groups[0]["lr"] = 0.1
        optimizer._begin()
        return  # the store is left open
    twin = distributed(plain, torch.optim.SGD, lr=0.1)
    schedulers = scheduler, torch.optim.lr_scheduler.StepLR(twin, 1, 0.5)
    for step in range(4):
        train(model, optimizer, steps=1, first=step)
        train(plain, twin, steps=1, first=step)
        for each in schedulers:
            each.step()
    assert_close(model, plain, rtol=1e-4, atol=1e-5)
    optimizer.close()


SCRIPT = """
import os, signal, torch
import tutti.torch as hvd
hvd.init()
torch.manual_seed(1)
model = torch.nn.Linear(50, 20)
optimizer = hvd.ServerOptimizer(model.named_parameters(), "sgd:lr=0.01", "stale:3")
for step in range(30):
    if step == 10 and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    model(torch.randn(4, 50)).square().mean().backward()
    optimizer.step()
optimizer.close()
print("trained", optimizer.clock, flush=True)
"""


@pytest.mark.skipif("TEST_BIN" not in os.environ, reason="TEST_BIN has no tutti")
def test_the_others_go_on_without_a_killed_worker(tmp_path):
    """Servers own everything."""
    if hvd.size() > 1:
        pytest.skip("once is enough")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    clean = {key: value for key, value in os.environ.items()
             if not key.startswith("TUTTI_") or key == "TUTTI_LIBRARY"}
    done = subprocess.run([os.environ["TEST_BIN"] + "/tutti", "run", "--keep-going", "-n", "2",
                           "--servers", "2", sys.executable, str(script)],
                          timeout=200, capture_output=True, text=True, env=clean)
    assert done.stdout.count("trained 30") == 1, done.stdout + done.stderr
