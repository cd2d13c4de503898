# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer, SyncBatchNorm, broadcast of state, the DDP hook."""

import copy
import gc
import os
import weakref

import pytest
import torch

from conftest import lies_in_shared_memory
import tutti.torch as hvd


@pytest.fixture(scope="module", autouse=True)
def started():
    hvd.init()
    yield
    hvd.shutdown()


def model_of(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def batches(count):
    """The same batches on every rank; each takes its share of the rows."""
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        yield torch.randn(8, 8, generator=generator), torch.randn(8, 4, generator=generator)


def share(tensor):
    return tensor.tensor_split(hvd.size())[hvd.rank()]


def train(model, optimizer, steps=5):
    losses = []
    for inputs, targets in batches(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(share(inputs)), share(targets))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def assert_equal_everywhere(model):
    for tensor in model.state_dict().values():
        for other in hvd.allgather_object(tensor):
            assert torch.equal(tensor, other)


@pytest.mark.parametrize("options", [
    {}, {"groups": 2}, {"groups": 100}, {"compression": hvd.Compression.fp16},
    {"gradient_predivide_factor": 2.0}, {"op": hvd.Sum}, {"op": hvd.Adasum},
    {"op": hvd.Adasum, "compression": hvd.Compression.bf16},
])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_replicas_stay_equal(kind, options):
    model = model_of()
    optimizer = hvd.DistributedOptimizer(kind(model.parameters(), lr=0.01),
                                         named_parameters=model.named_parameters(), **options)
    assert isinstance(optimizer, kind)
    train(model, optimizer)
    assert_equal_everywhere(model)


def test_one_rank_trains_bit_for_bit_as_the_plain_loop():
    model, plain = model_of(), model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    losses, plain_losses = train(model, optimizer), []
    plain_optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for inputs, targets in batches(5):  # the average of the shares' gradients, by hand
        total = [torch.zeros_like(p) for p in plain.parameters()]
        for rank, (rows, wanted) in enumerate(zip(inputs.tensor_split(hvd.size()),
                                                  targets.tensor_split(hvd.size()))):
            plain_optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(plain(rows), wanted)
            loss.backward()
            if rank == hvd.rank():
                plain_losses.append(loss.item())
            for sum_, p in zip(total, plain.parameters()):
                sum_ += p.grad
        for sum_, p in zip(total, plain.parameters()):
            p.grad = sum_ / hvd.size()
        plain_optimizer.step()
    assert losses == (plain_losses if hvd.size() == 1 else pytest.approx(plain_losses))
    for mine, theirs in zip(model.parameters(), plain.parameters()):
        if hvd.size() == 1:
            assert torch.equal(mine, theirs)
        torch.testing.assert_close(mine, theirs)


def alone(wrap, **options):
    """A few steps, the same on every rank that runs them, then the parameters."""
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = wrap(model, optimizer, **options) if wrap else optimizer
    for inputs, targets in batches(3):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs * (hvd.rank() + 1)), targets).backward()
        optimizer.step()
    return list(model.state_dict().values())


def distributed(model, optimizer, **options):
    return hvd.DistributedOptimizer(optimizer, model.named_parameters(), **options)


@pytest.mark.parametrize("wrap, options", [
    (distributed, {}), (distributed, {"groups": 2}), (distributed, {"op": hvd.Adasum}),
    (distributed, {"gradient_predivide_factor": 2.0}), (hvd.CrossBarrier, {})])
def test_ranks_outside_the_process_set_train_by_themselves(wrap, options):
    if hvd.size() == 1:
        pytest.skip("nobody is outside")
    first = hvd.add_process_set([0])
    last = hvd.add_process_set([hvd.size() - 1])
    for members in (first, last):
        exact = options.get("op") != hvd.Adasum or not members.included()
        for mine, plain in zip(alone(wrap, process_set=members, **options), alone(None)):
            assert torch.equal(mine, plain) if exact else torch.allclose(mine, plain)
    for members in (first, last):
        hvd.remove_process_set(members)


