# SPDX-License-Identifier: Apache-2.0
"""torch.distributed on Tutti: the collectives, DDP, FSDP2, subgroups, errors."""

import datetime
import os
import pathlib

import pytest
import torch
import torch.distributed as dist

from conftest import lies_in_shared_memory, needs_torch, rank, size, torch_version
import tutti.torch as hvd
import tutti.torch.backend  # noqa: F401 (a wheel registers it by entry point)


pytestmark = pytest.mark.usefixtures("process_group")


@pytest.mark.parametrize("op, fold", [
    (dist.ReduceOp.SUM, sum), (dist.ReduceOp.MAX, max), (dist.ReduceOp.MIN, min),
    (dist.ReduceOp.AVG, lambda values: sum(values) / len(values)),
])
def test_all_reduce(op, fold):
    tensor = torch.full((3, 4), float(rank() + 1))
    dist.all_reduce(tensor, op)
    assert torch.equal(tensor, torch.full((3, 4), float(fold([r + 1 for r in range(size())]))))


@pytest.mark.parametrize("op, fold", [
    ("BAND", lambda a, b: a & b), ("BOR", lambda a, b: a | b), ("BXOR", lambda a, b: a ^ b),
    ("PRODUCT", lambda a, b: a * b)])
def test_all_reduce_of_integers(op, fold):
    expected = 5
    for r in range(1, size()):
        expected = fold(expected, r + 5)
    tensor = torch.tensor([rank() + 5])
    dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
    assert tensor.item() == expected


def test_scattered_memory_is_filled_where_it_lies():
    tensor = torch.ones(4, 6).t()
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((6, 4), float(size())))


def test_broadcast_reduce_gather_scatter():
    tensor = torch.tensor([float(rank())])
    dist.broadcast(tensor, size() - 1)
    assert tensor.item() == size() - 1
    tensor = torch.ones(2)
    dist.reduce(tensor, 0)
    if rank() == 0:
        assert tensor.tolist() == [size()] * 2
    parts = [torch.zeros(2) for _ in range(size())] if rank() == 0 else None
    dist.gather(torch.full((2,), float(rank())), parts, 0)
    if rank() == 0:
        assert [part[0].item() for part in parts] == list(range(size()))
    mine = torch.zeros(2)
    dist.scatter(mine, [torch.full((2,), float(r)) for r in range(size())] if rank() == 0 else None)
    assert mine.tolist() == [rank()] * 2


def test_all_gather_forms():
    parts = [torch.zeros(2, 2) for _ in range(size())]
    dist.all_gather(parts, torch.full((2, 2), float(rank())))
    assert [part[0, 0].item() for part in parts] == list(range(size()))
    joined = torch.zeros(size() * 3)
    dist.all_gather_into_tensor(joined, torch.full((3,), float(rank())))
    assert joined.tolist() == [float(r) for r in range(size()) for _ in range(3)]


def test_reduce_scatter_forms():
    mine = torch.zeros(3)
    dist.reduce_scatter_tensor(mine, torch.arange(3.0 * size()))
    assert torch.equal(mine, torch.arange(3.0 * size())[3 * rank():3 * rank() + 3] * size())
    dist.reduce_scatter(mine, [torch.full((3,), float(r)) for r in range(size())])
    assert mine.tolist() == [rank() * size()] * 3


@pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:.*_coalesced")
def test_coalesced_forms():
    tensors = [torch.full((2,), float(rank())), torch.ones(3)]
    if hasattr(dist, "all_reduce_coalesced"):
        dist.all_reduce_coalesced(tensors)
        assert tensors[1].tolist() == [size()] * 3
    group = dist.distributed_c10d._get_default_group()
    inputs = [torch.full((2,), float(rank())), torch.full((1,), 10.0 + rank())]
    outputs = [torch.zeros(2 * size()), torch.zeros(size())]
    group.allgather_into_tensor_coalesced(outputs, inputs).wait()
    assert outputs[1].tolist() == [10.0 + r for r in range(size())]
    parts = [torch.zeros(2), torch.zeros(1)]
    group.reduce_scatter_tensor_coalesced(parts, outputs).wait()
    assert parts[0].tolist() == [float(rank() * size())] * 2
    assert parts[1].item() == size() * (10.0 + rank())


