# SPDX-License-Identifier: Apache-2.0
"""What a call costs from Python: one element, starting, waiting, importing."""
import os
import statistics
import subprocess
import sys
import tempfile
import time

STARTS, LATE_S = 161, 0.5


def rank_main(options, tell):
    """One rank; rank 0 prints the results."""
    import torch
    import tutti.torch as hvd

    hvd.init()
    row = {"one_element_us": _one_element(hvd, torch),
           "backend_element_us": _through_backend(hvd, torch)}
    row["start_us"], row["start_own_us"] = _start(hvd, torch)
    if hvd.size() > 1:
        row["waiting_percent"] = _waiting(hvd, torch, 3)
    if hvd.rank() == 0:
        tell(section="small", ranks=hvd.size(), **row)
    hvd.shutdown()


def _fastest(call, blocks=10, count=200):
    """Microseconds of a call, in the fastest of these blocks: what it costs where nobody else
    wants the cores."""
    times = []
    for _ in range(blocks + 1):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        times.append(1e6 * (time.perf_counter() - begin) / count)
    return min(times[1:])


def _one_element(hvd, torch):
    tensor = torch.ones(1)
    return _fastest(lambda: hvd.allreduce_(tensor, name="one"))


def _through_backend(hvd, torch):
    """The same by torch.distributed."""
    import torch.distributed as dist
    import tutti.torch.backend  # noqa: F401 (a wheel registers it by entry point)

    with tempfile.TemporaryDirectory() as folder:
        path = hvd.broadcast_object(f"{folder}/store", 0)
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        dist.init_process_group("tutti", init_method=f"file://{path}", rank=hvd.rank(),
                                world_size=hvd.size())
        tensor = torch.ones(1)
        found = _fastest(lambda: dist.all_reduce(tensor))
        hvd.barrier()
        dist.destroy_process_group()
    return found


def _start(hvd, torch, rounds=40):
    """What it takes to start a call: by the clock, and of the calling thread's own time."""
    tensors = [torch.ones(1000) for _ in range(STARTS)]
    names = [f"s{i}" for i in range(STARTS)]
    starts, own = [], []
    for _ in range(rounds):
        hvd.barrier()
        begin, burnt = time.perf_counter(), time.thread_time()
        handles = [hvd.allreduce_async_(t, name=n) for n, t in zip(names, tensors)]
        own.append(1e6 * (time.thread_time() - burnt) / STARTS)
        starts.append(1e6 * (time.perf_counter() - begin) / STARTS)
        for handle in handles:
            hvd.synchronize(handle)
    return statistics.median(starts), statistics.median(own)


def _waiting(hvd, torch, rounds):
    """Share of a core that all threads of rank 0 use while it waits for a late peer."""
    tensor, shares = torch.ones(1000), []
    for _ in range(rounds):
        hvd.barrier()
        if hvd.rank() != 0:
            time.sleep(LATE_S)
        begin, burnt = time.perf_counter(), time.process_time()
        hvd.allreduce_(tensor, name="late")
        shares.append(100 * (time.process_time() - burnt) / (time.perf_counter() - begin))
    return statistics.median(shares)


def imports(rounds=7):
    """Milliseconds that `import tutti` takes in a new interpreter."""
    text = ("import time; begin = time.perf_counter(); import tutti; "
            "print(1e3 * (time.perf_counter() - begin))")
    path = os.pathsep.join([sys.path[0], os.environ.get("PYTHONPATH", "")])
    times = [float(subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True,
                                  check=True, env={**os.environ, "PYTHONPATH": path}).stdout)
             for _ in range(rounds)]
    return {"section": "small", "ranks": 1, "import_ms": statistics.median(times)}


def judge(rows, verdicts):
    """Against the targets."""
    wanted = (("one_element_us", "cached all-reduce of one element", "us", 40),
              ("backend_element_us", "one element by torch.distributed.all_reduce", "us", 15),
              ("start_own_us", "starting a call, of its thread's time", "us", 3),
              ("waiting_percent", "waiting for a late peer", "% of a core", 5),
              ("import_ms", "import tutti", "ms", 100))
    for row in rows:
        for key, what, unit, most in wanted:
            # Where ranks outnumber cores a turn of a loop is a turn of the kernel's.
            if key in row and (not key.endswith("element_us") or row["ranks"] <= 2):
                verdicts.add(f"{row['ranks']} ranks: {what}" if key != "import_ms" else what,
                             f"{row[key]:.1f} {unit}", f"at most {most} {unit}", row[key] <= most)


def line(row):
    """A row for people."""
    if "import_ms" in row:
        return f"import tutti {row['import_ms']:.1f} ms"
    waiting = f", waiting {row['waiting_percent']:.2f} %" if "waiting_percent" in row else ""
    backend = f" ({row['backend_element_us']:.1f} us by torch.distributed)" \
        if "backend_element_us" in row else ""
    return (f"{row['ranks']} ranks  one element {row['one_element_us']:.1f} us{backend}, "
            f"start of a call {row['start_us']:.1f} us, of which its thread uses "
            f"{row['start_own_us']:.1f} us"
            f"{waiting}")
