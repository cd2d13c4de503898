# SPDX-License-Identifier: Apache-2.0
"""Shapes, types and orders drawn by Hypothesis, the same on every rank; NumPy is the oracle."""

import numpy
import pytest
import torch

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

import tutti.torch as hvd  # noqa: E402

DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
SHAPES = st.lists(st.integers(0, 7), min_size=0, max_size=4).map(tuple)
alike = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@pytest.fixture(scope="module", autouse=True)
def started():
    hvd.init()
    yield
    hvd.shutdown()


def inputs(shape, dtype, seed):
    """Everyone's array; small whole numbers, so that sums are exact in every type."""
    return [numpy.random.default_rng([seed, rank]).integers(0, 4, shape).astype(dtype)
            for rank in range(hvd.size())]


@alike
@given(SHAPES, st.sampled_from(DTYPES), st.integers(0, 999),
       st.sampled_from([(hvd.Sum, numpy.sum), (hvd.Min, numpy.min), (hvd.Max, numpy.max)]))
def test_reductions(shape, dtype, seed, how):
    op, oracle = how
    arrays = inputs(shape, dtype, seed)
    result = hvd.allreduce(torch.from_numpy(arrays[hvd.rank()].copy()).reshape(shape), op=op)
    expected = oracle(numpy.stack(arrays), axis=0).astype(dtype)
    assert result.shape == shape and numpy.array_equal(result.numpy(), expected)


@alike
@given(st.lists(st.tuples(SHAPES, st.sampled_from(DTYPES)), min_size=1, max_size=6),
       st.integers(0, 999))
def test_named_tensors_meet_in_any_order(kinds, seed):
    arrays = [inputs(shape, dtype, seed + i) for i, (shape, dtype) in enumerate(kinds)]
    order = numpy.random.default_rng([seed, hvd.rank()]).permutation(len(kinds))
    handles = {}
    for i in order:
        own = torch.from_numpy(arrays[i][hvd.rank()].copy()).reshape(kinds[i][0])
        handles[i] = hvd.allreduce_async(own, name=f"any.{i}", op=hvd.Sum)
    for i, handle in handles.items():
        expected = numpy.sum(numpy.stack(arrays[i]), axis=0).astype(kinds[i][1])
        assert numpy.array_equal(hvd.synchronize(handle).numpy(), expected)


@alike
@given(st.lists(st.integers(0, 5), min_size=4, max_size=4), SHAPES, st.sampled_from(DTYPES),
       st.integers(0, 999))
def test_gathers_of_uneven_rows(rows, rest, dtype, seed):
    arrays = [numpy.random.default_rng([seed, rank]).integers(0, 9, (rows[rank % 4], *rest))
              .astype(dtype) for rank in range(hvd.size())]
    result = hvd.allgather(torch.from_numpy(arrays[hvd.rank()]))
    assert numpy.array_equal(result.numpy(), numpy.concatenate(arrays))


@alike
@given(st.integers(0, 9), SHAPES, st.sampled_from(DTYPES), st.integers(0, 999))
def test_scattered_sums(rows, rest, dtype, seed):
    arrays = inputs((rows, *rest), dtype, seed)
    result = hvd.reducescatter(torch.from_numpy(arrays[hvd.rank()].copy()), op=hvd.Sum)
    total = numpy.sum(numpy.stack(arrays), axis=0).astype(dtype)
    assert numpy.array_equal(result.numpy(), numpy.array_split(total, hvd.size())[hvd.rank()])


@alike
@given(st.integers(0, 15), SHAPES, st.sampled_from(DTYPES), st.integers(0, 999))
def test_exchanges_with_splits(most, rest, dtype, seed):
    splits = numpy.random.default_rng(seed).integers(0, most + 1, (hvd.size(), hvd.size()))
    arrays = [numpy.random.default_rng([seed, rank]).integers(0, 9, (splits[rank].sum(), *rest))
              .astype(dtype) for rank in range(hvd.size())]
    received, lengths = hvd.alltoall(torch.from_numpy(arrays[hvd.rank()]),
                                     torch.from_numpy(splits[hvd.rank()]))
    parts = [numpy.split(array, numpy.cumsum(splits[r])[:-1])[hvd.rank()]
             for r, array in enumerate(arrays)]
    assert lengths.tolist() == splits[:, hvd.rank()].tolist()
    assert numpy.array_equal(received.numpy(), numpy.concatenate(parts))