def test_adasum_of_equal_steps_is_the_step():
    model, plain = model_of(), model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.AdamW(model.parameters(), lr=0.1),
                                         model.named_parameters(), op=hvd.Adasum)
    plain_optimizer = torch.optim.AdamW(plain.parameters(), lr=0.1)
    for inputs, targets in batches(3):
        for each, its in ((model, optimizer), (plain, plain_optimizer)):
            its.zero_grad()
            torch.nn.functional.mse_loss(each(inputs), targets).backward()
            its.step()
    for mine, theirs in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    with pytest.raises(AssertionError, match="Adasum"):
        with optimizer.skip_synchronize():
            pass


def test_explicit_groups_of_parameters():
    model = model_of()
    parameters = list(model.parameters())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters(),
                                         groups=[parameters[:2], parameters[2:]])
    train(model, optimizer)
    assert_equal_everywhere(model)


def test_unused_parameters_take_part_with_zeros():
    model = model_of()
    unused = torch.nn.Parameter(torch.ones(3))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([*model.parameters(), unused], lr=0.1),
        [*model.named_parameters(), ("unused", unused)])
    inputs, _ = next(batches(1))
    loss = model(inputs).sum() + (unused.sum() if hvd.rank() == 0 else 0)
    loss.backward()
    optimizer.step()
    assert torch.allclose(unused, torch.ones(3) - 0.1 / hvd.size())


def test_passes_are_added_up_before_the_exchange():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters(), backward_passes_per_step=2)
    inputs, _ = next(batches(1))
    model(inputs).sum().backward()
    model(inputs).sum().backward()
    optimizer.step()
    assert_equal_everywhere(model)
    optimizer.zero_grad()
    model(inputs).sum().backward()
    model(inputs).sum().backward()
    if hvd.size() > 1:  # a single rank exchanges nothing
        with pytest.raises(AssertionError, match="backward_passes_per_step"):
            model(inputs).sum().backward()
    optimizer.synchronize()


def test_zeroing_gradients_under_way_is_refused():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters())
    inputs, _ = next(batches(1))
    model(inputs).sum().backward()
    if hvd.size() > 1:
        with pytest.raises(AssertionError, match="race condition"):
            optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    assert all(p.grad is None for p in model.parameters())


def test_gradients_that_stay_move_into_shared_memory():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters())
    places = []
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        model(next(batches(1))[0]).sum().backward()
        optimizer.step()
        places.append([p.grad.data_ptr() for p in model.parameters()])
        assert hvd.size() == 1 or all(lies_in_shared_memory(p.grad) for p in model.parameters())
    assert places[0] == places[1] == places[2]
    assert_equal_everywhere(model)


def test_gradients_that_are_dropped_come_back_to_the_same_place():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters())
    places = []
    for _ in range(4):
        optimizer.zero_grad(set_to_none=True)
        model(next(batches(1))[0]).sum().backward()
        optimizer.step()
        places.append([p.grad.data_ptr() for p in model.parameters()])
        assert hvd.size() == 1 or all(lies_in_shared_memory(p.grad) for p in model.parameters())
    assert hvd.size() == 1 or places[0] == places[3]
    assert_equal_everywhere(model)


def test_gradients_keep_the_parameters_order_in_memory():
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters())
    for _ in range(2):
        optimizer.zero_grad()
        image = torch.full((1, 3, 8, 8), float(hvd.rank()))
        model(image.to(memory_format=torch.channels_last)).sum().backward()
        optimizer.step()
        assert model.weight.grad.stride() == model.weight.stride()
        assert torch.equal(model.weight.grad, hvd.allreduce(model.weight.grad, op=hvd.Max))
    assert_equal_everywhere(model)


def test_ranks_with_less_data_join():
    calls = [hvd.allreduce(torch.tensor([1.0]), op=hvd.Sum).item() for _ in range(1 + hvd.rank())]
    assert calls == [float(hvd.size() - i) for i in range(1 + hvd.rank())]
    assert hvd.join() == hvd.size() - 1
    assert hvd.allreduce(torch.tensor([1.0]), op=hvd.Sum).item() == hvd.size()  # names match again
    for op, expected in ((hvd.Average, 3.0 / hvd.size()), (hvd.Min, 3.0), (hvd.Product, 3.0)):
        if hvd.rank() == 0:  # divided by the number of all ranks, the others contributing zeros
            assert hvd.allreduce(torch.tensor([3.0]), op=op).item() == pytest.approx(expected)
        hvd.join()
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters())
    for inputs, targets in batches(2 + hvd.rank()):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    last = hvd.join()
    hvd.broadcast_parameters(model.state_dict(), last)
    assert_equal_everywhere(model)


