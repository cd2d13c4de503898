# SPDX-License-Identifier: Apache-2.0
"""Collectives on NumPy arrays, DLPack producers and plain buffers."""

import array
import asyncio
import ctypes
import pathlib
import pickle
import re
import threading

import numpy as np
import pytest

import tutti
from tutti import errors
from tutti._library import library

TYPES = ["u1", "i1", "u2", "i2", "i4", "i8", "f2", "f4", "f8"]


@pytest.mark.parametrize("dtype", TYPES)
def test_sums_are_exact_for_every_type(job, dtype):
    mine = np.arange(7, dtype=dtype) + job.rank
    expected = sum((np.arange(7, dtype=dtype) + rank for rank in range(job.size)))
    assert (job.allreduce(mine) == expected).all()


@pytest.mark.parametrize("op, fold", [("min", min), ("max", max), ("sum", sum)])
def test_operators_fold_all_ranks(job, op, fold):
    result = job.allreduce(np.array([float(job.rank + 1)]), op)
    assert result[0] == fold([float(rank + 1) for rank in range(job.size)])


def test_average_in_place_keeps_the_object(job):
    mine = np.full(1000, float(job.rank), "f4")
    assert job.allreduce(mine, "average", out=mine) is mine
    assert (mine == (job.size - 1) / 2).all()


def test_bool_is_or(job):
    result = job.allreduce(np.array([job.rank == 0, False]))
    assert result.tolist() == [True, False]


def test_arena_arrays_are_zeroed_and_sum(job):
    mine = job.empty((3, 5), "f8")
    assert mine.shape == (3, 5) and not mine.any()
    mine += job.rank
    job.allreduce(mine, out=mine)
    assert (mine == sum(range(job.size))).all()


def test_gather_takes_different_lengths(job):
    mine = np.full((job.rank + 1, 2), job.rank, "i4")
    joined = job.allgather(mine)
    expected = np.concatenate([np.full((r + 1, 2), r, "i4") for r in range(job.size)])
    assert (joined == expected).all()


def test_gather_takes_empty_parts(job):
    mine = np.full((0 if job.rank == 0 else 2, 3), job.rank, "f4")
    assert job.allgather(mine).shape == (2 * (job.size - 1), 3)


def test_reducescatter_gives_the_first_ranks_the_rest(job):
    rows = job.size + 1
    part = job.reducescatter(np.arange(rows * 2, dtype="f8").reshape(rows, 2))
    parts = np.array_split(np.arange(rows * 2, dtype="f8").reshape(rows, 2) * job.size, job.size)
    assert (part == parts[job.rank]).all()


def test_alltoall_returns_what_was_sent_here(job):
    mine = np.repeat(np.arange(job.size), 2) + 100 * job.rank
    received, splits = job.alltoall(mine)
    assert splits == [2] * job.size
    assert received.tolist() == [100 * r + job.rank for r in range(job.size) for _ in (0, 1)]


def test_alltoall_with_uneven_splits(job):
    mine = np.full(sum(range(job.size)), job.rank, "i8")
    received, splits = job.alltoall(mine, list(range(job.size)))
    assert splits == [job.rank] * job.size
    assert received.tolist() == [r for r in range(job.size) for _ in range(job.rank)]


def test_broadcast_fills_everyone(job):
    mine = np.full(5, float(job.rank))
    job.broadcast(mine, job.size - 1)
    assert (mine == job.size - 1).all()


def test_receive_any_returns_the_sender(job):
    if job.size == 1:
        with pytest.raises(errors.BadArgument, match="no other rank"):
            job.receive_any(np.zeros(1))
        return
    if job.rank == 0:
        came = {}
        for _ in range(job.size - 1):
            array = np.zeros(2)
            source = job.receive_any(array, tag=8)
            came[source] = array.tolist()
        assert came == {other: [other] * 2 for other in range(1, job.size)}
    else:
        job.send(np.full(2, float(job.rank)), 0, tag=8)
    job.barrier()


