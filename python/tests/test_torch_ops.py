# SPDX-License-Identifier: Apache-2.0
"""Horovod's collectives on tensors."""

import json
import pathlib
import sys
import threading
import time

import pytest
import torch

import tutti
import tutti.torch as hvd

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.fixture(scope="module", autouse=True)
def started():
    hvd.init()
    yield
    hvd.shutdown()


def ranks():
    return range(hvd.size())


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_sum_and_average_of_every_type(dtype):
    tensor = torch.arange(6, dtype=dtype).reshape(2, 3)
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Sum), tensor * hvd.size())
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Average), tensor)


def test_average_is_the_default():
    assert hvd.allreduce(torch.tensor([float(hvd.rank())])).item() == sum(ranks()) / hvd.size()


@pytest.mark.parametrize("op, fold", [(hvd.Min, min), (hvd.Max, max)])
def test_min_and_max(op, fold):
    assert hvd.allreduce(torch.tensor([hvd.rank() + 1]), op=op).item() == fold(
        r + 1 for r in ranks())


def test_product():
    expected = 1
    for r in ranks():
        expected *= r + 2
    assert hvd.allreduce(torch.tensor([hvd.rank() + 2]), op=hvd.Product).item() == expected


def adasum(vectors):
    """The oracle: pairs, then pairs of pairs, in float64."""
    if len(vectors) == 1:
        return vectors[0]
    half = len(vectors) // 2
    a, b = adasum(vectors[:half]), adasum(vectors[half:])
    ab, aa, bb = a @ b, a @ a, b @ b
    return (1 - ab / (2 * aa) if aa else 1.0) * a + (1 - ab / (2 * bb) if bb else 1.0) * b


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [1, 5, 1000, 70001])
def test_adasum_equals_the_oracle(dtype, count):
    inputs = [torch.randn(count, generator=torch.Generator().manual_seed(r)).to(dtype)
              for r in ranks()]
    expected = adasum([tensor.double() for tensor in inputs])
    result = hvd.allreduce(inputs[hvd.rank()], op=hvd.Adasum)
    assert result.dtype == dtype
    near = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-5, torch.float64: 1e-12}
    torch.testing.assert_close(result.double(), expected, rtol=near[dtype], atol=near[dtype])
    assert all(torch.equal(result, other) for other in hvd.allgather_object(result))


def test_adasum_of_a_group_is_per_tensor():
    inputs = [[torch.randn(50, generator=torch.Generator().manual_seed(10 * r + i))
               for i in range(3)] for r in ranks()]
    results = hvd.grouped_allreduce(inputs[hvd.rank()], op=hvd.Adasum)
    for i, result in enumerate(results):
        torch.testing.assert_close(result.double(), adasum([own[i].double() for own in inputs]),
                                   rtol=1e-5, atol=1e-5)


def test_bool_sum_is_or():
    assert hvd.allreduce(torch.tensor([hvd.rank() == 0, False]), op=hvd.Sum).tolist() == [
        True, False]


def test_complex_sum():
    tensor = torch.tensor([1 + 2j, 3 - 1j])
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Sum), tensor * hvd.size())


def test_in_place_returns_the_same_tensor():
    tensor = torch.ones(1000)
    assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor
    assert torch.equal(tensor, torch.full((1000,), float(hvd.size())))


def test_scattered_memory_is_gathered_first():
    scattered = torch.arange(12.0).reshape(3, 4).t()
    assert torch.equal(hvd.allreduce(scattered), scattered)
    assert torch.equal(hvd.broadcast(scattered[:, ::2], 0), scattered[:, ::2])
    assert torch.equal(hvd.allgather(scattered), torch.cat([scattered] * hvd.size()))


def test_scales():
    tensor = torch.ones(5)
    result = hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
    assert torch.equal(result, tensor * hvd.size())