def test_clipping_between_synchronize_and_step():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters())
    inputs, _ = next(batches(1))
    (model(inputs).sum() * 1000).backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with optimizer.skip_synchronize():
        optimizer.step()
    assert_equal_everywhere(model)


def test_parameters_that_are_added_or_unfrozen_are_reduced():
    model, late, frozen = model_of(), torch.nn.Linear(4, 2), torch.nn.Linear(4, 4)
    for p in frozen.parameters():
        p.requires_grad_(False)
    hvd.broadcast_parameters(late.state_dict(), 0)
    hvd.broadcast_parameters(frozen.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([*model.parameters(), *frozen.parameters()], lr=0.1),
        [*model.named_parameters(prefix="model"), *frozen.named_parameters(prefix="frozen")])
    for number, (inputs, _) in enumerate(batches(4)):
        if number == 1:
            optimizer.add_param_group({"params": list(late.parameters())})
        if number == 2:
            for p in frozen.parameters():
                p.requires_grad_(True)
        optimizer.zero_grad()
        (late(frozen(model(inputs * (hvd.rank() + 1)))) ** 2).sum().backward()
        optimizer.step()
    before = frozen.weight.detach().clone()
    for each in (model, late, frozen):
        assert_equal_everywhere(each)
    optimizer.zero_grad()
    (late(frozen(model(inputs))) ** 2).sum().backward()
    optimizer.step()
    assert not torch.equal(before, frozen.weight)


def test_gradients_of_a_closure_are_reduced_before_the_step():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters())
    for number, (inputs, targets) in enumerate(batches(3)):
        def closure():
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(share(inputs)), share(targets))
            loss.backward()
            return loss

        if number == 1:
            closure()  # exchanges started before do no harm
        assert optimizer.step(closure).item() > 0
        assert_equal_everywhere(model)
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.DistributedOptimizer(torch.optim.LBFGS(model.parameters()), model.named_parameters())


@pytest.mark.parametrize("options", [{}, {"compression": hvd.Compression.fp16}, {"groups": 2},
                                     {"backward_passes_per_step": 2}])
def test_reading_a_gradient_waits_for_it(options):
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters(), **options)
    for number, (inputs, _) in enumerate(batches(4)):
        optimizer.zero_grad(set_to_none=number % 2 == 0)
        for _ in range(options.get("backward_passes_per_step", 1)):
            model(inputs * (hvd.rank() + 1)).sum().backward()
        if number == 2:
            assert float(model[0].weight.grad.norm()) == max(hvd.allgather_object(
                float(model[0].weight.grad.norm())))
            continue  # a skipped step, as by a scaler
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        assert all(torch.equal(norm, other) for other in hvd.allgather_object(norm))
        clipped = [p.grad.clone() for p in model.parameters()]
        optimizer.step()
        assert all(torch.equal(a, p.grad) for a, p in zip(clipped, model.parameters()))
        assert all(type(p.grad) is torch.Tensor for p in model.parameters())
        assert_equal_everywhere(model)


def embeddings(rows, unused=None):
    """A table of which each rank uses its own row; rank `unused` uses none."""
    torch.manual_seed(0)
    table = torch.nn.Embedding(rows, 3, sparse=True)
    return table, None if hvd.rank() == unused else table(torch.tensor([hvd.rank()])).sum()


@pytest.mark.parametrize("as_dense", [False, True])
@pytest.mark.parametrize("unused", [None, 0])
def test_a_sparse_gradient_stays_sparse(as_dense, unused):
    table, loss = embeddings(10, unused)
    optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(table.parameters(), lr=1.0),
                                         table.named_parameters(), sparse_as_dense=as_dense)
    before = table.weight.detach().clone()
    if loss is not None:
        loss.backward()
    optimizer.step()  # SparseAdam takes sparse gradients only
    touched = (table.weight.detach() != before).any(1).nonzero().flatten().tolist()
    assert touched == [rank for rank in range(hvd.size()) if rank != unused]
    assert_equal_everywhere(table)


