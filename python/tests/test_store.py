# SPDX-License-Identifier: Apache-2.0
"""tutti.Store: values, policies, started calls, errors. With and without servers."""

import array

import numpy
import pytest

import tutti
from tutti import errors

POLICIES = ["bulk", "stale:0", "stale:2", "async", "quorum:1"]


def ramp(count=5, dtype="f4"):
    return numpy.arange(count, dtype=dtype)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("count", [0, 1, 40000])
def test_everything_pushed_is_in_the_value_once(job, policy, count):
    with job.store(policy=policy, update="add") as store:
        store.add("w", numpy.full(count, job.rank, "i8"))
        counted = 0
        for i in range(4):
            push = store.start_push("w", numpy.full(count, 1 + job.rank, "i8"))
            assert store.clock() > i and store.completed > i
            assert push.wait() is push.counted
            counted += push.counted
        total = job.allreduce(numpy.array([counted * (1 + job.rank)]))[0]  # all have pushed
        assert (store.pull("w") == total).all()
        if not policy.startswith("quorum"):
            assert counted == 4


def test_sums_of_an_iteration(job):
    with tutti.Store(update="sum") as store:  # the job of this process
        store.add("g", numpy.zeros((3, 4), "f8"))
        for i in range(3):
            mine = numpy.full((3, 4), job.rank + i, "f8")
            out = store.push_pull("g", mine)
            assert out.shape == (3, 4) and out.dtype == mine.dtype
            assert (out == sum(rank + i for rank in range(job.size))).all()
            assert store.push_pull("g", mine, out=mine) is mine and (mine == out).all()
            store.clock()


def test_sgd_steps_by_the_mean(job):
    with job.store("bulk", "sgd:lr=0.5") as store:
        store.add("w", ramp())
        store.push("w", numpy.full(5, job.rank, "f4"))
        store.clock()
        out = numpy.empty(5, "f4")
        assert store.pull("w", out) is out
        mean = sum(range(job.size)) / job.size
        numpy.testing.assert_allclose(out, ramp() - 0.5 * mean)


def test_any_buffer(job):
    with job.store(update="add") as store:
        store.add("a", array.array("f", [1, 2]))
        store.add("c", numpy.array([1 + 2j], "c8"))
        out = array.array("f", [0, 0])
        assert store.push_pull("a", array.array("f", [1, 1]), out) is out
        assert list(out) == [1 + job.size, 2 + job.size]
        assert store.push_pull("c", numpy.array([1j], "c8"))[0] == 1 + (2 + job.size) * 1j
        with pytest.raises(errors.BadArgument, match="give out="):
            store.pull("a")


def test_a_dropped_handle_keeps_its_buffers(job):
    with job.store("stale:3", "add") as store:
        store.add("w", numpy.zeros(100000))
        for _ in range(5):
            store.start_push("w", numpy.ones(100000), priority=3)  # nobody keeps array or handle
        store.pull("w")  # after all own pushes
        store.clock()
        job.barrier()
        assert (store.pull("w") == 5 * job.size).all()


def test_several_stores_have_names_of_their_own(job):
    with job.store(update="add") as one, job.store("async", "add") as two:
        one.add("w", ramp())
        two.add("w", ramp(3, "i4"))
        pushes = one.start_push("w", ramp()), two.start_push("w", ramp(3, "i4"))
        assert job.allreduce(ramp(), name="w").shape == (5,)  # no name of a store
        assert [push.wait() for push in pushes] == [True, True]
        assert pushes[0].cancel() is False


def test_wrong_arguments(job):
    for policy, update, text in (("stale", "add", "stale:S"), ("bulk", "sdg", "did you mean 'sgd'"),
                                 ("stale:3", "sum", "update=add"),
                                 ("bulk", "sgd:rate=1", "has no option"),
                                 (f"quorum:{job.size + 1}", "add", "or less")):
        with pytest.raises(errors.BadArgument, match=text):
            job.store(policy, update)
    with pytest.raises(TypeError, match="a text"):
        job.store(3)
    with job.store("bulk", "sgd") as store:
        with pytest.raises(errors.BadArgument, match="takes f32"):
            store.add("w", ramp(dtype="f8"))
        store.add("w", ramp())
        with pytest.raises(errors.BadArgument, match="added before"):
            store.add("w", ramp())
        with pytest.raises(errors.BadArgument, match="call add"):
            store.push("v", ramp())
        with pytest.raises(errors.BadArgument, match="4 elements, tensor 'w' of the store has 5"):
            store.push("w", ramp(4))
        with pytest.raises(errors.BadArgument, match="another type"):
            store.pull("w", ramp(dtype="f8"))
        with pytest.raises(errors.BadArgument, match="priority"):
            store.start_pull("w", priority=40000)
        with pytest.raises(errors.BadArgument, match="read-only"):
            store.pull("w", memoryview(ramp().tobytes()).cast("f"))
    with pytest.raises(errors.ShutDown, match="closed"):
        store.pull("w")
    store.close()