def test_all_to_all_forms():
    received = torch.zeros(size(), dtype=torch.int64)
    dist.all_to_all_single(received, torch.arange(size()) + 10 * rank())
    assert received.tolist() == [10 * r + rank() for r in range(size())]
    splits = [r + 1 for r in range(size())]
    received = torch.zeros(size() * (rank() + 1))
    dist.all_to_all_single(received, torch.full((sum(splits),), float(rank())),
                           [rank() + 1] * size(), splits)
    assert received.tolist() == [float(r) for r in range(size()) for _ in range(rank() + 1)]
    outputs = [torch.zeros(2) for _ in range(size())]
    dist.all_to_all(outputs, [torch.full((2,), float(rank()))] * size())
    assert [output[0].item() for output in outputs] == list(range(size()))


def test_point_to_point_and_objects():
    if size() > 1:
        there, back = (rank() + 1) % size(), (rank() - 1) % size()
        sending = dist.isend(torch.tensor([float(rank())]), there)
        tensor = torch.zeros(1)
        dist.recv(tensor, back)
        sending.wait()
        assert tensor.item() == back
    objects = [None] * size()
    dist.all_gather_object(objects, {"rank": rank()})
    assert objects == [{"rank": r} for r in range(size())]
    gathered = [None] * size() if rank() == 0 else None
    dist.gather_object({"rank": rank()}, gathered, 0)
    assert rank() != 0 or gathered == objects
    received = [None]
    dist.scatter_object_list(received, objects if rank() == 0 else None, 0)
    assert received == [{"rank": rank()}]
    told = [f"from {rank()}", 3]
    dist.broadcast_object_list(told, 0)
    assert told == ["from 0", 3]
    dist.barrier()


def test_tags_are_honoured():
    if size() == 1:
        return
    there, back = (rank() + 1) % size(), (rank() - 1) % size()
    sending = [dist.isend(torch.full((3,), float(10 * rank() + tag)), there, tag=tag)
               for tag in (1, 2, 7)]
    for tag in (7, 1, 2):  # not in the order of the sends
        tensor = torch.zeros(3)
        dist.recv(tensor, back, tag=tag)
        assert tensor.tolist() == [10 * back + tag] * 3
    for work in sending:
        work.wait()
    dist.barrier()


def _received(count, tag=0, group=None):
    """(source, first, last element) of a message from any rank."""
    tensor = torch.zeros(count)
    source = dist.recv(tensor, group=group, tag=tag)
    return source, tensor[0].item(), tensor[-1].item()


@pytest.mark.parametrize("count", [3, 100000])
def test_receives_take_any_source(count):
    if size() == 1:
        pytest.skip("needs two ranks")
    others = [other for other in range(size()) if other != 0]
    for is_late in (False, True):  # messages are there first, or receives are posted first
        if rank() == 0 and is_late:
            tensors = [torch.zeros(count) for _ in range(2 * len(others))]
            works = [dist.irecv(tensor, tag=4) for tensor in tensors]
        dist.barrier()
        if rank() != 0:
            for work in [dist.isend(torch.full((count,), float(10 * rank() + i)), 0, tag=4)
                         for i in range(2)]:
                work.wait()
        elif is_late:
            for work in works:
                work.wait()
            came = [(work._source_rank(), tensor[0].item(), tensor[-1].item())
                    for work, tensor in zip(works, tensors)]
        else:
            came = [_received(count, tag=4) for _ in range(2 * len(others))]
        if rank() == 0:
            for other in others:  # each sender's messages come in its order
                mine = [values for source, *values in came if source == other]
                assert mine == [[10.0 * other + i] * 2 for i in range(2)]
        dist.barrier()