def test_a_large_table_that_a_rank_does_not_use_is_an_error_on_all():
    if hvd.size() == 1:
        pytest.skip("needs two ranks")
    for unused in (0, None):  # after the error the job goes on
        table, loss = embeddings(500_000, unused)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0),
                                             table.named_parameters())
        if loss is not None:
            loss.backward()
        if unused is None:
            optimizer.step()
            continue
        with pytest.raises(hvd.HorovodInternalError, match="rank 0.*rank|rank.*rank 0"):
            optimizer.step()


def test_sparse_gradients():
    for as_dense in (False, True):
        torch.manual_seed(0)
        table = torch.nn.Embedding(10, 3, sparse=True)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0),
                                             table.named_parameters(), sparse_as_dense=as_dense)
        before = table.weight.detach().clone()
        table(torch.tensor([hvd.rank()])).sum().backward()
        optimizer.step()
        touched = (table.weight.detach() != before).any(1).nonzero().flatten().tolist()
        assert touched == list(range(hvd.size()))


def test_wrong_names_are_refused():
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pairs = list(model.named_parameters())
    with pytest.raises(ValueError, match="unique"):
        hvd.DistributedOptimizer(optimizer, [("a", p) for _, p in pairs])
    with pytest.raises(ValueError, match="not named"):
        hvd.DistributedOptimizer(optimizer, pairs[:-1])
    with pytest.raises(ValueError, match="op != Average"):
        hvd.DistributedOptimizer(optimizer, pairs, op=hvd.Sum, gradient_predivide_factor=2.0)


def test_state_of_model_and_optimizer_comes_from_root():
    model = model_of(hvd.rank())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1 * (hvd.rank() + 1))
    if hvd.rank() == 0:
        model(torch.ones(1, 8)).sum().backward()
        optimizer.step()
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert_equal_everywhere(model)
    state = optimizer.state_dict()
    assert state["param_groups"][0]["lr"] == 0.1
    assert len(state["state"]) == 4
    for other in hvd.allgather_object(state["state"][0]["exp_avg"]):
        assert torch.equal(other, state["state"][0]["exp_avg"])


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("is_distributed", [False, True])
def test_the_state_of_a_new_optimizer_is_made_and_nothing_moves(kind, is_distributed):
    model = model_of(hvd.rank())
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    plain = kind(model.parameters(), lr=0.1 * (hvd.rank() + 1), weight_decay=0.5, **options)
    optimizer = (hvd.DistributedOptimizer(plain, model.named_parameters()) if is_distributed
                 else plain)
    groups = optimizer.param_groups[0]
    before = [p.detach().clone() for p in model.parameters()]
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert all(torch.equal(p, was) and p.grad is None for p, was in zip(model.parameters(), before))
    assert optimizer.param_groups[0] is groups and groups["lr"] == 0.1  # a scheduler's, too
    assert len(optimizer.state_dict()["state"]) == 4
    kept = {key: value for key, value in optimizer.state[model[0].weight].items()}
    hvd.broadcast_optimizer_state(optimizer, 0)
    for key, value in kept.items():
        assert optimizer.state[model[0].weight][key] is value


def test_dropped_models_and_optimizers_are_freed():
    alive = []
    for wrap in (distributed, hvd.CrossBarrier):
        for is_finished in (True, False):
            model = model_of()
            optimizer = wrap(model, torch.optim.SGD(model.parameters(), lr=0.1))
            model(next(batches(1))[0]).sum().backward()
            if is_finished:
                optimizer.step()
            alive += [weakref.ref(thing) for thing in (model, optimizer, *model.parameters())]
            del optimizer, model
            gc.collect()
            hvd.barrier()
    assert [reference() for reference in alive if reference() is not None] == []