def test_started_calls_are_polled_and_synchronized():
    handles = [hvd.allreduce_async(torch.full((100,), float(i)), name=f"t{i}", op=hvd.Sum)
               for i in range(20)]
    results = [hvd.synchronize(handle) for handle in handles]
    assert all(hvd.poll(handle) for handle in handles)
    assert [result[0].item() for result in results] == [i * hvd.size() for i in range(20)]


def test_groups():
    tensors = [torch.full((i + 1,), float(i)) for i in range(5)]
    for result, tensor in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum), tensors):
        assert torch.equal(result, tensor * hvd.size())
    gathered = hvd.grouped_allgather([torch.full((hvd.rank() + 1, 2), float(i)) for i in range(3)])
    assert [tuple(g.shape) for g in gathered] == [(sum(r + 1 for r in ranks()), 2)] * 3
    parts = hvd.grouped_reducescatter([torch.ones(hvd.size() * 2)] * 2, op=hvd.Sum)
    assert all(torch.equal(part, torch.full((2,), float(hvd.size()))) for part in parts)


def test_allgather_of_different_lengths():
    gathered = hvd.allgather(torch.full((hvd.rank() + 1, 2), hvd.rank(), dtype=torch.int32))
    expected = torch.cat([torch.full((r + 1, 2), r, dtype=torch.int32) for r in ranks()])
    assert torch.equal(gathered, expected)


def test_broadcast_from_every_root():
    for root in ranks():
        tensor = torch.full((3,), float(hvd.rank()))
        assert torch.equal(hvd.broadcast(tensor, root), torch.full((3,), float(root)))
        assert tensor[0].item() == hvd.rank()
        hvd.broadcast_(tensor, root)
        assert tensor[0].item() == root


def test_alltoall_with_and_without_splits():
    tensor = torch.arange(hvd.size()) + 10 * hvd.rank()
    assert hvd.alltoall(tensor).tolist() == [10 * r + hvd.rank() for r in ranks()]
    splits = torch.tensor([r + 1 for r in ranks()])
    received, lengths = hvd.alltoall(torch.full((int(splits.sum()),), hvd.rank()), splits)
    assert lengths.tolist() == [hvd.rank() + 1] * hvd.size()
    assert received.tolist() == [r for r in ranks() for _ in range(hvd.rank() + 1)]


def test_reducescatter_with_a_rest():
    rows = 2 * hvd.size() + 1
    tensor = torch.arange(rows * 2, dtype=torch.float32).reshape(rows, 2)
    parts = [len(part) for part in torch.arange(rows).tensor_split(hvd.size())]
    begin = sum(parts[:hvd.rank()])
    expected = tensor[begin:begin + parts[hvd.rank()]]
    assert torch.equal(hvd.reducescatter(tensor), expected)
    assert torch.equal(hvd.reducescatter(tensor, op=hvd.Sum), expected * hvd.size())


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_sparse_sum_adds_equal_indices():
    sparse = torch.sparse_coo_tensor([[0, hvd.rank() + 1]], [1.0, 2.0], (hvd.size() + 1,))
    dense = hvd.sparse_allreduce_async(sparse, "sparse", hvd.Sum)().to_dense()
    assert dense.tolist() == [float(hvd.size())] + [2.0] * hvd.size()


def test_zero_size_and_scalars():
    assert hvd.allreduce(torch.zeros(0, 3)).shape == (0, 3)
    assert hvd.allreduce(torch.tensor(2.0)).item() == 2.0
    assert hvd.broadcast(torch.tensor(hvd.rank()), 0).item() == 0
    assert hvd.broadcast(torch.zeros(0), 0).shape == (0,)
    assert hvd.allgather(torch.zeros(0, 3)).shape == (0, 3)
    assert hvd.alltoall(torch.zeros(0, 3)).shape == (0, 3)
    assert hvd.reducescatter(torch.zeros(0, 3)).shape == (0, 3)
    assert hvd.grouped_allreduce([torch.zeros(0), torch.ones(())])[1].item() == 1.0


ALL_TYPES = FLOATS + INTEGERS + [torch.bool, torch.complex64, torch.complex128] + (
    [torch.uint16] if hasattr(torch, "uint16") else [])