def test_receives_from_any_source_beside_named_ones():
    if size() == 1:
        pytest.skip("needs two ranks")
    there, back = (rank() + 1) % size(), (rank() - 1) % size()
    tensors = [torch.zeros(2) for _ in range(3)]
    works = [dist.irecv(tensors[0], tag=1), dist.irecv(tensors[1], back, tag=1),
             dist.irecv(tensors[2], back)]
    for value, tag in ((1.0, 1), (2.0, 0), (3.0, 1)):
        dist.isend(torch.full((2,), 10 * rank() + value), there, tag=tag)
    for work in works:
        work.wait()
    assert [tensor[0].item() for tensor in tensors] == [10 * back + value for value in (1, 3, 2)]
    assert works[0]._source_rank() == back
    with pytest.raises(RuntimeError, match="without a source"):
        works[1]._source_rank()
    dist.barrier()


def test_sources_in_a_group_are_global_ranks():
    if size() == 1:
        pytest.skip("needs two ranks")
    members = list(range(1, size())) if size() > 2 else [0, 1]
    group = dist.new_group(members)
    if rank() == members[0]:
        came = sorted(_received(3, group=group) for _ in members[1:])
        assert came == [(other, float(other), float(other)) for other in members[1:]]
    elif rank() in members:
        dist.send(torch.full((3,), float(rank())), members[0], group=group)
    dist.barrier()


def test_receives_from_any_source_that_are_wrong_raise():
    if size() == 1:
        with pytest.raises(Exception, match="no other rank"):
            dist.recv(torch.zeros(1))
        return
    with pytest.raises(Exception, match="16777215"):
        dist.recv(torch.zeros(1), tag=1 << 25)
    tensor = torch.zeros(1)
    with pytest.raises(Exception, match="from any rank"):
        dist.new_group(list(range(size())), timeout=datetime.timedelta(seconds=0.2)).recv_anysource(
            [tensor], 3).wait()
    dist.barrier()


def test_batches_of_sends_and_receives():
    if size() == 1:
        pytest.skip("needs two ranks")
    there, back = (rank() + 1) % size(), (rank() - 1) % size()
    tensor = torch.zeros(2)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, torch.full((2,), float(rank())), there),
        dist.P2POp(dist.irecv, tensor, back)])
    for work in works:
        work.wait()
    assert tensor.tolist() == [back] * 2


def test_receives_may_wait_while_collectives_pass():
    if size() == 1:
        pytest.skip("needs two ranks")
    tensor, total = torch.zeros(1), torch.ones(1)
    receiving = dist.irecv(tensor, (rank() - 1) % size())
    dist.all_reduce(total)
    dist.send(torch.tensor([7.0]), (rank() + 1) % size())
    receiving.wait()
    assert (tensor.item(), total.item()) == (7.0, size())


def _address_space():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")


def _place(group):
    return getattr(group, "tutti", group).place  # in older torches the group is the backend


@needs_torch(2, 0, "tells a backend no ranks of a group, so that each is a job")
def test_groups_are_process_sets_of_one_job():
    job = _place(dist.distributed_c10d._get_default_group()).job
    descriptors, bytes_before = len(os.listdir("/proc/self/fd")), _address_space()
    groups = [dist.new_group(list(range(size()))) for _ in range(20)]
    places = [_place(group) for group in groups]
    assert all(place.job is job for place in places)
    assert len({place.set for place in places}) == 20
    for index, group in enumerate(groups):
        tensor = torch.full((3,), float(index))
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [index * size()] * 3
    assert len(os.listdir("/proc/self/fd")) <= descriptors  # those of earlier tests may close
    assert _address_space() - bytes_before < 1 << 30
    numbers = [place.set for place in places]
    for group in groups:
        dist.destroy_process_group(group)
    for number in numbers:
        with pytest.raises(tutti.errors.BadArgument):
            job.set_size(number)
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == size()


def test_groups_of_some_ranks_number_them_anew():
    groups = [dist.new_group([member]) for member in range(size())]
    pair = dist.new_group([0, size() - 1]) if size() > 1 else None
    tensor = torch.tensor([float(rank())])
    dist.all_reduce(tensor, group=groups[rank()])
    assert tensor.item() == rank()
    if pair is not None and rank() in (0, size() - 1):
        dist.broadcast(tensor, size() - 1, group=pair)
        assert tensor.item() == size() - 1
    for group in groups:
        if group != dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
    dist.barrier()


def test_subgroups_leave_the_others_alone():
    group = dist.new_group([0])
    if rank() == 0:
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == 1.0
    dist.barrier()


