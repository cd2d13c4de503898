# SPDX-License-Identifier: Apache-2.0
"""CrossBarrier: the same training, with the exchange overlapping the next forward pass."""

import copy
import importlib
import inspect
import pickle
import warnings

import pytest
import torch

from conftest import lies_in_shared_memory
import tutti.torch as hvd


@pytest.fixture(scope="module", autouse=True)
def started():
    hvd.init()
    yield
    hvd.shutdown()


class Attention(torch.nn.Module):
    """Has a parameter of its own, and one whose owner's forward never runs (out_proj)."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Linear(8, 16)
        self.token = torch.nn.Parameter(torch.randn(1, 1, 16))
        self.attend = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x):
        x = self.embed(x).unsqueeze(1) + self.token
        return self.head(self.attend(x, x, x, need_weights=False)[0]).squeeze(1)


class Partly(torch.nn.Module):
    """Uses one of its branches only, another one in every step, and none on odd ranks."""

    def __init__(self):
        super().__init__()
        self.always = torch.nn.Linear(8, 8)
        self.branches = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
        self.last = torch.nn.Linear(8, 4)
        self.turn = 0

    def forward(self, x):
        self.turn += 1
        x = self.always(x)
        if hvd.rank() % 2 == 0:
            x = self.branches[self.turn % 3](x)
        return self.last(x)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8, bias=False)
        self.second = torch.nn.Linear(8, 8, bias=False)
        self.second.weight = self.first.weight
        self.last = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.last(self.second(torch.relu(self.first(x))))


def plain():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 64),
                               torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 4))


MODELS = {"plain": plain, "attention": Attention, "partly": Partly, "tied": Tied}
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9,
                                              weight_decay=0.01),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01),
    "groups": lambda parameters: torch.optim.SGD(
        [{"params": p, "lr": 0.01 * (i + 1)} for i, p in enumerate(parameters)], lr=0.1),
}


def made(name):
    torch.manual_seed(3)
    return MODELS[name]()


def train(model, optimizer, steps=6, before_step=None, zero=None, schedule=True):
    generator = torch.Generator().manual_seed(100 + hvd.rank())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5) if schedule else None
    losses = []
    for _ in range(steps):
        inputs = torch.randn(6, 8, generator=generator)
        targets = torch.randn(6, 4, generator=generator)
        if zero != "after":
            optimizer.zero_grad(set_to_none=zero != "keep")
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        if before_step is not None:
            before_step(model)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        if zero == "after":
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def distributed(model, optimizer):
    return hvd.DistributedOptimizer(optimizer, model.named_parameters())


def with_barrier(model, optimizer):
    """The same exchange, waited for in step()."""
    crossing = hvd.CrossBarrier(model, optimizer)
    kind = type(crossing)
    crossing.__class__ = type(kind.__name__, (kind,), {
        "step": lambda self: (kind.step(self), self.flush())})
    return crossing


def several_ways(model_name, optimizer_name, **options):
    """Losses and final state of the same training with CrossBarrier, with a barrier, and by
    DistributedOptimizer."""
    results = []
    for wrap in (hvd.CrossBarrier, with_barrier, distributed):
        model = made(model_name)
        optimizer = wrap(model, OPTIMIZERS[optimizer_name](list(model.parameters())))
        losses = train(model, optimizer, **options)
        results.append((losses, copy.deepcopy(model.state_dict()),
                        copy.deepcopy(optimizer.state_dict())))
    return results


def assert_same(left, right, same=torch.equal):
    if isinstance(left, torch.Tensor):
        assert same(left, right)
    elif isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key], same)
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right):
            assert_same(one, other, same)
    elif isinstance(left, float):
        assert same(torch.tensor(left), torch.tensor(right))
    else:
        assert left == right


def assert_all_same(crossed, waited, reduced):
    """Sums of more than two numbers depend on how tensors are put together for the exchange."""
    assert_same(crossed, waited)
    assert_same(crossed, reduced, torch.equal if hvd.size() <= 2 else
                lambda left, right: torch.allclose(left.double(), right.double(), 1e-3, 1e-5))


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
@pytest.mark.parametrize("model_name", MODELS)
def test_training_has_the_same_bits(model_name, optimizer_name):
    assert_all_same(*several_ways(model_name, optimizer_name))


@pytest.mark.parametrize("zero", ["after", "keep", "model", "model keep"])
def test_gradients_may_be_zeroed_in_any_way(zero):
    if not zero.startswith("model"):
        assert_all_same(*several_ways("plain", "sgd", zero=zero))
        return
    results = []
    for wrap in (hvd.CrossBarrier, with_barrier, distributed):
        model = made("plain")
        optimizer = wrap(model, OPTIMIZERS["sgd"](list(model.parameters())))
        for step in range(4):
            model(torch.full((6, 8), step + hvd.rank() + 0.5)).sum().backward()
            optimizer.step()
            model.zero_grad(set_to_none=zero == "model")
        results.append(copy.deepcopy(model.state_dict()))
    assert_all_same(*results)


def test_clipping_waits_for_the_gradients():
    results = []
    for wrap in (hvd.CrossBarrier, with_barrier, distributed):
        model = made("plain")
        optimizer = wrap(model, OPTIMIZERS["sgd"](list(model.parameters())))
        for step in range(4):
            optimizer.zero_grad()
            model(torch.full((6, 8), step + hvd.rank() + 0.5)).sum().backward()
            if wrap is distributed:
                optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            with optimizer.skip_synchronize() if wrap is distributed else warnings.catch_warnings():
                optimizer.step()
        results.append(copy.deepcopy(model.state_dict()))
    assert_all_same(*results)


def test_a_norm_of_a_gradient_is_that_of_the_reduced_one():
    model = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.full((1, 4), float(hvd.rank()))).sum().backward()
        mean = sum(range(hvd.size())) / hvd.size()
        assert model.weight.grad.shape == (1, 4)
        assert model.weight.grad.norm().item() == 2 * mean
        assert torch.equal(model.weight.grad + 0, torch.full((1, 4), mean))
        optimizer.step()


@pytest.mark.skipif(not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"),
                    reason="this torch scales on devices only")
def test_a_scaler_skips_a_step_with_infinite_gradients():
    model = torch.nn.Linear(4, 1)
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for step in range(4):
        before = copy.deepcopy(model.state_dict())
        optimizer.zero_grad()
        bad = step == 2 and hvd.rank() == hvd.size() - 1
        scaler.scale(model(torch.full((2, 4), float("inf") if bad else 1.0)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        same = all(torch.equal(a, b) for a, b in
                   zip(before.values(), model.state_dict().values()))
        assert same == (step == 2)


def test_step_does_not_wait_for_the_peers():
    model = made("plain")
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    train(model, optimizer, 1, schedule=False)  # the ranks agree on buckets
    for _ in range(3):
        optimizer.zero_grad()
        if hvd.rank() != 0:  # these come late: after rank 0 has left step()
            hvd.broadcast_object(None, 0, "left")
        model(torch.ones(6, 8)).sum().backward()
        optimizer.step()
        if hvd.rank() == 0:
            hvd.broadcast_object("step", 0, "left")


def test_hyper_parameters_are_those_of_the_step():
    model = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=1.0))
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 100.0
    assert torch.equal(model.state_dict()["weight"], torch.full((1, 4), -1.0))


@pytest.mark.parametrize("look", ["state_dict", "eval", "part", "optimizer"])
def test_readers_of_the_state_see_the_updates(look):
    model = torch.nn.Sequential(torch.nn.Linear(4, 1, bias=False))
    torch.nn.init.zeros_(model[0].weight)
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5))
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    if look == "eval":
        model.eval()
    elif look == "part":
        model[0].state_dict()
    elif look == "optimizer":
        assert optimizer.state_dict()["state"]
    else:
        model.state_dict()
    assert torch.equal(model[0].weight.detach(), torch.full((1, 4), -1.0))


def test_state_is_saved_and_loaded():
    def continued(reload):
        model = made("plain")
        optimizer = hvd.CrossBarrier(model, OPTIMIZERS["adamw"](list(model.parameters())))
        train(model, optimizer, 3, schedule=False)
        if reload:
            states = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
            model = made("plain")
            optimizer = hvd.CrossBarrier(model, OPTIMIZERS["adamw"](list(model.parameters())))
            model.load_state_dict(states[0])
            optimizer.load_state_dict(states[1])
        train(model, optimizer, 3, schedule=False)
        return model.state_dict()

    assert_same(continued(False), continued(True))


def test_passes_are_accumulated():
    model = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=1.0),
                                 backward_passes_per_step=2)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        assert torch.equal(model.state_dict()["weight"], torch.full((1, 4), -2.0 * (step + 1)))


def test_one_pass_too_many_is_an_error():
    model = made("plain")
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(6, 8)).sum().backward()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        model(torch.ones(6, 8)).sum().backward()
    optimizer.step()
    optimizer.flush()


def test_a_parameter_read_without_its_module_is_an_error():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(1, 8)).sum().backward()
    optimizer.step()
    stale = torch.nn.functional.linear(torch.ones(1, 8), model[1].weight)
    with pytest.raises(RuntimeError, match="'1.weight' was read before its last update"):
        stale.sum().backward()
    optimizer.flush()


def test_unsupported_optimizers_and_models_are_refused():
    model = made("plain")
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.CrossBarrier(model, torch.optim.LBFGS(model.parameters()))
    with pytest.raises(ValueError, match="1 parameters of the optimizer are not in the model"):
        hvd.CrossBarrier(model, torch.optim.SGD(
            [*model.parameters(), torch.nn.Parameter(torch.ones(1))], lr=0.1))
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(ValueError, match="closure"):
        optimizer.step(lambda: 0.0)
    with pytest.raises(ValueError, match="add parameters"):
        optimizer.add_param_group({"params": []})
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = hvd.CrossBarrier(embedding, torch.optim.SGD(embedding.parameters(), lr=0.1))
    with pytest.raises(ValueError, match="'weight' is sparse"):
        embedding(torch.tensor([1])).sum().backward()


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="this torch does not compile")
def test_a_compiled_model_warns_that_nothing_can_overlap():
    model = torch.compile(made("plain"), backend="eager")
    with pytest.warns(UserWarning, match="nothing can overlap"):
        optimizer = hvd.CrossBarrier(model, OPTIMIZERS["sgd"](list(model.parameters())))
    crossed = train(model, optimizer)
    other = made("plain")
    reduced = train(other, distributed(other, OPTIMIZERS["sgd"](list(other.parameters()))))
    assert crossed == pytest.approx(reduced, 1e-3)


def test_a_model_compiled_later_trains_with_the_same_bits():
    if not hasattr(torch, "compile") or hvd.size() != 4:
        pytest.skip("slow: once, on four ranks, where torch compiles")
    states = []
    for is_compiled in (False, True):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
        optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))
        forward = torch.compile(model, backend="eager") if is_compiled else model
        for step in range(5):
            inputs = torch.full((4, 8), 0.1 * step + hvd.rank())
            optimizer.zero_grad()
            forward(inputs).tanh().mean().backward()
            optimizer.step()
        states.append(model.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_model_is_saved_and_copied_with_its_updates(tmp_path):
    model = made("plain")
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for take in (copy.deepcopy, lambda model: through_file(model, tmp_path),
                 lambda model: pickle.loads(pickle.dumps(model))):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        taken = take(model)  # before any wait for the updates
        optimizer.flush()
        for mine, its in zip(model.state_dict().values(), taken.state_dict().values()):
            assert torch.equal(mine, its)
        taken.eval()(torch.ones(2, 8))
        assert model.training and not taken.training
    optimizer.remove()
    assert "__deepcopy__" not in model.__dict__ and "train" not in model.__dict__


def through_file(model, folder):
    torch.save(model, folder / "model")
    options = {"weights_only": False} if "weights_only" in inspect.signature(
        torch.load).parameters else {}
    return torch.load(folder / "model", **options)


def test_a_copy_of_the_model_is_free():
    model = made("plain")
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    train(model, optimizer, 2)
    twin = copy.deepcopy(model)
    assert twin.eval() is twin and not twin.training and model.training
    optimizer.remove()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(torch.ones(6, 8)).sum().backward()
    assert not model.eval().training


def first_step(model, width):
    """The optimizer after a step, when buckets are there."""
    optimizer = hvd.CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(1, width)).sum().backward()
    optimizer.step()
    optimizer.flush()
    return optimizer


def test_large_and_many_parameters_make_few_buckets():
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(100)],
                                torch.nn.Linear(4, 4096), torch.nn.Linear(4096, 4))
    optimizer = first_step(model, 4)
    bucket_of = {p: slot.bucket for p, slot in optimizer._slots.items()}
    assert 2 <= len(optimizer._buckets) <= 20
    assert bucket_of[model[0].weight].number == 0
    assert bucket_of[model[101].weight] is not bucket_of[model[100].weight]


def test_buckets_are_small_at_both_ends_of_the_forward_pass():
    optimizer = first_step(torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(60)]), 16)
    sizes = [sum(slot.place.numel() for slot in bucket.slots) for bucket in optimizer._buckets]
    assert max(sizes[0], sizes[-1]) <= sum(sizes) / 30 < max(sizes) <= sum(sizes) / 8
    assert len(sizes) <= 20


def test_a_small_layer_shares_the_bucket_of_a_large_neighbour():
    layers = [layer for _ in range(12)
              for layer in (torch.nn.Linear(32, 32), torch.nn.LayerNorm(32))]
    optimizer = first_step(torch.nn.Sequential(*layers), 32)
    large = [sum(slot.place.dim() == 2 for slot in bucket.slots) for bucket in optimizer._buckets]
    assert large == [1] * 12 + [0] * (len(large) - 12) and len(large) <= 13


def test_gradients_leave_before_their_bucket_is_whole():
    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(60)])
    optimizer = first_step(model, 16)
    large = max(optimizer._buckets, key=lambda bucket: len(bucket.slots))
    assert len(large.pieces) == len(large.slots) // 2  # a layer each
    left = []
    large.slots[0].parameter.register_hook(lambda _: left.append(len(large.handles)))
    model(torch.ones(1, 16)).sum().backward()
    assert left == [len(large.pieces) - 1]
    optimizer.step()
    optimizer.flush()


def test_gradients_stay_in_shared_memory():
    model = made("attention")
    optimizer = hvd.CrossBarrier(model, OPTIMIZERS["sgd"](model.parameters()))
    places = []
    for _ in range(3):
        train(model, optimizer, 1, zero="keep", schedule=False)
        optimizer.flush()
        places.append([p.grad.data_ptr() for p in model.parameters()])
        assert hvd.size() == 1 or all(lies_in_shared_memory(p.grad) for p in model.parameters())
    assert places[0] == places[1] == places[2]


def test_training_goes_on_after_an_interrupted_wait():
    model = made("plain")
    optimizer = hvd.CrossBarrier(model, OPTIMIZERS["sgd"](model.parameters()))
    train(model, optimizer, 2)
    for bucket in optimizer._buckets:  # as Ctrl-C inside forward leaves it
        bucket.handles.clear()
    assert all(torch.tensor(train(model, optimizer, 2)).isfinite())
    optimizer.flush()


def test_global_hooks_and_profiles_see_the_updates_of_buckets():
    model = made("plain")
    optimizer = hvd.CrossBarrier(model, OPTIMIZERS["sgd"](model.parameters()))
    train(model, optimizer, 1)
    optimizer.flush()
    with torch.autograd.profiler.profile() as profile:
        train(model, optimizer, 1)
        optimizer.flush()
    assert any("step" in event.key for event in profile.key_averages())
    module = importlib.import_module("torch.optim.optimizer")
    if not hasattr(module, "register_optimizer_step_post_hook"):  # torch before 2.1
        return
    seen = []
    hook = module.register_optimizer_step_post_hook(lambda part, *_: seen.append(part))
    train(model, optimizer, 1)
    optimizer.flush()
    hook.remove()
    assert [part for part in seen if part is not optimizer] == [
        bucket.optimizer for bucket in optimizer._buckets]