@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_every_collective_takes_every_type(dtype):
    size, rank = hvd.size(), hvd.rank()
    rows = torch.tensor([[r % 2, 1] for r in ranks()]).to(dtype)  # row r is the rank's number
    assert torch.equal(hvd.allgather(rows[rank:rank + 1]), rows)
    assert torch.equal(hvd.grouped_allgather([rows[rank:rank + 1]] * 2)[1], rows)
    assert torch.equal(hvd.broadcast(rows[rank], size - 1), rows[size - 1])
    own = rows[rank].clone()
    hvd.broadcast_(own, size - 1)
    assert torch.equal(own, rows[size - 1])
    received, splits = hvd.alltoall(rows, torch.ones(size, dtype=torch.int32))
    assert torch.equal(received, rows[rank].expand_as(rows)) and splits.tolist() == [1] * size
    wide = torch.complex128 if dtype.is_complex else torch.float64
    total = (rows.to(wide) * size).to(dtype)
    assert torch.equal(hvd.reducescatter(rows, op=hvd.Sum), total[rank:rank + 1])
    assert torch.equal(hvd.grouped_reducescatter([rows] * 2, op=hvd.Sum)[0], total[rank:rank + 1])
    assert torch.equal(hvd.grouped_allreduce([rows] * 2, op=hvd.Sum)[1], total)
    own = rows.clone()
    assert torch.equal(hvd.allreduce_(own, op=hvd.Sum, name=f"own.{dtype}"), total)


def test_integer_averages_are_cut_off_towards_zero():
    mine = torch.tensor([-3 if hvd.rank() == 0 else -2, 7], dtype=torch.int32)
    total = -3 - 2 * (hvd.size() - 1)
    assert hvd.allreduce(mine).tolist() == [int(total / hvd.size()), 7]


def test_generated_names_are_counted_by_kind_and_set():
    from tutti.torch import basics

    hvd.allreduce(torch.ones(1))
    counted = dict(basics._names)
    hvd.allreduce(torch.ones(1))
    hvd.allgather(torch.ones(1))
    assert basics._names[("allreduce", 0)] == counted[("allreduce", 0)] + 1
    number = basics._names[("allgather", 0)]
    assert basics.next_name("allgather", hvd.global_process_set) == f"allgather.noname.{number}"
    if hvd.size() > 1:
        everyone = hvd.add_process_set([0])
        assert basics.next_name("allgather", everyone).startswith("allgather.noname.0")
        hvd.remove_process_set(everyone)


def test_gradients_flow_through_collectives():
    tensor = torch.ones(4, requires_grad=True)
    hvd.allreduce(tensor, op=hvd.Sum).sum().backward()
    assert tensor.grad.tolist() == [float(hvd.size())] * 4
    tensor = torch.ones(hvd.rank() + 1, 2, requires_grad=True)
    hvd.allgather(tensor).sum().backward()
    assert torch.equal(tensor.grad, torch.ones_like(tensor))
    tensor = torch.ones(3, requires_grad=True)
    hvd.broadcast(tensor, 0).sum().backward()
    assert tensor.grad.tolist() == [1.0 if hvd.rank() == 0 else 0.0] * 3
    tensor = torch.ones(hvd.size() * 2, requires_grad=True)
    hvd.reducescatter(tensor, op=hvd.Average).sum().backward()
    assert torch.equal(tensor.grad, torch.ones_like(tensor))
    tensor = torch.ones(hvd.size(), requires_grad=True)
    (hvd.alltoall(tensor) * (hvd.rank() + 1)).sum().backward()
    assert tensor.grad.tolist() == [float(r + 1) for r in ranks()]