def test_a_quorum_refuses_pushes_that_would_wait_forever(job):
    with job.store("quorum:1", "add") as store:
        store.add("w", ramp())
        with pytest.raises(errors.BadArgument, match="start_push, then clock"):
            store.push("w", ramp())
        with pytest.raises(errors.BadArgument, match="start_push_pull"):
            store.push_pull("w", ramp())


def test_a_store_in_use_is_not_closed(job):
    # A push is in flight until all ranks have pushed; of a lone rank, until its clock.
    with job.store("bulk" if job.size > 1 else "quorum:1", "add") as store:
        store.add("w", ramp())
        if job.rank == 0:
            push = store.start_push("w", ramp())
            with pytest.raises(errors.BadArgument, match="'w' is in flight"):
                store.close()
            assert store.is_open
        job.barrier()
        if job.rank > 0:
            push = store.start_push("w", ramp())
        store.clock()
        push.wait()
    assert not store.is_open


def test_a_store_with_a_dropped_call_in_flight_is_not_closed(job):
    with job.store("bulk" if job.size > 1 else "quorum:1", "add") as store:
        store.add("w", ramp())
        if job.rank == 0:
            store.start_push("w", ramp())  # nobody keeps the handle
            with pytest.raises(errors.BadArgument, match="in flight"):
                store.close()
            assert store.is_open
        job.barrier()
        if job.rank > 0:
            store.start_push("w", ramp())
        store.clock()
        store.pull("w")  # behind the push
    assert not store.is_open


def test_codecs_and_counts(job):
    with job.store("bulk", "sum", codec="int8") as store:
        values = numpy.linspace(-1, 1, 20000, dtype="f4")
        store.add("w", values)
        total = store.push_pull("w", values)
        assert abs(total - job.size * values).max() < 0.02 * job.size
        store.clock()
        counts = store.count()
        assert counts["pushes"] == counts["pulls"] == counts["clock"] == 1
        assert counts["pushed_bytes"] == values.nbytes and len(counts["staleness"]) == 64
    with pytest.raises(errors.BadArgument, match="int9"):
        job.store("bulk", "sum", codec="int9")


def table(rows=1000, width=8, dtype="f4"):
    return numpy.arange(rows * width, dtype=dtype).reshape(rows, width)


def needs_tables():
    if tutti.store.c.library.tutti_store_add_table is None:
        pytest.skip("the C library has no tables")


@pytest.mark.parametrize("policy", ["bulk", "stale:2", "async", "quorum:1"])
def test_rows_are_pushed_and_pulled_as_they_are_named(job, policy):
    needs_tables()
    named = [7, 3, 999, 3, 0]  # row 3 twice
    with job.store(policy, "add") as store:
        store.add("t", table(dtype="i8"), table=True)
        counted = 0
        for _ in range(3):
            push = store.start_push("t", numpy.ones((5, 8), "i8"), rows=named)
            store.clock()
            counted += push.wait()
        total = job.allreduce(numpy.array([counted]))[0]
        wanted = table(dtype="i8")
        numpy.add.at(wanted, named, total)
        for rows in (named, [0, 3, 999], numpy.array([999, 1], "i2"), [], range(1000)):
            assert (store.pull("t", rows=rows) == wanted[list(rows)]).all()
        out = numpy.full((2, 8), -1)
        assert store.pull("t", out, rows=(3, 7)) is out and (out == wanted[[3, 7]]).all()
        assert store.pull("t", out, rows=(7, 3)) is out and (out == wanted[[7, 3]]).all()
        assert (store.pull("t") == wanted).all()
        counts = store.count()
        assert counts["pushed_bytes"] == 3 * 4 * 8 * 8