def resources():
    """Descriptors, threads and mappings of this process."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        mapped = sum("tutti" in line for line in maps)
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), mapped


def test_cycles_of_joining_training_and_leaving_leave_nothing_behind():
    seen = []
    for _ in range(20):  # 100 leave no more behind
        model = model_of()
        for wrap in (distributed, hvd.CrossBarrier):
            optimizer = wrap(model, torch.optim.SGD(model.parameters(), lr=0.1))
            train(model, optimizer, 2)
            if wrap is hvd.CrossBarrier:
                optimizer.remove()
        del model, optimizer
        hvd.barrier()
        hvd.shutdown()
        gc.collect()
        seen.append(resources())
        hvd.init()
    assert seen[1] == seen[-1], seen


def test_batch_norm_over_ranks_is_that_of_the_whole_batch():
    torch.manual_seed(0)
    whole = torch.randn(4 * hvd.size(), 3, 5)
    plain, ours = torch.nn.BatchNorm1d(3), hvd.SyncBatchNorm(3)
    expected_input = whole.clone().requires_grad_()
    expected = plain(expected_input)
    expected.pow(2).sum().backward()
    mine = share(whole).clone().requires_grad_()
    output = ours(mine)
    output.pow(2).sum().backward()
    torch.testing.assert_close(output, share(expected), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.running_mean, plain.running_mean)
    torch.testing.assert_close(ours.running_var, plain.running_var, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine.grad, share(expected_input.grad), rtol=1e-3, atol=1e-4)


def test_batch_norm_over_ranks_is_exact_far_from_zero_and_without_a_batch():
    torch.manual_seed(0)
    whole = torch.randn(4 * hvd.size(), 3) + 3000.0
    ours = hvd.SyncBatchNorm(3)
    mine = share(whole)
    if hvd.size() > 1 and hvd.rank() == 0:  # one rank has nothing
        mine = mine[:0]
    present = whole if hvd.size() == 1 else whole[len(share(whole)):]
    expected = torch.nn.functional.batch_norm(present.double(), None, None, training=True)
    output = ours(mine)
    assert output.shape == mine.shape and bool(torch.isfinite(output).all())
    if len(mine):
        begin = 0 if hvd.size() == 1 else (hvd.rank() - 1) * len(mine)
        torch.testing.assert_close(output.double(), expected[begin:begin + len(mine)],
                                   rtol=1e-3, atol=1e-2)
    assert ours(torch.randn(4, 3).to(torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("unscale", [False, True])
def test_a_gradient_scaler_scales_and_skips(unscale):
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        pytest.skip("this torch has no GradScaler for the CPU")
    model, plain = model_of(), model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters())
    plain_optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for number, (inputs, targets) in enumerate(batches(3)):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        if number == 1:  # one rank's overflow makes all ranks skip the step
            loss = loss * (float("inf") if hvd.rank() == 0 else 1.0)
        scaler.scale(loss).backward()
        optimizer.synchronize()
        if unscale:
            scaler.unscale_(optimizer)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
        if number != 1:
            plain_optimizer.zero_grad()
            torch.nn.functional.mse_loss(plain(inputs), targets).backward()
            plain_optimizer.step()
    assert scaler.get_scale() == 32.0
    assert_equal_everywhere(model)
    for mine, theirs in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(mine, theirs)


def test_one_rank_alone_is_the_plain_optimizer():
    if hvd.size() > 1:
        pytest.skip("needs a job of one")
    model, plain = model_of(), model_of()
    unused = torch.nn.Parameter(torch.ones(3))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([*model.parameters(), unused], lr=0.1, weight_decay=0.5),
        [*model.named_parameters(), ("unused", unused)], compression=hvd.Compression.fp16)
    plain_optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, weight_decay=0.5)
    for each, its in ((model, optimizer), (plain, plain_optimizer)):
        for inputs, targets in batches(3):
            its.zero_grad()
            for _ in range(2):
                torch.nn.functional.mse_loss(each(inputs), targets).backward()
            its.step()
    assert torch.equal(unused, torch.ones(3))  # no gradient: no decay either
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters()))


def test_gradients_outlive_the_job():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters())
    model(next(batches(1))[0]).sum().backward()
    optimizer.step()
    gathered = hvd.allgather(torch.ones(1))
    before = [p.grad.clone() for p in model.parameters()]
    hvd.shutdown()
    for p, was in zip(model.parameters(), before):
        assert torch.equal(p.grad, was)
        p.grad.zero_()
    assert gathered.sum().item() == len(gathered)
    hvd.init()
    model(next(batches(1))[0]).sum().backward()  # and the optimizer works in the next job
    optimizer.step()
    assert_equal_everywhere(model)


def test_scaler_and_deepcopy_of_plain_optimizer():
    model = model_of()
    copied = copy.deepcopy(model)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(copied.parameters(), lr=0.1),
                                         copied.named_parameters())
    train(copied, optimizer, 2)
    assert_equal_everywhere(copied)