def _batch():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(8, 6, generator=generator).tensor_split(size())[rank()]


def _trained(model, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(_batch()).pow(2).mean().backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("hooked", [False, True])
def test_ddp_replicas_stay_equal(hooked):
    torch.manual_seed(rank())
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.0001)
    if hooked:
        model.register_comm_hook(None, hvd.ddp_hook)
    _trained(model)
    for tensor in model.state_dict().values():
        for other in hvd.allgather_object(tensor):
            assert torch.equal(tensor, other)


def image_model():
    torch.manual_seed(5)
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(),
                                 torch.nn.Linear(8 * 16, 4))
    return layers.to(memory_format=torch.channels_last)


@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("views", [False, True])
def test_ddps_gradients_lie_in_shared_memory_as_long_as_they_stay(views, drops):
    parallel = torch.nn.parallel.DistributedDataParallel
    plain, hooked = (parallel(image_model(), gradient_as_bucket_view=views, bucket_cap_mb=0.001)
                     for _ in range(2))
    hooked.register_comm_hook(None, hvd.ddp_hook)
    models = [(model, torch.optim.SGD(model.parameters(), lr=0.1)) for model in (plain, hooked)]
    kept = []
    for step in range(5):  # DDP rebuilds its buckets before the second
        inputs = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(step + 9 * rank()))
        for model, optimizer in models:
            if step == 3:  # added up before they are exchanged
                with model.no_sync():
                    model(inputs).tanh().mean().backward()
            model(inputs).tanh().mean().backward()
            optimizer.step()
        for mine, theirs in zip(hooked.parameters(), plain.parameters()):
            torch.testing.assert_close(mine.grad, theirs.grad)
            assert mine.grad.stride() == theirs.grad.stride()
            stays = views or not drops or step < 2
            assert size() == 1 or lies_in_shared_memory(mine.grad) == stays, step
        if not views:  # gradients that the user keeps are not written to
            for gradient, copy in kept if drops else ():
                assert torch.equal(gradient, copy)
            kept += [(p.grad, p.grad.clone()) for p in hooked.parameters()]
        for _, optimizer in models:
            optimizer.zero_grad(set_to_none=drops)


def test_ddps_hook_leaves_unused_parameters_as_ddp_does():
    parallel = torch.nn.parallel.DistributedDataParallel
    found = []
    for views, hooked in [(False, False), (False, True), (True, False), (True, True)]:
        model = parallel(image_model(), find_unused_parameters=True, gradient_as_bucket_view=views)
        if hooked:
            model.register_comm_hook(None, hvd.ddp_hook)
        for step in range(3):
            model.zero_grad(set_to_none=step == 1)
            inputs = torch.full((2, 3, 6, 6), 1.0 + rank())
            layers = model.module
            if step % 2:  # no rank uses the first layer
                layers.forward = lambda x, layers=layers: layers[2](x.flatten()[:128])
            model(inputs).tanh().mean().backward()
            layers.__dict__.pop("forward", None)
        found.append([p.grad for p in model.parameters()])
    for other in found[1:]:
        for mine, theirs in zip(other, found[0]):
            torch.testing.assert_close(mine, theirs)


def small_model():
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def fsdp_modules():
    if torch_version() < (2, 0):
        pytest.skip("FSDP of this torch does not load on Python 3.11")
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("no FSDP2 in this torch")
    from torch.distributed.device_mesh import init_device_mesh
    return fsdp.fully_shard, init_device_mesh


def assert_trains_as_ddp(sharded, plain):
    _trained(sharded)
    _trained(torch.nn.parallel.DistributedDataParallel(plain))
    for name, tensor in sharded.state_dict().items():
        torch.testing.assert_close(tensor.full_tensor(), plain.state_dict()[name])


def test_fsdp_trains_as_ddp():
    fully_shard, init_device_mesh = fsdp_modules()
    torch.manual_seed(0)
    plain, sharded = small_model(), small_model()
    sharded.load_state_dict(plain.state_dict())
    fully_shard(sharded, mesh=init_device_mesh("cpu", (size(),)))
    assert_trains_as_ddp(sharded, plain)