def test_gradients_flow_through_groups():
    tensors = [torch.ones(i + 1, requires_grad=True) for i in range(3)]
    sum(t.sum() for t in hvd.grouped_allreduce(tensors, op=hvd.Sum)).backward()
    assert [t.grad.tolist() for t in tensors] == [[float(hvd.size())] * (i + 1) for i in range(3)]
    tensors = [torch.ones(hvd.rank() + 1, i + 1, requires_grad=True) for i in range(3)]
    sum((i + 1) * t.sum() for i, t in enumerate(hvd.grouped_allgather(tensors))).backward()
    assert all(torch.equal(t.grad, torch.full_like(t, i + 1.0)) for i, t in enumerate(tensors))
    tensors = [torch.ones(hvd.size() * (i + 1), requires_grad=True) for i in range(3)]
    sum(t.sum() for t in hvd.grouped_reducescatter(tensors, op=hvd.Average)).backward()
    assert all(torch.equal(t.grad, torch.ones_like(t)) for t in tensors)


def test_in_place_on_a_leaf_changes_its_values_and_records_nothing():
    leaf = torch.full((3,), float(hvd.rank()), requires_grad=True)
    assert hvd.allreduce_(leaf, op=hvd.Sum) is leaf
    assert leaf.is_leaf and leaf.tolist() == [float(sum(ranks()))] * 3
    hvd.broadcast_(leaf, 0)
    leaf.sum().backward()
    assert leaf.grad.tolist() == [1.0] * 3


def test_what_is_not_differentiated_carries_no_gradient():
    tensor = torch.ones(3, requires_grad=True)
    assert not hvd.synchronize(hvd.allreduce_async(tensor)).requires_grad
    assert not hvd.allreduce(tensor.detach()).requires_grad
    assert hvd.allreduce(tensor).requires_grad