def test_send_and_receive_in_a_ring(job):
    if job.size == 1:
        pytest.skip("needs two ranks")
    there, back = (job.rank + 1) % job.size, (job.rank - 1) % job.size
    if job.rank % 2 == 0:
        job.send(np.array([job.rank]), there)
        got = job.receive(np.zeros(1, "i8"), back)
    else:
        got = job.receive(np.zeros(1, "i8"), back)
        job.send(np.array([job.rank]), there)
    assert got[0] == back


def test_reduce_gather_and_scatter_have_a_root(job):
    for root in range(job.size):
        mine = np.arange(4.0) + job.rank
        summed = job.reduce(mine, "sum", root)
        joined = job.gather(np.full((job.rank + 1, 2), job.rank), root)
        whole = np.arange(2.0 * job.size) if job.rank == root else None
        part = np.empty(2)
        assert job.scatter(whole, root, out=part) is part
        assert part.tolist() == [2.0 * job.rank, 2.0 * job.rank + 1]
        if job.rank != root:
            assert summed is None and joined is None
            continue
        assert summed.tolist() == [sum(i + r for r in range(job.size)) for i in range(4)]
        assert joined[:, 0].tolist() == [r for r in range(job.size) for _ in range(r + 1)]
        with pytest.raises(ValueError, match="parts like out"):
            job.scatter(np.ones(3 * job.size + 1), root, out=np.empty(3))
    assert job.start_gather(np.ones(1), 0, name="started").wait()[1] == (
        [1] * job.size if job.rank == 0 else [])


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers_are_moved_and_summed(job, dtype):
    mine = (np.arange(4 * job.size) * (1 + 2j) + job.rank).astype(dtype)
    total = sum((np.arange(4 * job.size) * (1 + 2j) + r).astype(dtype) for r in range(job.size))
    assert np.array_equal(job.allreduce(mine), total)
    assert np.allclose(job.allreduce(mine, "average"), total / job.size)
    assert np.array_equal(job.reducescatter(mine), total[4 * job.rank:4 * job.rank + 4])
    assert np.array_equal(job.allgather(mine[:1]), [r for r in range(job.size)])
    assert job.alltoall(mine)[0].dtype == dtype
    received = mine.copy()
    job.broadcast(received, 0)
    assert np.array_equal(received, np.arange(4 * job.size) * (1 + 2j))
    with pytest.raises(ValueError, match="sum and average"):
        job.allreduce(mine, "max")
    with pytest.raises(ValueError, match="another type"):
        job.allreduce(mine, out=np.empty(8 * job.size, dtype.replace("c", "f").replace(
            "16", "8") if dtype == "c16" else "f4"))


def test_results_go_to_out(job):
    mine = np.full(2 * job.size, float(job.rank))
    out = np.empty(2 * job.size)
    for call in (lambda: job.allreduce(mine, out=out), lambda: job.broadcast(mine, 0, out=out),
                 lambda: job.allgather(mine[:2], out=out), lambda: job.alltoall(mine, out=out)[0]):
        out[:] = -1.0
        assert call() is out and not np.any(out == -1.0)
        assert np.all(mine == job.rank)
    part = np.empty(2)
    assert job.reducescatter(mine, out=part) is part and part[0] == sum(range(job.size))
    if job.rank == 0:
        assert job.reduce(mine, out=out) is out and out[0] == sum(range(job.size))
        assert job.gather(mine[:2], out=out) is out
    else:
        assert job.reduce(mine) is None and job.gather(mine[:2]) is None
    with pytest.raises(ValueError, match="elements"):
        job.allgather(mine[:2], out=np.empty(1))
    with pytest.raises(TypeError, match="nonsense"):
        job.gather(mine, nonsense=1)
    received = array.array("d", [0.0] * len(mine))
    assert job.allgather(array.array("d", [1.0, 2.0]), out=received) is received


def test_plain_buffers_need_out(job):
    mine = array.array("d", [1.0, 2.0])
    job.allreduce(mine, out=mine)
    assert mine.tolist() == [job.size * 1.0, job.size * 2.0]
    with pytest.raises(errors.BadArgument, match="give out="):
        job.allreduce(mine)