def test_hsdp_trains_as_ddp():
    fully_shard, init_device_mesh = fsdp_modules()
    torch.manual_seed(0)
    plain, sharded = small_model(), small_model()
    sharded.load_state_dict(plain.state_dict())
    shape = (2, size() // 2) if size() > 1 else (1, 1)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))
    for layer in sharded:
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    assert_trains_as_ddp(sharded, plain)


@pytest.mark.filterwarnings("ignore")
def test_a_distributed_checkpoint_comes_back(tmp_path):
    fully_shard, init_device_mesh = fsdp_modules()
    import torch.distributed.checkpoint as dcp
    folder = hvd.broadcast_object(str(tmp_path / "checkpoint"), 0)
    mesh = init_device_mesh("cpu", (size(),))
    torch.manual_seed(1)
    saved, loaded = small_model(), small_model()
    for model in (saved, loaded):
        fully_shard(model, mesh=mesh)
    _trained(saved)
    dcp.save({"model": saved.state_dict(), "step": 3}, checkpoint_id=folder)
    state = {"model": loaded.state_dict(), "step": 0}
    dcp.load(state, checkpoint_id=folder)
    loaded.load_state_dict(state["model"])
    assert state["step"] == 3
    for name, tensor in loaded.state_dict().items():
        assert torch.equal(tensor.full_tensor(), saved.state_dict()[name].full_tensor())


@pytest.mark.filterwarnings("ignore")
def test_ddp_with_sparse_gradients_uneven_inputs_and_a_sharded_optimizer():
    torch.manual_seed(0)
    table = torch.nn.parallel.DistributedDataParallel(torch.nn.Embedding(8, 2, sparse=True))
    before = table.module.weight.detach().clone()
    table(torch.tensor([rank()])).sum().backward()
    torch.optim.SGD(table.parameters(), lr=1.0).step()
    touched = (table.module.weight.detach() != before).any(1).nonzero().flatten().tolist()
    assert touched == list(range(size()))

    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = torch.nn.parallel.DistributedDataParallel(small_model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    with model.join():  # the last ranks have more batches
        for _ in range(2 + rank()):
            optimizer.zero_grad()
            model(torch.ones(2, 6)).sum().backward()
            if _ < 2:
                optimizer.step()
    for tensor in model.state_dict().values():
        assert all(torch.equal(tensor, other) for other in hvd.allgather_object(tensor))


def test_an_error_in_ddps_backward_raises_and_does_not_crash():
    if size() == 1:
        pytest.skip("needs two ranks")
    group = dist.new_group(list(range(size())))
    model = torch.nn.parallel.DistributedDataParallel(small_model(), process_group=group)
    loss = model(_batch()).sum()
    stray = dist.all_reduce(torch.ones(3), group=group, async_op=True) if rank() == 0 else None
    with pytest.raises(RuntimeError, match="disagree"):  # each call matches a different one
        if rank() != 0:
            loss.backward()
        stray.wait()
    with pytest.raises(RuntimeError, match="disagree"):
        if rank() == 0:
            loss.backward()
        dist.all_reduce(torch.ones(1), group=group)
    hooked = torch.nn.parallel.DistributedDataParallel(small_model())
    hooked.register_comm_hook(hvd.ProcessSet([0]), hvd.ddp_hook)
    with pytest.raises((RuntimeError, ValueError), match="has not been added"):
        hooked(_batch()).sum().backward()


@pytest.mark.skipif(not hasattr(dist, "_make_nccl_premul_sum"), reason="torch has only the others")
def test_an_unsupported_operator_is_named():
    with pytest.raises(Exception, match="PREMUL_SUM.*SUM, AVG") as caught:
        dist.all_reduce(torch.ones(2), op=dist._make_nccl_premul_sum(2.0))
    assert " at 0x" not in str(caught.value)


def test_errors_raise_and_do_not_crash():
    if size() == 1:
        pytest.skip("needs two ranks")
    with pytest.raises(Exception, match="disagree"):
        dist.all_reduce(torch.ones(rank() + 1))
    with pytest.raises((RuntimeError, NotImplementedError, ValueError)):
        dist.all_reduce(torch.ones(1, dtype=torch.bool), dist.ReduceOp.AVG)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == size()