@pytest.mark.skipif(not hasattr(torch, "uint16"), reason="this torch has no uint16")
def test_uint16_is_reduced_as_unsigned():
    tensor = torch.tensor([0, 40000 // hvd.size()], dtype=torch.int32).to(torch.uint16)
    summed = hvd.allreduce(tensor, op=hvd.Sum)
    assert summed.dtype == torch.uint16
    assert summed.tolist() == [0, 40000 // hvd.size() * hvd.size()]
    high = torch.tensor([hvd.rank(), 65535 - hvd.rank()], dtype=torch.int32).to(torch.uint16)
    assert hvd.allreduce(high, op=hvd.Max).tolist() == [hvd.size() - 1, 65535]
    assert hvd.allgather(high).tolist() == [n for r in ranks() for n in (r, 65535 - r)]


def test_negated_and_conjugated_views_are_sent_as_their_values():
    tensor = torch.tensor([1 + 2j])
    assert hvd.allreduce(tensor.conj(), op=hvd.Average).tolist() == [1 - 2j]
    assert hvd.allreduce(tensor.conj().imag, op=hvd.Average).tolist() == [-2.0]
    with pytest.raises(ValueError, match="contiguous"):
        hvd.allreduce_(tensor.conj(), op=hvd.Sum)


def test_compression_halves_and_returns_the_type():
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        result = hvd.allreduce(torch.ones(10, dtype=torch.float64), compression=compression)
        assert result.dtype == torch.float64 and torch.equal(result, torch.ones(10).double())


def test_objects_reach_every_rank():
    assert hvd.broadcast_object({"rank": hvd.rank()}, 0) == {"rank": 0}
    # Names come from the order of calls, not from types: those need not be alike.
    assert hvd.broadcast_object([1, 2] if hvd.rank() == 0 else None, 0) == [1, 2]
    mixed = hvd.allgather_object(hvd.rank() if hvd.rank() else "none")
    assert mixed == ["none", *list(ranks())[1:]]
    assert hvd.allgather_object([hvd.rank()] * hvd.rank()) == [[r] * r for r in ranks()]


def test_process_sets():
    if hvd.size() == 1:
        pytest.skip("needs two ranks")
    evens = hvd.add_process_set(list(range(0, hvd.size(), 2)))
    assert evens.size() == len(range(0, hvd.size(), 2))
    assert evens.included() == (hvd.rank() % 2 == 0)
    if evens.included():
        result = hvd.allreduce(torch.tensor([1.0]), op=hvd.Sum, process_set=evens)
        assert result.item() == evens.size()
    else:
        with pytest.raises(ValueError, match="is not a member"):
            hvd.allreduce(torch.tensor([1.0]), process_set=evens)
    assert hvd.remove_process_set(evens)
    assert not hvd.remove_process_set(evens)


def elsewhere():
    """A tensor on a device that this machine lacks: only torch's fake tensors can have one."""
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    try:
        with fake.FakeTensorMode():
            return torch.empty(2, device="xpu")
    except (AssertionError, RuntimeError):
        pytest.skip("this torch cannot pretend to have a device")


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("bad, text", [
    (lambda: hvd.allreduce_(torch.ones(4, 4).t()), "contiguous"),
    (lambda: hvd.allreduce(torch.ones(2).to_sparse()), "sparse"),
    (lambda: hvd.allreduce(torch.ones(2, device="meta")), "meta"),
    (lambda: hvd.allreduce_(torch.ones(2, device="meta"), name="nowhere"), "meta"),
    (lambda: hvd.broadcast_(torch.ones(2, device="meta"), 0), "meta"),
    (lambda: hvd.grouped_allreduce([torch.ones(2), torch.ones(2, device="meta")]), "meta"),
    (lambda: hvd.allreduce(elsewhere()), "is on xpu"),
    (lambda: hvd.allgather_async(elsewhere()), "is on xpu"),
    (lambda: hvd.allreduce(torch.ones(2, 2).to_sparse_csr()), "layout torch.sparse_csr"),
    (lambda: hvd.allreduce(3.0), "torch.Tensor"),
    (lambda: hvd.allreduce(torch.ones(2), average=True, op=hvd.Sum), "supersedes"),
    (lambda: hvd.allreduce(torch.ones(2), op=17), "does not exist"),
    (lambda: hvd.allreduce(torch.ones(2, dtype=torch.int32), op=hvd.Adasum), "floating-point"),
    (lambda: hvd.allgather(torch.tensor(1.0)), "dimension"),
    (lambda: hvd.alltoall(torch.ones(3), [1] * (hvd.size() + 1)), "splits"),
    (lambda: hvd.broadcast(torch.ones(1), hvd.size()), "not a member"),
    (lambda: hvd.synchronize(3), "_async"),
    (lambda: hvd.allreduce(torch.ones(2, dtype=torch.bool)), "bool"),
    (lambda: hvd.sparse_allreduce_async(torch.ones(2), "s", hvd.Sum), "takes a sparse"),
    (lambda: hvd.sparse_allreduce_async(torch.ones(2).to_sparse(), "s", hvd.Min), "sum and"),
    (lambda: hvd.reducescatter(torch.tensor(1.0)), "dimension"),
    (lambda: hvd.broadcast_(torch.ones(4, 4).t(), 0), "contiguous"),
    (lambda: hvd.grouped_allreduce_([torch.ones(4, 4).t()]), "contiguous"),
    (lambda: hvd.allgather(torch.ones(2).to_sparse()), "sparse"),
    (lambda: hvd.poll(3), "_async"),
    (lambda: hvd.broadcast_parameters(3, 0), "invalid params"),
    (lambda: hvd.ProcessSet([0, 0]), "twice"),
    (lambda: hvd.add_process_set([hvd.size()]), "rank"),
    (lambda: hvd.allreduce(torch.ones(1), process_set=hvd.ProcessSet([0])), "has not been added"),
    (lambda: hvd.allreduce(torch.ones(1), name="n" * 300), "255"),
])
def test_bad_input_is_refused_and_the_job_goes_on(bad, text):
    with pytest.raises(ValueError, match=text):
        bad()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def start_group(tensor, name):
    return hvd.grouped_allreduce_async_([tensor, tensor.clone()], name=name)


def start_when_free(start, name):
    """A dropped call has no handle to wait for: its name is free some time after all have it."""
    end = time.monotonic() + 30
    while True:
        try:
            return start(torch.ones(2), name=name)
        except ValueError:
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.mark.parametrize("again", [None, hvd.allreduce_async, hvd.allreduce_async_])
@pytest.mark.parametrize("start", [hvd.allreduce_async, hvd.allreduce_async_, hvd.allgather_async,
                                   start_group])
@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_name_in_flight_is_refused_and_the_first_call_goes_on(start, again, is_dropped):
    if again is not None and start not in (hvd.allreduce_async, hvd.allreduce_async_):
        pytest.skip("names of other kinds are apart")
    name, first = f"twice.{start.__name__}", None
    for _ in range(2):  # the second time its Kept exists
        if hvd.size() > 1 and hvd.rank() == 0:  # the others have not called it: it cannot be over
            first = start_when_free(start, name)
            first = None if is_dropped else first  # which does not wait
            for _ in range(3):
                with pytest.raises(ValueError, match=f"{start.__name__}.* currently being proc"):
                    (again or start)(torch.ones(2), name=name)
        hvd.barrier()
        if hvd.rank() > 0 or hvd.size() == 1:
            first = start_when_free(start, name)
            first = None if is_dropped else first
        hvd.barrier()
        if not is_dropped:
            hvd.synchronize(first)
    result = hvd.synchronize(start_when_free(start, name))
    result = result[0] if isinstance(result, list) else result
    assert result.sum().item() == (2.0 * hvd.size() if "gather" in start.__name__ else 2.0)


def test_dropped_calls_keep_their_memory_until_they_are_over():
    tensors = [torch.full((50_000,), float(i)) for i in range(20)]
    if hvd.rank() == 0:
        for i, tensor in enumerate(tensors):
            hvd.allreduce_async(tensor.clone(), name=f"dropped.{i}", op=hvd.Sum)
            hvd.allgather_async(tensor.clone(), name=f"dropped.{i}")
    hvd.barrier()
    if hvd.rank() > 0:
        handles = [(hvd.allreduce_async(tensor, name=f"dropped.{i}", op=hvd.Sum),
                    hvd.allgather_async(tensor, name=f"dropped.{i}"))
                   for i, tensor in enumerate(tensors)]
        for i, (summed, gathered) in enumerate(handles):
            assert torch.all(hvd.synchronize(summed) == float(i * hvd.size()))
            assert torch.all(hvd.synchronize(gathered) == float(i))
    hvd.barrier()
    end = time.monotonic() + 30
    while tutti.handle._dropped and time.monotonic() < end:  # as every start of a call does
        tutti.handle.sweep()
        time.sleep(0.001)
    assert not tutti.handle._dropped


@pytest.mark.parametrize("splits", [[0.5] * 8, torch.full((8,), 0.5), ["a"] * 8, [True] * 8])
def test_splits_that_are_no_integers_fail_on_every_rank(splits):
    splits = splits[:hvd.size()]
    with pytest.raises((ValueError, hvd.HorovodInternalError)) as caught:
        hvd.alltoall(torch.ones(2 * hvd.size()), splits if hvd.rank() == 0 else None)
    assert "splits must be integers" in str(caught.value)
    assert hvd.rank() == 0 or "rank 0" in str(caught.value)
    hvd.alltoall(torch.ones(2 * hvd.size()))  # calls without a name still match


class Unpicklable:
    def __reduce__(self):
        raise LookupError("no such shard")


@pytest.mark.parametrize("send", [
    lambda obj: hvd.broadcast_object(obj, hvd.size() - 1), hvd.allgather_object])
def test_an_object_that_cannot_be_pickled_fails_on_every_rank(send):
    last = hvd.size() - 1
    with pytest.raises(ValueError, match=f"rank {last}: a Unpicklable .*LookupError: no such sh"):
        send(Unpicklable() if hvd.rank() == last else 1)
    assert send(hvd.rank()) == (last if send is not hvd.allgather_object else list(ranks()))


def test_adasum_is_for_allreduce_alone():
    with pytest.raises(RuntimeError, match="Adasum"):
        hvd.reducescatter(torch.ones(4), op=hvd.Adasum)
    with pytest.raises(ValueError, match="Adasum"):
        hvd.allreduce(torch.ones(4, dtype=torch.int32), op=hvd.Adasum)


def test_a_timeline_is_on_disk_while_the_job_runs(tmp_path):
    path = hvd.broadcast_object(str(tmp_path / "timeline.json"), 0)
    own = path if hvd.rank() == 0 else f"{path}.{hvd.rank()}"
    hvd.start_timeline(path)
    hvd.allreduce(torch.ones(3), name="seen at once")
    until = time.monotonic() + 60
    while "seen at once" not in pathlib.Path(own).read_text(encoding="utf-8"):
        assert time.monotonic() < until
        time.sleep(0.01)
    hvd.stop_timeline()


def test_different_shapes_are_an_error_that_names_them():
    if hvd.size() == 1:
        pytest.skip("needs two ranks")
    other = hvd.rank() == 0
    shape = (2, 6) if other else (3, 4)
    calls = [lambda: hvd.allreduce(torch.zeros(shape), name="unlike sum"),
             lambda: hvd.allreduce_(torch.zeros(shape), name="unlike in place"),
             lambda: hvd.broadcast(torch.zeros(shape), 0, name="unlike root"),
             lambda: hvd.allgather(torch.zeros(shape), name="unlike parts")]
    for call in calls:
        with pytest.raises(hvd.HorovodInternalError, match=r"(3|any), 4.*(2|any), 6|"
                           r"(2|any), 6.*(3|any), 4"):
            call()
    same = torch.ones(3, 4)  # declared once, then of another shape
    assert torch.equal(hvd.allreduce_(same, name="again", op=hvd.Sum), same)
    with pytest.raises(hvd.HorovodInternalError, match="shape"):
        hvd.allreduce_(torch.ones(shape), name="again", op=hvd.Sum)


def test_mismatch_raises_everywhere_and_the_job_goes_on():
    if hvd.size() == 1:
        pytest.skip("needs two ranks")
    with pytest.raises(hvd.HorovodInternalError) as caught:
        hvd.allreduce(torch.ones(hvd.rank() + 1), name="uneven")
    assert "allreduce.uneven" in str(caught.value)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def test_a_timeline_has_the_stages_of_every_tensor(tmp_path):
    path = hvd.broadcast_object(str(tmp_path / "timeline.json"), 0)
    own = path if hvd.rank() == 0 else f"{path}.{hvd.rank()}"
    hvd.start_timeline(path)
    with pytest.raises(ValueError, match="already"):
        hvd.start_timeline(path)
    for _ in range(5):
        hvd.allreduce_(torch.ones(5000), name='odd "name"\n')
    hvd.broadcast(torch.ones(3), 0, name="b")
    hvd.stop_timeline()
    hvd.stop_timeline()
    hvd.allreduce(torch.ones(1), name="after")
    with open(own, encoding="utf-8") as file:
        events = json.load(file)
    assert events[0]["args"]["name"] == f"rank {hvd.rank()}"
    begun = [event for event in events if event["ph"] == "b"]
    assert len(begun) == sum(event["ph"] == "e" for event in events)
    tensors = {event["args"]["tensor"] for event in begun}
    assert 'allreduce.odd "name"\n' in tensors and "broadcast.b" in tensors
    assert not any("after" in tensor for tensor in tensors)
    stages = {event["name"] for event in begun}
    assert {"negotiate allreduce", "exchange allreduce", "exchange broadcast"} <= stages
    with pytest.raises(ValueError, match="No such file"):
        hvd.start_timeline("/no/such/folder/timeline.json")
    hvd.barrier()


def test_calls_outside_of_a_job_name_the_cure():
    hvd.shutdown()
    assert not hvd.is_initialized()
    with pytest.raises(ValueError, match="hvd.init"):
        hvd.rank()
    hvd.init()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def test_a_known_tensor_that_changed_in_place_is_checked_again():
    tensor = torch.ones(4)
    for _ in range(3):  # declared, seen in its place, then known
        hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum, name="known"))
    assert torch.equal(tensor, torch.full((4,), float(hvd.size()) ** 3))

    tensor.data = torch.ones(4, dtype=torch.float64)
    hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum, name="known"))
    assert torch.equal(tensor, torch.full((4,), float(hvd.size()), dtype=torch.float64))

    tensor.data = torch.ones(4)  # elsewhere
    hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum, name="known"))
    tensor.resize_(2)  # in the same place
    hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum, name="known"))
    assert torch.equal(tensor, torch.full((2,), float(hvd.size()) ** 2))

    square = torch.arange(4.0).reshape(2, 2)
    for _ in range(3):
        hvd.synchronize(hvd.allreduce_async_(square, op=hvd.Max, name="square"))
    square.t_()
    with pytest.raises(ValueError, match="contiguous"):
        hvd.allreduce_async_(square, op=hvd.Max, name="square")


