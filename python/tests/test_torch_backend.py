# SPDX-License-Identifier: Apache-2.0
"""torch.distributed on Tutti: the collectives, DDP, FSDP2, subgroups, errors."""

import os

import pytest
import torch
import torch.distributed as dist

import tutti.torch as hvd
import tutti.torch.backend  # noqa: F401 (a wheel registers it by entry point)


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory):
    hvd.init()
    path = hvd.broadcast_object(str(tmp_path_factory.mktemp("store") / "store"), 0)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    dist.init_process_group("tutti", init_method=f"file://{path}", rank=hvd.rank(),
                            world_size=hvd.size())
    yield
    dist.destroy_process_group()
    hvd.shutdown()


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


@pytest.mark.parametrize("op, fold", [
    (dist.ReduceOp.SUM, sum), (dist.ReduceOp.MAX, max), (dist.ReduceOp.MIN, min),
    (dist.ReduceOp.AVG, lambda values: sum(values) / len(values)),
])
def test_all_reduce(op, fold):
    tensor = torch.full((3, 4), float(rank() + 1))
    dist.all_reduce(tensor, op)
    assert torch.equal(tensor, torch.full((3, 4), float(fold([r + 1 for r in range(size())]))))


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
    dist.barrier()


def test_receives_may_wait_while_collectives_pass():
    if size() == 1:
        pytest.skip("needs two ranks")
    tensor, total = torch.zeros(1), torch.ones(1)
    receiving = dist.irecv(tensor, (rank() - 1) % size())
    dist.all_reduce(total)
    dist.send(torch.tensor([7.0]), (rank() + 1) % size())
    receiving.wait()
    assert (tensor.item(), total.item()) == (7.0, size())


def test_subgroups_are_jobs_of_their_own():
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


def test_fsdp_trains_as_ddp():
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("no FSDP2 in this torch")
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    sharded = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    sharded.load_state_dict(plain.state_dict())
    from torch.distributed.device_mesh import init_device_mesh
    fsdp.fully_shard(sharded, mesh=init_device_mesh("cpu", (size(),)))
    _trained(sharded)
    _trained(torch.nn.parallel.DistributedDataParallel(plain))
    for name, tensor in sharded.state_dict().items():
        torch.testing.assert_close(tensor.full_tensor(), plain.state_dict()[name])


def test_errors_raise_and_do_not_crash():
    if size() == 1:
        pytest.skip("needs two ranks")
    with pytest.raises(Exception, match="disagree"):
        dist.all_reduce(torch.ones(rank() + 1))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == size()