def test_dlpack_producers_are_read_without_a_copy(job):
    class Producer:
        def __init__(self, source):
            self.source = source

        def __dlpack__(self, **options):
            return self.source.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.source.__dlpack_device__()

    data = np.ones(4, "f4")
    result = np.zeros(4, "f4")
    job.allreduce(Producer(data), out=result)
    assert (result == job.size).all()


def test_unsupported_arrays_are_refused_with_the_cause(job):
    class Producer:
        def __init__(self, source, kind=1):
            self.source, self.kind = source, kind

        def __dlpack__(self, **options):
            return self.source.__dlpack__(**options)

        def __dlpack_device__(self):
            return (self.kind, 0)

    result = np.zeros(2, "f4")
    for bad, text in [(Producer(np.zeros(2, "f4"), 2), "is on a device"),
                      (Producer(np.zeros((4, 4), "f4")[:, ::2]), "not contiguous"),
                      (Producer(np.zeros(2, "u4")), "not supported"),
                      (memoryview(bytearray(8))[::2], "not contiguous"),
                      (array.array("u", "ab"), "not supported")]:
        with pytest.raises(errors.TuttiError, match=text):
            job.allreduce(bad, out=result)
    with pytest.raises(errors.BadArgument, match="read-only"):
        job.allreduce(np.ones(2, "u1"), out=b"ab")
    word = bytearray(b"from %d" % job.rank)
    job.broadcast(word, 0)
    assert word == b"from 0"
    if job.rank == 0:
        assert job.broadcast(b"fixed", 0) == b"fixed"  # the sender's buffer may be read-only
    else:
        assert job.broadcast(bytearray(5), 0) == b"fixed"


def test_zero_and_scalar_shapes(job):
    assert job.allreduce(np.zeros((0, 3), "f4")).shape == (0, 3)
    assert job.allreduce(np.array(2.0)).shape == ()


@pytest.mark.parametrize("bad, kind", [
    (np.zeros((4, 4))[:, ::2], errors.BadArgument),
    (np.zeros(2, "u4"), errors.Unsupported),
    (np.array(["text"]), errors.Unsupported),
    (3.5, errors.BadArgument),
])
def test_bad_arrays_are_refused_before_anything_is_sent(job, bad, kind):
    with pytest.raises(kind):
        job.allreduce(bad)


def test_unknown_op_names_the_choices(job):
    with pytest.raises(errors.BadArgument, match="sum, average"):
        job.allreduce(np.zeros(1), "total")


def test_mismatch_is_the_same_error_everywhere_and_the_job_goes_on(job):
    if job.size == 1:
        pytest.skip("needs two ranks")
    with pytest.raises(errors.Mismatch) as caught:
        job.allreduce(np.zeros(job.rank + 1), timeout=20)
    assert caught.value.rank == job.rank and caught.value.status == -5
    with pytest.raises(errors.Mismatch, match="layer.weight") as caught:
        job.allreduce(np.zeros(job.rank + 1), name="layer.weight", timeout=20)
    assert caught.value.rank == job.rank and caught.value.name == "layer.weight"
    assert job.allreduce(np.ones(1))[0] == job.size


def test_different_shapes_are_an_error_that_names_them(job):
    if job.size == 1:
        pytest.skip("needs two ranks")
    other = job.rank == job.size - 1
    unlike = {"sum": lambda name: job.allreduce(np.zeros((2, 6) if other else (3, 4)), name=name),
              "all": lambda name: job.broadcast(np.zeros((2, 6) if other else (3, 4)), name=name),
              "parts": lambda name: job.allgather(np.zeros((1, 6) if other else (2, 3)), name=name),
              "swap": lambda name: job.alltoall(
                  np.zeros((job.size, 6) if other else (job.size, 3)), name=name)}
    for name, call in unlike.items():
        for given in (name, None) if name != "all" else (name,):  # a root may have returned already
            with pytest.raises(errors.Mismatch) as caught:
                call(given)
            assert re.search(r"shape \((3, 4|any, 3)\)", str(caught.value))
            assert re.search(r"shape \((2, 6|any, 6)\)", str(caught.value))
            assert "key" not in str(caught.value)
    assert job.allgather(np.ones((2 if other else 1, 3)), name="parts").shape == (job.size + 1, 3)