def test_a_name_keeps_its_options_apart():
    tensor = torch.ones(3)
    for _ in range(2):
        hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum, name="options"))
        hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Average, name="options"))
        hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum, name="options",
                                             prescale_factor=0.5))
    assert torch.equal(tensor, torch.full((3,), (hvd.size() * hvd.size() * 0.5) ** 2))


@pytest.fixture
def threads_switch_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("start", [
    lambda i: hvd.allreduce_async(torch.full((64,), float(i)), op=hvd.Sum, name="threads"),
    lambda i: hvd.allreduce_async_(torch.full((64 + i % 2,), float(i)), op=hvd.Sum, name="threads"),
    lambda i: hvd.allgather_async(torch.full((64,), float(i * hvd.size())), name="threads"),
    lambda i: hvd.grouped_allreduce_async_([torch.full((4,), float(i)), torch.ones(3)], op=hvd.Sum,
                                           name="threads"),
], ids=["new", "in_place", "gather", "group"])
@pytest.mark.usefixtures("threads_switch_often")
def test_threads_may_poll_and_wait_for_one_handle(start):
    seen = []

    def poll(handle, _):
        while not hvd.poll(handle):
            pass

    def wait(handle, i):
        result = hvd.synchronize(handle)
        seen.append((result[0][0] if isinstance(result, list) else result[0]).item() / hvd.size()
                    == i)

    def run(look, handle, i):
        try:
            look(handle, i)
        except BaseException as problem:
            seen.append(problem)

    count = 150
    for i in range(count):
        handle = start(i)
        threads = [threading.Thread(target=run, args=(look, handle, i))
                   for look in (poll, poll, wait, wait)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    hvd.barrier()
    assert seen == [True] * 2 * count


def test_names_used_once_are_not_kept_for_ever(monkeypatch):
    from tutti.torch import kept, ops
    monkeypatch.setattr(kept, "_AGE_MAX", 20)
    monkeypatch.setattr(kept, "_SWEEP", 10)
    kept._kept.clear()
    ops._kept_groups.clear()
    kept._latest.clear()
    often = torch.zeros(2)
    for i in range(200):
        hvd.allreduce_(often.fill_(1.0), op=hvd.Sum, name="often")
        for name in f"once.{i}", f"dropped.{i}":
            hvd.allreduce_async_(torch.ones(2), op=hvd.Sum, name=name)
        hvd.synchronize(hvd.allreduce_async_(often, op=hvd.Sum, name="often"))
        hvd.grouped_allreduce_([torch.ones(2), torch.ones(1)], op=hvd.Sum, name=f"group.{i}")
        assert often.tolist() == [float(hvd.size() ** 2)] * 2
    assert len(kept._kept) <= 32 and len(kept._latest) <= 32 and len(ops._kept_groups) <= 32
    assert ("often", (hvd.Sum, 1.0, 1.0, 0)) in kept._kept
    hvd.barrier()