def test_rows_in_one_round_trip_and_of_other_types(job):
    needs_tables()
    with job.store(update="sum") as store:
        store.add("t", numpy.zeros((6, 2, 2), "f8"), table=True)
        store.add("c", numpy.zeros((4, 3), "c8"), table=True)
        store.add("a", array.array("f", [0] * 5), table=True)
        mine = numpy.full((2, 2, 2), 1.0 + job.rank)
        out = store.push_pull("t", mine, rows=[5, 1])
        assert out.shape == (2, 2, 2) and (out == sum(range(1, job.size + 1))).all()
        assert store.push_pull("t", mine, out=mine, rows=[2, 1]) is mine and (mine == out).all()
        twice = store.push_pull("c", numpy.full((2, 3), 1 + 1j, "c8"), rows=[1, 1])
        assert (twice == 2 * job.size * (1 + 1j)).all()
        room = array.array("f", [0, 0])
        store.push_pull("a", array.array("f", [1, 2]), room, rows=[3, 0])
        assert list(room) == [job.size, 2 * job.size]
        assert store.push_pull("t", numpy.zeros((0, 2, 2)), rows=[]).shape == (0, 2, 2)


def test_wrong_rows(job):
    needs_tables()
    with job.store("async", "add") as store:
        store.add("t", table(5, 2), table=True)
        store.add("w", ramp())
        values = numpy.ones((1, 2), "f4")
        for rows, text in (([5], "beyond its 5 rows"), ([-1], "row -1 is negative"),
                           ([0.5], "whole numbers"), ([[1]], "whole numbers"),
                           ([1, 2], "2 elements, 2 rows of table 't' have 4")):
            with pytest.raises(errors.BadArgument, match=text):
                store.push("t", values, rows=rows)
        with pytest.raises(errors.BadArgument, match="add it with table=True"):
            store.push("w", ramp(), rows=[1])
        with pytest.raises(errors.BadArgument, match="no axis"):
            store.add("s", numpy.float32(1), table=True)


def test_ranks_that_differ(job):
    if job.size == 1:
        pytest.skip("needs two ranks")
    with pytest.raises(errors.Mismatch, match="stale:3 add.*use the same on all|bulk add"):
        job.store("stale:3" if job.rank == 0 else "bulk", "add")
    with job.store("bulk", "add") as store:
        with pytest.raises(errors.Mismatch, match="elements of f32"):
            store.add("w", ramp(5 + job.rank))
        store.add("v", ramp())
        store.push("v", ramp())


def test_options_change(job):
    with job.store("bulk", "sgd:lr=0.5") as store:
        store.add("w", ramp())
        if tutti.store.c.library.tutti_store_set is None:
            with pytest.raises(errors.Unsupported, match="tutti_store_set"):
                store.set("lr", 0.25)
            return
        if job.rank == 0:
            store.set("lr", 0.25, store.completed)
        assert (store.push_pull("w", numpy.ones(5, "f4")) == ramp() - 0.25).all()


def test_a_store_is_saved_loaded_and_resharded(job, tmp_path):
    paths = job.allgather(numpy.frombuffer(str(tmp_path).encode().ljust(512), "u1"))
    path = bytes(numpy.asarray(paths).reshape(-1)[:512]).decode().rstrip() + "/store.tutti"
    gradient = ramp(30000) + job.rank
    with job.store("bulk", "momentum:lr=0.1") as store:
        store.add("w", ramp(30000))
        store.add("b", ramp(3))

        def train(steps):
            for _ in range(steps):
                store.push("w", gradient)
                store.push("b", ramp(3))
                store.clock()
            return store.pull("w"), store.pull("b")

        train(3)
        store.save(path)
        wanted = train(2)
        store.load(path)
        assert store.completed == 3 and store.count()["clock"] == 3
        assert all((a == b).all() for a, b in zip(train(2), wanted))
        store.load(path)
        for servers in (0, 9):
            store.reshard(servers)
            assert store.completed == 3
        assert all((a == b).all() for a, b in zip(train(2), wanted))
        with pytest.raises(errors.TuttiError, match="cannot be read: No such file"):
            store.load(path + "2")
        with pytest.raises(errors.BadArgument, match="servers is negative"):
            store.reshard(-1)
    with job.store("bulk", "adam") as store:
        with pytest.raises(errors.TuttiError, match="update momentum"):
            store.load(path)