def test_other_threads_run_while_one_is_inside_the_library(job):
    assert isinstance(library, ctypes.CDLL) and not isinstance(library, ctypes.PyDLL)
    if job.size == 1:
        pytest.skip("needs two ranks")
    go = threading.Event()

    def other():  # the other ranks make the first thread's call only after this one
        go.wait()
        job.allreduce(np.ones(1), name="from another thread")

    thread = threading.Thread(target=other)
    if job.rank == 0:
        handle = job.start_allreduce(np.ones(1), name="waited for")
        thread.start()
        go.set()
        assert library.tutti_wait(handle._pointer, 30.0) == 0  # one call, no return to Python
        assert handle.wait()[0] == job.size
        thread.join()
    else:
        go.set()
        other()
        assert job.allreduce(np.ones(1), name="waited for")[0] == job.size


def test_a_dropped_call_goes_on_and_keeps_its_name(job):
    if job.size == 1:
        pytest.skip("needs two ranks")
    if job.rank == 0:
        job.start_allreduce(np.ones(100_000), name="dropped")  # must not wait for the others
        with pytest.raises(ValueError, match="'dropped' has the same name"):
            job.start_allreduce(np.ones(100_000), name="dropped")
        with pytest.raises(errors.NameInUse):
            job.allreduce(np.ones(100_000), name="dropped")
    job.barrier()
    if job.rank > 0:
        assert np.all(job.allreduce(np.ones(100_000), name="dropped") == job.size)
    job.barrier()


def test_errors_survive_pickling():
    error = pickle.loads(pickle.dumps(errors.from_status(-5, "text", 3, "weight")))
    assert isinstance(error, errors.Mismatch)
    assert (str(error), error.rank, error.name, error.status) == ("text", 3, "weight", -5)


def test_handles_go_with_asyncios_own_tools(job):
    async def all_of_them():
        handles = [job.start_allreduce(np.full(2, float(i)), name=f"async.{i}") for i in range(5)]
        results = await asyncio.gather(*handles)
        late = job.start_allreduce(np.ones(1), name=f"late.{job.rank}")  # nobody else calls it
        if job.size > 1:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(late, 0.05)
            assert not late.poll()
        return results, late

    results, late = asyncio.run(all_of_them())
    assert [result[0] for result in results] == [i * job.size for i in range(5)]
    job.barrier()  # all have given up waiting
    for rank in range(job.size):  # everyone's late call is answered in the end
        if rank != job.rank:
            job.allreduce(np.ones(1), name=f"late.{rank}")
    assert late.wait(30)[0] == job.size

    async def fails():
        await job.start_allreduce(np.zeros(job.rank + 1), name="uneven, awaited")

    if job.size > 1:
        with pytest.raises(errors.Mismatch, match="uneven, awaited"):
            asyncio.run(fails())


def test_the_guides_example_runs(capsys):
    page = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
    script = re.search(r"## Arrays\n\n```python\n(.*?)```", page.read_text(), re.S).group(1)
    exec(script, {})
    assert "[" in capsys.readouterr().out


@pytest.mark.parametrize("codec", ["bf16:where=all", "int8:where=all", "int4:where=all,block=64"])
def test_coded_sums_have_the_same_bits_and_catch_up(job, codec):
    got, wanted = np.zeros(5000), np.zeros(5000)
    for step in range(12):
        parts = [np.sin(np.arange(5000) * 0.37 + step + rank).astype("f4")
                 for rank in range(job.size)]
        name = f"coded.{codec}"
        summed = (job.allreduce(parts[job.rank], name=name, codec=codec) if step % 2 else
                  job.start_allreduce(parts[job.rank], name=name, codec=codec).wait())
        assert (job.broadcast(summed.copy()) == summed).all()
        got, wanted = got + summed, wanted + sum(parts)
    assert np.abs(got - wanted).max() < 0.1 * job.size + 0.1
    rows = np.full((2 * job.size, 3), 0.5, "f4")
    part = job.reducescatter(rows, name="coded part", codec=codec)
    assert part.shape == (2, 3) and np.allclose(part, 0.5 * job.size, rtol=0.2)
    part = job.start_reducescatter(rows, name="coded part", codec=codec).wait()
    assert np.allclose(part, 0.5 * job.size, rtol=0.2)


