# SPDX-License-Identifier: Apache-2.0
"""Ranks that raise, are interrupted, fork or come too late: all ranks get the cause, none hangs.

Each test starts a job of its own; run outside of one."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
from conftest import torch_version

pytest.importorskip("torch")

PRELUDE = """
import atexit, os, sys, threading, time
import torch
import tutti.torch as hvd

def said(rank):
    return os.path.join(HERE, f"said.{rank}")

def await_others():
    # `tutti run` stops a job whose rank fails: stay until the others have written their errors
    for other in range(int(os.environ["TUTTI_SIZE"])):
        end = time.monotonic() + 30
        while other != ME and not os.path.exists(said(other)) and time.monotonic() < end:
            time.sleep(0.01)

hvd.init()
ME = hvd.rank()

def tell(problem):
    with open(said(ME) + ".new", "w") as file:
        file.write(str(problem))
    os.rename(said(ME) + ".new", said(ME))

def wait_for_the_end():
    try:
        while True:
            hvd.allreduce(torch.ones(1), name="step")
    except hvd.HorovodInternalError as problem:
        tell(problem)

if ME == CULPRIT:
    atexit.unregister(hvd.shutdown)
    atexit.register(await_others)
    atexit.register(hvd.shutdown)
"""


def run(tmp_path, body, ranks=2, culprit=1, environment=None, options=()):
    """The ended process, and the error text of each rank but the culprit."""
    script = tmp_path / "script.py"
    script.write_text(f"HERE = {str(tmp_path)!r}\nCULPRIT = {culprit}\n" + PRELUDE
                      + textwrap.dedent(body))
    command = [os.environ["TEST_BIN"] + "/tutti", "run", "-n", str(ranks), *options,
               sys.executable, str(script)]
    done = subprocess.run(command, timeout=100, capture_output=True, text=True,
                          env={**os.environ, **(environment or {})})
    heard = {rank: (tmp_path / f"said.{rank}").read_text() for rank in range(ranks)
             if (tmp_path / f"said.{rank}").exists()}
    return done, heard


def test_an_uncaught_exception_reaches_every_rank(tmp_path):
    done, heard = run(tmp_path, """
        if ME == CULPRIT:
            hvd.allreduce(torch.ones(1), name="step")
            raise ValueError("the batch is empty")
        wait_for_the_end()
    """, ranks=3)
    assert done.returncode != 0
    assert sorted(heard) == [0, 2], done.stderr
    guide = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
    for text in heard.values():
        assert text == "rank 1 is down: it raised ValueError: the batch is empty"
        assert f"`{text}`" in " ".join(guide.read_text().split())  # as it is printed there
    assert "Traceback" in done.stderr  # the previous hook still runs


def test_the_text_survives_two_jobs_foreign_hooks_and_non_ascii(tmp_path):
    done, heard = run(tmp_path, """
        import tutti
        older = sys.excepthook
        sys.excepthook = lambda *what: older(*what)  # as a logging library does
        second = tutti.init()
        if ME == CULPRIT:
            hvd.allreduce(torch.ones(1), name="step")
            raise ValueError("größer als 日本 " + "ü" * 200)
        wait_for_the_end()
    """)
    assert "it raised ValueError: größer als 日本 üü" in heard[0], done.stderr
    assert "?" not in heard[0] and "RecursionError" not in done.stderr
    assert done.stderr.count("Traceback") == 1


@pytest.mark.parametrize("end", ["raise ValueError('no more')", "os.kill(os.getpid(), 9)"])
def test_a_death_is_one_error_of_each_process(tmp_path, end):
    """However many contexts of a process detect it, also if its rank has another number there."""
    done, heard = run(tmp_path, f"""
        import array, signal, tutti
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # all must detect it in every context
        jobs = [tutti.init(), tutti.init(rank=(ME + 1) % 3, size=3, job_id="another",
                                         rendezvous="file://" + HERE)]
        value = array.array("f", [1.0])
        if ME == CULPRIT:
            jobs[1].allreduce(value, out=value)  # all have joined it
            {end}
        for job in reversed(jobs):
            try:
                while True:
                    job.allreduce(value, out=value)
            except tutti.errors.PeerDown as problem:
                assert f"rank {{2 if job is jobs[1] else 1}} is down" in str(problem)
        wait_for_the_end()
        for job in jobs:
            job.shutdown()
    """, ranks=3, options=("--grace", "60"), environment={"TUTTI_LOG": "info"})
    assert sorted(heard) == [0, 2], done.stderr
    seen = [line for line in done.stderr.splitlines() if " is down: " in line and "tutti[" in line]
    assert len([line for line in seen if " error: " in line]) == 2, done.stderr
    assert not re.search("error: rank . was excluded", done.stderr)  # it reported itself
    assert len([line for line in seen if " info: " in line]) == 4, done.stderr


def test_a_forked_child_that_exits_prints_nothing(tmp_path):
    done, heard = run(tmp_path, """
        import tutti
        job = tutti.init()
        sys.stderr.flush()
        if os.fork() == 0:
            with job:
                pass
            hvd.shutdown()
            sys.exit(0)
        os.wait()
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        tell(hvd.allreduce(torch.ones(1), op=hvd.Sum, name="end").item())
        job.shutdown()
    """, culprit=-1)
    assert heard == {0: "2.0", 1: "2.0"}, done.stderr
    assert "Error" not in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_an_exception_in_a_with_block_reaches_every_rank(tmp_path):
    done, heard = run(tmp_path, """
        import array, tutti
        hvd.shutdown()
        value = array.array("f", [1.0])
        try:
            with tutti.init() as job:
                while True:
                    job.allreduce(value, out=value, name="step")
                    if ME == CULPRIT:
                        raise LookupError("no such shard")
        except tutti.errors.PeerDown as problem:
            tell(problem)
        except LookupError:
            await_others()
    """)
    assert "LookupError: no such shard" in heard[0] and "rank 1" in heard[0], done.stderr


def test_an_exception_of_a_thread_reaches_every_rank(tmp_path):
    done, heard = run(tmp_path, """
        if ME == CULPRIT:
            def fail():
                raise KeyError("no such sample")
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join()
            sys.exit(1)
        wait_for_the_end()
    """)
    assert "KeyError" in heard[0] and "no such sample" in heard[0] and "rank 1" in heard[0]


def test_an_exception_in_a_hook_in_mid_step_reaches_every_rank(tmp_path):
    done, heard = run(tmp_path, """
        model = torch.nn.Linear(4, 4)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                             model.named_parameters())
        def bad(gradient):
            raise RuntimeError("hook of rank 1")
        if ME == CULPRIT:
            model.weight.register_hook(bad)
        try:
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()
        except hvd.HorovodInternalError as problem:
            tell(problem)
    """)
    assert "hook of rank 1" in heard[0] and "rank 1" in heard[0]


@pytest.mark.parametrize("hooked", [False, True])
def test_a_rank_that_raises_under_ddp_ends_the_others_backward(tmp_path, hooked):
    done, heard = run(tmp_path, f"""
        HOOKED = {hooked}""" + """
        import torch.distributed as dist
        import tutti.torch.backend
        dist.init_process_group("gloo" if HOOKED else "tutti",
                                init_method="file://" + os.path.join(HERE, "store"),
                                rank=ME, world_size=hvd.size())
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        if HOOKED:
            model.register_comm_hook(None, hvd.ddp_hook)
        model(torch.ones(2, 4)).sum().backward()
        loss = model(torch.ones(2, 4)).sum()
        begun = os.path.join(HERE, "begun")
        if ME == CULPRIT:
            while not os.path.exists(begun):  # so that the other's exchange is in flight
                time.sleep(0.01)
            raise ValueError("no more data")
        model.module.weight.register_hook(lambda _: open(begun, "w").close())
        try:
            loss.backward()
        except RuntimeError as problem:
            tell(f"{type(problem).__name__}: {problem}")
    """)
    assert "ValueError: no more data" in heard[0] and "rank 1" in heard[0], done.stderr
    wrapped = "RuntimeError: " if torch_version() < (2, 0) else ""  # by autograd
    assert not hooked or heard[0].startswith(wrapped + "HorovodInternalError: "), heard[0]


def test_an_interrupt_reaches_every_rank_from_inside_a_call(tmp_path):
    done, heard = run(tmp_path, """
        import signal
        if ME == CULPRIT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            hvd.allreduce(torch.ones(1), name="nobody else calls this")
        wait_for_the_end()
    """)
    assert "KeyboardInterrupt" in heard[0] and "rank 1" in heard[0]


def test_a_rank_that_leaves_in_order_is_named(tmp_path):
    done, heard = run(tmp_path, """
        if ME == CULPRIT:
            hvd.shutdown()
            sys.exit(0)
        wait_for_the_end()
    """)
    assert "rank 1 has left" in heard[0]


def test_forked_workers_of_a_data_loader_do_not_disturb_the_job(tmp_path):
    done, heard = run(tmp_path, """
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 16

            def __getitem__(self, index):
                try:
                    hvd.allreduce(torch.ones(1), name="in a worker")
                except (hvd.HorovodInternalError, ValueError) as problem:
                    assert "fork" in str(problem), problem
                    return float(index)
                raise AssertionError("a forked worker took part in the job")

        for _ in range(2):
            loader = torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2,
                                                 multiprocessing_context="fork")
            for batch in loader:
                hvd.allreduce(batch.sum(), name="sum")
        tell(hvd.allreduce(torch.ones(1), op=hvd.Sum, name="end").item())
    """, culprit=-1)
    assert done.returncode == 0, done.stderr
    assert heard == {0: "2.0", 1: "2.0"}


def test_calls_before_init_and_after_shutdown_raise(tmp_path):
    done, heard = run(tmp_path, """
        hvd.shutdown()
        problems = []
        model = torch.nn.Linear(1, 1)
        for call in (lambda: hvd.allreduce(torch.ones(1)), lambda: hvd.barrier(), hvd.rank,
                     lambda: hvd.broadcast_parameters(model.state_dict(), 0),
                     lambda: hvd.allgather_object(1), lambda: hvd.join(),
                     lambda: hvd.allreduce_async_(torch.ones(1), name="x")):
            try:
                call()
            except ValueError as problem:
                problems.append("hvd.init" in str(problem))
        hvd.init()
        handle = hvd.allreduce_async_(torch.ones(1), name="alone" + str(ME))
        hvd.shutdown()
        try:
            hvd.synchronize(handle)
        except hvd.HorovodInternalError as problem:
            problems.append("left" in str(problem))
        tell(problems)
    """, culprit=-1)
    assert heard == {0: str([True] * 8), 1: str([True] * 8)}, done.stderr


@pytest.mark.parametrize("destroys", [False, True])
def test_a_script_may_end_while_a_callback_of_a_future_runs(tmp_path, destroys):
    """The thread that runs it must not be inside torch when the interpreter is gone."""
    done, heard = run(tmp_path, f"""
        DESTROYS = {destroys}""" + """
        import torch.distributed as dist
        import tutti.torch.backend
        dist.init_process_group("tutti", init_method="file://" + os.path.join(HERE, "store"),
                                rank=ME, world_size=hvd.size())
        began = threading.Event()
        def callback(future):
            began.set()
            time.sleep(0.5)
            tell("done")
        work = dist.all_reduce(torch.ones(1), async_op=True)
        work.get_future().then(callback)
        began.wait()
        if DESTROYS:
            dist.destroy_process_group()
    """, culprit=-1)
    assert done.returncode == 0, done.stderr
    assert heard == {0: "done", 1: "done"}, done.stderr


def test_a_script_may_end_in_the_middle_of_a_data_loader(tmp_path):
    done, heard = run(tmp_path, """
        from tutti.torch.data_loader import AsyncDataLoaderMixin, BaseDataLoader
        class Loader(AsyncDataLoaderMixin, BaseDataLoader):
            def _iterate(self):
                while True:
                    yield torch.arange(1 << 20).sort(descending=True)
        loader = Loader(async_loader_queue_size=1 << 16)
        batches = iter(loader)
        next(batches)
        tell("read")
    """, culprit=-1)
    assert done.returncode == 0, done.stderr
    assert heard == {0: "read", 1: "read"}, done.stderr
