# SPDX-License-Identifier: Apache-2.0
"""torch.distributed on Tutti beside Gloo: the same calls on both give the same bits.

Where Gloo lacks a call, the result is compared with the expected one: inputs of all ranks are
known."""

import datetime
import time

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState, post_localSGD_hook)

from conftest import rank, size

GLOO_DTYPES = [torch.float32, torch.float64, torch.float16, torch.int8, torch.uint8, torch.int32,
               torch.int64]
OWN_DTYPES = [torch.bfloat16, torch.bool, torch.int16, torch.complex64, torch.complex128] + [
    getattr(torch, name) for name in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")
    if hasattr(torch, name)]
SHAPES = [(), (1,), (5, 3), (4000,)]
groups = {}


@pytest.fixture(scope="module", autouse=True)
def both_groups(process_group):
    groups.update(tutti=process_group, gloo=dist.new_group(backend="gloo"))
    yield
    groups.clear()


def made(of, shape, dtype=torch.float32, salt=0):
    """A rank's tensor, which every rank can make."""
    count = torch.Size(shape).numel()
    numbers = (torch.arange(count) * 5 + 3 * of + salt) % 11 + 1
    if dtype is torch.bool:
        numbers = numbers % 2
    return numbers.reshape(shape).to(dtype)


def raw(tensor):
    """Bits that can be compared, whatever the type."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def assert_same(mine, others):
    assert len(mine) == len(others)
    for one, other in zip(mine, others):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert torch.equal(raw(one), raw(other)), (one, other)


def finish(work, is_async):
    """Every query of an asynchronous call reports its end."""
    if is_async:
        work.wait(datetime.timedelta(seconds=60))
        assert work.is_completed()


def over_gloo(form, *arguments):
    """Gloo's result; the test is skipped if this torch's Gloo lacks the call."""
    try:
        return form(*arguments, False, groups["gloo"])
    except RuntimeError as problem:
        if "support" not in str(problem):
            raise
        pytest.skip(str(problem))


# ---- moves: each returns outputs, and the expected ones ----

def broadcast(kind, shape, is_async, group):
    root = size() - 1
    tensor = kind(rank(), shape)
    finish(dist.broadcast(tensor, root, group=group, async_op=is_async), is_async)
    return [tensor], [kind(root, shape)]


def all_gather(kind, shape, is_async, group):
    outputs = [torch.zeros_like(kind(0, shape)) for _ in range(size())]
    finish(dist.all_gather(outputs, kind(rank(), shape), group=group, async_op=is_async), is_async)
    return outputs, [kind(r, shape) for r in range(size())]


def all_gather_into_tensor(kind, shape, is_async, group):
    shape = shape or (1,)
    output = torch.zeros((size() * shape[0], *shape[1:])).to(kind(0, ()).dtype)
    finish(dist.all_gather_into_tensor(output, kind(rank(), shape), group=group,
                                       async_op=is_async), is_async)
    return list(output.chunk(size())), [kind(r, shape) for r in range(size())]


def gather(kind, shape, is_async, group):
    outputs = [torch.zeros_like(kind(0, shape)) for _ in range(size())] if rank() == 0 else None
    finish(dist.gather(kind(rank(), shape), outputs, 0, group=group, async_op=is_async), is_async)
    return (outputs, [kind(r, shape) for r in range(size())]) if rank() == 0 else ([], [])


def scatter(kind, shape, is_async, group):
    inputs = [kind(r, shape) for r in range(size())] if rank() == 0 else None
    output = torch.zeros_like(kind(0, shape))
    finish(dist.scatter(output, inputs, 0, group=group, async_op=is_async), is_async)
    return [output], [kind(rank(), shape)]


def all_to_all_single(kind, shape, is_async, group):
    shape = (size() * 2, *shape[1:])
    output = torch.zeros_like(kind(0, shape))
    finish(dist.all_to_all_single(output, kind(rank(), shape), group=group, async_op=is_async),
           is_async)
    return [output], [torch.cat([kind(r, shape)[2 * rank():2 * rank() + 2] for r in range(size())])]


def all_to_all_with_splits(kind, shape, is_async, group):
    given, row = [r + 1 for r in range(size())], shape[1:]
    output = torch.zeros_like(kind(0, (size() * (rank() + 1), *row)))
    finish(dist.all_to_all_single(output, kind(rank(), (sum(given), *row)),
                                  [rank() + 1] * size(), given, group=group, async_op=is_async),
           is_async)
    return [output], [torch.cat([kind(r, (sum(given), *row)).split(given)[rank()]
                                 for r in range(size())])]


def send_and_receive(kind, shape, is_async, group):
    output = torch.zeros_like(kind(0, shape))
    if size() > 1:
        sending = dist.isend(kind(rank(), shape), (rank() + 1) % size(), group=group)
        dist.recv(output, (rank() - 1) % size(), group=group)
        sending.wait()
    return [output], [kind((rank() - 1) % size(), shape) if size() > 1 else output]


def receive_from_any(kind, shape, is_async, group):
    came = {}
    if rank() != 0:
        dist.send(kind(rank(), shape), 0, group=group, tag=3)
    for _ in range(size() - 1 if rank() == 0 else 0):
        tensor = torch.zeros_like(kind(0, shape))
        if is_async:
            work = dist.irecv(tensor, group=group, tag=3)
            work.wait()
            source = work._source_rank()
        else:
            source = dist.recv(tensor, group=group, tag=3)
        came[source] = tensor
    dist.barrier(group=group)  # the next shape is another message
    wanted = range(1, size()) if rank() == 0 else ()
    return [came[r] for r in wanted], [kind(r, shape) for r in wanted]


def uneven_all_gather(kind, shape, is_async, group):
    outputs = [torch.zeros_like(kind(r, (r + 1, *shape[1:]))) for r in range(size())]
    finish(dist.all_gather(outputs, kind(rank(), (rank() + 1, *shape[1:])), group=group,
                           async_op=is_async), is_async)
    return outputs, [kind(r, (r + 1, *shape[1:])) for r in range(size())]


def all_to_all(kind, shape, is_async, group):
    outputs = [torch.zeros_like(kind(0, (rank() + 1,))) for _ in range(size())]
    inputs = [kind(rank() + r, (r + 1,)) for r in range(size())]
    finish(dist.all_to_all(outputs, inputs, group=group, async_op=is_async), is_async)
    return outputs, [kind(r + rank(), (rank() + 1,)) for r in range(size())]


BOTH_MOVE = [broadcast, all_gather, all_gather_into_tensor, gather, scatter, all_to_all_single,
             all_to_all_with_splits, send_and_receive, receive_from_any]
OWN_MOVES = [uneven_all_gather, all_to_all]


@pytest.mark.parametrize("move", [*BOTH_MOVE, *OWN_MOVES], ids=lambda move: move.__name__)
def test_moves(move):
    for dtype in [*OWN_DTYPES, *GLOO_DTYPES]:
        def kind(of, shape, dtype=dtype):
            return made(of, shape, dtype)

        for shape in SHAPES:
            for is_async in (False, True):
                mine, wanted = move(kind, shape, is_async, groups["tutti"])
                assert_same(mine, wanted)
        if dtype is GLOO_DTYPES[-1] and move in BOTH_MOVE:
            theirs = over_gloo(move, kind, (5, 3))
            assert_same(move(kind, (5, 3), False, groups["tutti"])[0], theirs[0])


# ---- reductions ----

def all_reduce(tensor, op, is_async, group):
    finish(dist.all_reduce(tensor, op, group=group, async_op=is_async), is_async)
    return [tensor]


def reduce(tensor, op, is_async, group):
    finish(dist.reduce(tensor, 0, op, group=group, async_op=is_async), is_async)
    return [tensor] if rank() == 0 else []


def reduce_scatter_tensor(tensor, op, is_async, group):
    inputs = tensor.reshape(-1).repeat(size())
    output = torch.zeros_like(tensor.reshape(-1))
    finish(dist.reduce_scatter_tensor(output, inputs, op, group=group, async_op=is_async), is_async)
    return [output]


def reduce_scatter(tensor, op, is_async, group):
    output = torch.zeros_like(tensor)
    finish(dist.reduce_scatter(output, [tensor + r for r in range(size())], op, group=group,
                               async_op=is_async), is_async)
    return [output]


@pytest.mark.parametrize("form", [all_reduce, reduce, reduce_scatter_tensor, reduce_scatter],
                         ids=lambda form: form.__name__)
def test_reductions(form):
    both = ["SUM", "PRODUCT", "MIN", "MAX"]
    for dtype in GLOO_DTYPES:
        names = both + (["BAND", "BOR", "BXOR"] if not dtype.is_floating_point else [])
        for name in names:
            op = getattr(dist.ReduceOp, name)
            for shape in SHAPES:
                mine = [form(made(rank(), shape, dtype), op, is_async, groups["tutti"])
                        for is_async in (False, True)]
                theirs = over_gloo(form, made(rank(), shape, dtype), op)
                for found in mine:
                    assert_same(found, theirs)


def test_types_without_arithmetic_are_refused_by_name():
    for dtype in OWN_DTYPES:
        if dtype.is_complex or dtype in (torch.bool, torch.bfloat16, torch.int16,
                                         getattr(torch, "uint16", None)):
            continue
        with pytest.raises(RuntimeError, match="no arithmetic"):
            dist.all_reduce(made(rank(), (3,), dtype))
    tensor = made(rank(), (3,), torch.complex64) * 1j
    dist.all_reduce(tensor)
    assert torch.equal(tensor, sum(made(r, (3,), torch.complex64) for r in range(size())) * 1j)


# ---- memory ----

def test_outputs_may_lie_in_inputs():
    tensor = torch.arange(4.0 * size())
    mine = tensor[4 * rank():4 * rank() + 4]
    dist.reduce_scatter_tensor(mine, tensor)
    assert torch.equal(mine, torch.arange(4.0 * size())[4 * rank():4 * rank() + 4] * size())
    joined = torch.zeros(4 * size())
    mine = joined[4 * rank():4 * rank() + 4].fill_(rank() + 1.0)
    dist.all_gather_into_tensor(joined, mine)
    assert joined.tolist() == [r + 1.0 for r in range(size()) for _ in range(4)]
    dist.all_to_all_single(joined, joined)
    assert joined.tolist() == [rank() + 1.0] * (4 * size())


def test_scattered_and_conjugate_memory():
    wanted = sum(made(r, (3, 4)) for r in range(size()))
    for tensor in (made(rank(), (3, 4)).t().contiguous().t(), made(rank(), (3, 8))[:, ::2]):
        expected = [sum(made(r, (3, 8))[:, ::2] for r in range(size()))
                    if tensor.stride(1) == 2 else wanted]
        dist.all_reduce(tensor)
        assert_same([tensor], expected)
    turned = (made(rank(), (3,), torch.complex64) * 1j).conj()
    outputs = [torch.zeros(3, dtype=torch.complex64) for _ in range(size())]
    dist.distributed_c10d._get_default_group().allgather([outputs], [turned]).wait()
    assert_same(outputs, [made(r, (3,), torch.complex64) * -1j for r in range(size())])


# ---- works, barriers, groups, objects ----

def test_a_work_knows_when_it_is_over():
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    deadline = time.monotonic() + 60
    while not work.is_completed():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert torch.equal(tensor, torch.full((3,), float(size())))
    assert work.result()[0] is tensor and work.get_future().wait()[0] is tensor


def test_a_wait_keeps_its_timeout():
    if size() == 1:
        pytest.skip("needs two ranks")
    tensor = torch.zeros(1)
    if rank() == 1:
        work = dist.irecv(tensor, 0)
        begin = time.monotonic()
        with pytest.raises(RuntimeError, match="not over"):
            work.wait(datetime.timedelta(milliseconds=50))
        assert time.monotonic() - begin < 30
        dist.barrier()
        work.wait()
        assert tensor.item() == 5.0
    else:
        dist.barrier()
        if rank() == 0:
            dist.send(torch.full((1,), 5.0), 1)


def test_a_monitored_barrier_names_the_missing_ranks():
    if not hasattr(dist.distributed_c10d._get_default_group(), "tutti") or size() == 1:
        pytest.skip("needs two ranks, and c10d's Backend")
    dist.monitored_barrier()
    group = dist.new_group(list(range(size())))
    if rank() == 0:
        with pytest.raises(RuntimeError, match="1"):
            dist.monitored_barrier(group, datetime.timedelta(milliseconds=200))
    dist.barrier()


def test_a_group_can_be_split():
    if not hasattr(dist, "split_group") or size() == 1 or not hasattr(
            dist.distributed_c10d._get_default_group(), "tutti"):
        pytest.skip("needs two ranks, and c10d's Backend")
    halves = [list(range(size() // 2)), list(range(size() // 2, size()))]
    part = dist.split_group(split_ranks=halves)
    total = torch.ones(1)
    dist.all_reduce(total, group=part)
    assert total.item() == len(halves[rank() >= size() // 2])


def test_leaving_ends_pending_calls():
    if size() == 1:
        pytest.skip("needs two ranks")
    group = dist.new_group(list(range(size())))
    backend = getattr(group, "tutti", group)
    future = group.recv([torch.zeros(1)], (rank() + 1) % size(), 0).get_future()
    dist.barrier()
    backend.shutdown()
    with pytest.raises(RuntimeError):
        future.wait()
    dist.barrier()


def test_a_profiler_sees_what_is_dispatched():
    if not hasattr(dist.distributed_c10d._get_default_group(), "tutti"):
        pytest.skip("needs c10d's Backend")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        tensor = torch.ones(2)
        dist.all_reduce(tensor)
    assert tensor.tolist() == [size()] * 2
    assert any(event.key == "c10d::allreduce_" for event in profile.key_averages())


def test_groups_and_objects():
    everyone, found = dist.new_group(list(range(size()))), {}
    for which, group in (("tutti", everyone), ("gloo", groups["gloo"])):
        objects = [None] * size()
        dist.all_gather_object(objects, {"rank": rank(), "text": "x" * rank()}, group=group)
        told = [rank(), "a"]
        dist.broadcast_object_list(told, 0, group=group)
        received = [None]
        dist.scatter_object_list(received, objects if rank() == 0 else None, 0, group=group)
        found[which] = objects, told, received
    assert found["tutti"] == found["gloo"]


# ---- futures ----

def test_callbacks_may_start_calls_and_wait_for_them():
    """The order does not depend on the timing of threads: chained calls match on all ranks."""
    for turn in range(30):
        totals = []

        def more(future, turn=turn, totals=totals):
            first = future.value()[0]
            if (turn + rank()) % 3 == 0:
                time.sleep(0.002)
            second = dist.all_reduce(first + 1, async_op=True).get_future().wait()[0]
            totals.append(second.clone())
            dist.all_reduce(second)
            return second

        count = turn % 4 + 1
        futures = [dist.all_reduce(torch.full((count,), float(i)), async_op=True).get_future()
                   .then(more).then(lambda future: future.value() + 1) for i in range(3)]
        plain = torch.full((count + 1,), 2.0)
        dist.all_reduce(plain)
        assert torch.equal(plain, torch.full((count + 1,), 2.0 * size()))
        for i, future in enumerate(futures):
            first = i * size() + 1.0
            assert torch.equal(future.wait(), torch.full((count,), first * size() ** 2 + 1))
        assert [t[0].item() for t in totals] == [(i * size() + 1.0) * size() for i in range(3)]


def test_an_error_reaches_the_future():
    if size() == 1:
        pytest.skip("needs two ranks")
    future = dist.all_reduce(torch.ones(rank() + 1), async_op=True).get_future()
    with pytest.raises(RuntimeError, match="disagree"):
        future.then(lambda done: done.value()).wait()
    dist.barrier()


# ---- DDP's communication hooks ----

def no_hook(model, group):
    pass


def fp16(model, group):
    model.register_comm_hook(group, default_hooks.fp16_compress_hook)


def bf16(model, group):
    try:
        model.register_comm_hook(group, default_hooks.bf16_compress_hook)
    except TypeError as problem:  # older ones need a GPU
        pytest.skip(str(problem))


def power_sgd(model, group):
    state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def post_local_sgd(model, group):
    state = PostLocalSGDState(group, group, start_localSGD_iter=3)
    model.register_comm_hook(state, post_localSGD_hook)


def losses(hook, group, bucket_mb):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32),
                                torch.nn.Tanh(), torch.nn.Linear(32, 2))
    model = torch.nn.parallel.DistributedDataParallel(model, process_group=group,
                                                      bucket_cap_mb=bucket_mb)
    hook(model, group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    found = []
    for step in range(8):
        generator = torch.Generator().manual_seed(10 * step + rank())
        optimizer.zero_grad()
        loss = (model(torch.randn(8, 6, generator=generator)) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return torch.stack(found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("hook", [no_hook, fp16, bf16, power_sgd, post_local_sgd],
                         ids=lambda hook: hook.__name__)
def test_ddps_hooks_train_as_over_gloo(hook):
    for bucket_mb in (25, 0.001):
        mine = losses(hook, groups["tutti"], bucket_mb)
        assert mine[-1] < mine[0]
        if bucket_mb == 25 or "power" not in hook.__name__:  # Gloo hangs with several buckets
            close = {"rtol": 0.02, "atol": 0.01} if hook in (fp16, bf16) else {}  # Gloo rounds more
            torch.testing.assert_close(mine, losses(hook, groups["gloo"], bucket_mb), **close)