def test_what_codecs_keep_is_saved_loaded_and_reset(job):
    def call(step):
        values = np.sin(np.arange(3000) * 0.7 + step + job.rank).astype("f4")
        return job.allreduce(values, name="kept", codec="int4:where=all")

    job.codec_reset()
    call(0)
    state, norm = job.codec_save(), job.codec_norm()
    assert isinstance(state, bytes) and (norm > 0.0) is (job.size > 1)
    second = call(1)
    job.codec_load(state)
    assert job.codec_norm() == norm and (call(1) == second).all()
    job.codec_reset("kept")
    assert job.codec_norm() == 0.0 and job.count()["coded_calls"] >= (3 if job.size > 1 else 0)
    assert job.size == 1 or (call(1) != second).any()
    with pytest.raises(errors.BadArgument, match="not all of them"):
        job.codec_load(state[:-8])
    before = job.codec_norm()
    job.codec_unit(4.0)
    assert job.codec_norm() == pytest.approx(4.0 * before)
    job.codec_unit(1.0)
    job.codec_reset()


def test_a_step_can_be_undone():
    with tutti.init() as job:  # a job of its own: from its first step on, calls do not commit
        def call(step):
            values = np.sin(np.arange(3000) * 0.7 + step + job.rank).astype("f4")
            return job.allreduce(values, name="undone", codec="int4:where=all")

        call(0)
        job.step()
        first = call(1)
        job.step_undo()
        assert (call(1) == first).all()


def test_wrong_codecs_are_refused(job):
    for options, words in (({"codec": "int9"}, "did you mean 'int8'"),
                           ({"codec": "int8:blok=64"}, "did you mean 'block'"),
                           ({"codec": "int8", "op": "max"}, "sum and average")):
        with pytest.raises(errors.BadArgument, match=words):
            job.allreduce(np.ones(10, "f4"), name="wrong codec", **options)
    with pytest.raises(errors.BadArgument, match="not i64"):
        job.allreduce(np.ones(10, "i8"), name="wrong codec", codec="int8")
    with pytest.raises(errors.BadArgument, match="give the call a name"):
        job.allreduce(np.ones(10, "f4"), codec="int8")
    with pytest.raises(TypeError, match="a codec is a text"):
        job.allreduce(np.ones(10, "f4"), name="wrong codec", codec=8)


def test_handles_can_be_awaited(job):
    async def both():
        first = job.start_allreduce(np.ones(3))
        second = job.start_allreduce(np.full(3, 2.0))
        return await asyncio.gather(_result(first), _result(second))

    async def _result(handle):
        return await handle

    one, two = asyncio.run(both())
    assert (one == job.size).all() and (two == 2 * job.size).all()


def test_process_sets_work_on_their_own(job):
    number = job.create_set([0])
    assert job.set_size(number) == 1
    if job.rank == 0:
        assert job.allreduce(np.array([5.0]), process_set=number)[0] == 5.0
    job.remove_set(number)


def test_arrays_outlive_the_job():
    job = tutti.init()
    mine, joined = job.empty(3, "f4"), job.allgather(np.arange(2))
    mine += 1
    job.shutdown()
    assert mine.tolist() == [1.0] * 3 and joined.tolist() == [0, 1] * (len(joined) // 2)
    del joined
    mine += 1
    assert mine.sum() == 6.0


def test_calls_after_shutdown_raise_shut_down():
    # A job of one, beside the one of this test run.
    alone = tutti.init(0, 1, rendezvous=None)
    alone.shutdown()
    alone.shutdown()
    with pytest.raises(errors.ShutDown, match="tutti.init"):
        alone.allreduce(np.zeros(1))
