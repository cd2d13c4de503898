# SPDX-License-Identifier: Apache-2.0
"""Shapes, types and orders drawn by Hypothesis, the same on every rank; NumPy is the oracle."""

import numpy
import pytest
import torch

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

import tutti.torch as hvd  # noqa: E402

DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool",
          "complex64", "bfloat16", *(["uint16"] if hasattr(torch, "uint16") else [])]
# Reductions of every type, as NumPy computes them; for bool, sum is "or" and product is "and".
OPS = {hvd.Sum: numpy.sum, hvd.Min: numpy.min, hvd.Max: numpy.max, hvd.Product: numpy.prod,
       hvd.Average: lambda arrays, axis: (
           numpy.sum(arrays, axis=axis, dtype="int64") // len(arrays) if arrays.dtype.kind in "iu"
           else numpy.sum(arrays, axis=axis) / len(arrays))}
NOT_OF = {"bool": {hvd.Average}, "complex64": {hvd.Min, hvd.Max, hvd.Product}}
SHAPES = st.lists(st.integers(0, 7), min_size=0, max_size=4).map(tuple)
alike = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@pytest.fixture(scope="module", autouse=True)
def started():
    hvd.init()
    yield
    hvd.shutdown()


def numpys(dtype):
    """The NumPy type that holds its numbers; NumPy has no bfloat16."""
    return "float32" if dtype == "bfloat16" else dtype


def array_of(shape, dtype, seed, rank, most=3):
    numbers = numpy.random.default_rng([seed, rank])
    array = numbers.integers(0, most + 1, shape)
    if dtype == "complex64":
        array = array + 1j * numbers.integers(0, most + 1, shape)
    return numpy.asarray(array).astype(numpys(dtype))


def inputs(shape, dtype, seed):
    """The arrays of all ranks; small whole numbers, so that sums are exact in every type."""
    return [array_of(shape, dtype, seed, rank) for rank in range(hvd.size())]


def tensor_of(array, dtype):
    tensor = torch.from_numpy(array.copy()).reshape(array.shape)
    return tensor.to(torch.bfloat16) if dtype == "bfloat16" else tensor


def assert_same(tensor, expected, dtype):
    assert tensor.dtype == getattr(torch, dtype) and tensor.shape == expected.shape
    tensor = tensor.float() if dtype == "bfloat16" else tensor
    assert numpy.array_equal(tensor.numpy(), expected.astype(numpys(dtype)))


@settings(alike, max_examples=100)
@given(SHAPES, st.sampled_from(DTYPES), st.integers(0, 999), st.sampled_from(sorted(OPS)),
       st.booleans())
def test_reductions(shape, dtype, seed, op, is_turned):
    arrays = inputs(shape, dtype, seed)
    tensor, expected = tensor_of(arrays[hvd.rank()], dtype), OPS[op](numpy.stack(arrays), axis=0)
    if is_turned:  # another order of the dimensions: elements that do not lie side by side
        tensor = tensor.permute(list(reversed(range(tensor.dim()))))
        expected = numpy.transpose(expected)
    if op in NOT_OF.get(dtype, ()):
        with pytest.raises(ValueError, match="bool|complex"):
            hvd.allreduce(tensor, op=op)
        return
    assert_same(hvd.allreduce(tensor, op=op), expected, dtype)


@alike
@given(SHAPES, st.sampled_from(DTYPES), st.integers(0, 999), st.integers(0, 3), st.booleans())
def test_broadcasts(shape, dtype, seed, root, in_place):
    root = root % hvd.size()
    tensor = tensor_of(array_of(shape, dtype, seed, hvd.rank(), 100), dtype)
    received = (hvd.broadcast_ if in_place else hvd.broadcast)(tensor, root)
    assert (received is tensor) == in_place
    assert_same(received, array_of(shape, dtype, seed, root, 100), dtype)


@alike
@given(st.lists(st.tuples(SHAPES, st.sampled_from(DTYPES)), min_size=1, max_size=6),
       st.integers(0, 999))
def test_named_tensors_meet_in_any_order(kinds, seed):
    arrays = [inputs(shape, dtype, seed + i) for i, (shape, dtype) in enumerate(kinds)]
    order = numpy.random.default_rng([seed, hvd.rank()]).permutation(len(kinds))
    handles = {}
    for i in order:
        own = tensor_of(arrays[i][hvd.rank()], kinds[i][1])
        handles[i] = hvd.allreduce_async(own, name=f"any.{i}", op=hvd.Sum)
    for i, handle in handles.items():
        assert_same(hvd.synchronize(handle), numpy.sum(numpy.stack(arrays[i]), axis=0), kinds[i][1])


@alike
@given(st.lists(st.integers(0, 5), min_size=4, max_size=4), SHAPES, st.sampled_from(DTYPES),
       st.integers(0, 999))
def test_gathers_of_uneven_rows(rows, rest, dtype, seed):
    arrays = [array_of((rows[rank % 4], *rest), dtype, seed, rank, 9)
              for rank in range(hvd.size())]
    assert_same(hvd.allgather(tensor_of(arrays[hvd.rank()], dtype)), numpy.concatenate(arrays),
                dtype)


@alike
@given(st.integers(0, 9), SHAPES, st.sampled_from(DTYPES), st.integers(0, 999))
def test_scattered_sums(rows, rest, dtype, seed):
    arrays = inputs((rows, *rest), dtype, seed)
    result = hvd.reducescatter(tensor_of(arrays[hvd.rank()], dtype), op=hvd.Sum)
    total = numpy.sum(numpy.stack(arrays), axis=0)
    assert_same(result, numpy.array_split(total, hvd.size())[hvd.rank()], dtype)


@alike
@given(st.integers(0, 15), SHAPES, st.sampled_from(DTYPES), st.integers(0, 999))
def test_exchanges_with_splits(most, rest, dtype, seed):
    splits = numpy.random.default_rng(seed).integers(0, most + 1, (hvd.size(), hvd.size()))
    arrays = [array_of((splits[rank].sum(), *rest), dtype, seed, rank, 9)
              for rank in range(hvd.size())]
    received, lengths = hvd.alltoall(tensor_of(arrays[hvd.rank()], dtype),
                                     torch.from_numpy(splits[hvd.rank()]))
    parts = [numpy.split(array, numpy.cumsum(splits[r])[:-1])[hvd.rank()]
             for r, array in enumerate(arrays)]
    assert lengths.tolist() == splits[:, hvd.rank()].tolist()
    assert_same(received, numpy.concatenate(parts), dtype)
