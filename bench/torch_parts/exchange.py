# SPDX-License-Identifier: Apache-2.0
"""Gradient exchange beside torch's own Gloo: every way by turns in the same processes."""
import os
import pathlib
import statistics
import sys
import time

from .shapes import MODELS, module_of

WANTED = {"tutti, DDP hook": 2, "tutti, optimizer": 1.5, "tutti, optimizer, arena": 3}


class Ways:
    """The ways of exchanging gradients, each on its own copy of the model."""

    def __init__(self, shapes):
        import torch
        import tutti.torch as hvd

        self.torch, self.hvd = torch, hvd
        parallel = torch.nn.parallel.DistributedDataParallel
        gloo = torch.distributed.new_group(backend="gloo")
        ours = torch.distributed.new_group(backend="tutti")
        hooked = parallel(module_of(shapes), process_group=gloo)
        hooked.register_comm_hook(None, hvd.ddp_hook)
        plain, dropped, arena, foreign = (module_of(shapes) for _ in range(4))
        self.steps = {
            "alone": self._step(plain),
            "alone, gradients dropped": self._step(dropped, None, True),
            "gloo": self._step(parallel(module_of(shapes), process_group=gloo)),
            "tutti, DDP backend": self._step(parallel(module_of(shapes), process_group=ours)),
            "tutti, DDP hook": self._step(hooked),
            "tutti, optimizer": self._step(foreign, self._optimizer(foreign, "f"), True),
            "tutti, optimizer, arena": self._step(arena, self._optimizer(arena, "a")),
        }

    def _optimizer(self, module, prefix):
        pairs = [(f"{prefix}.{name}", p) for name, p in module.named_parameters()]
        return self.hvd.DistributedOptimizer(
            self.torch.optim.SGD(module.parameters(), lr=0.0), pairs)

    def _step(self, module, optimizer=None, drops=False):
        def step():
            module.zero_grad(set_to_none=drops)
            module(1.0).backward()
            if optimizer is not None:
                optimizer.synchronize()

        return step


def fits(model, ranks):
    """Is there memory for parameters, gradients and buckets of all ways, on all ranks?"""
    total = 0
    for shape in MODELS[model]():
        count = 4
        for extent in shape:
            count *= extent
        total += count
    needs = total * ranks * (2 * 7 + 3 + 2) / 2**30
    text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
    has = int(text.split("MemAvailable:")[1].split()[0]) / 2**20
    if needs > 0.9 * has:
        print(f"bench/torch: {model} at {ranks} ranks left out: it needs {needs:.0f} GiB, "
              f"{has:.0f} are free", file=sys.stderr)
    return needs <= 0.9 * has


def rank_main(options, tell):
    """One rank; rank 0 tells the results."""
    import torch
    import tutti.torch as hvd
    import tutti.torch.backend  # noqa: F401

    hvd.init()
    store = hvd.broadcast_object(f"/tmp/tutti-bench-torch.{os.getpid()}", 0)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}",
                                         rank=hvd.rank(), world_size=hvd.size())
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    for model in options.models:
        times = _rounds(hvd, Ways(MODELS[model]()).steps, options.rounds)
        for name, samples in times.items() if hvd.rank() == 0 else ():
            same = "alone, gradients dropped" if name == "tutti, optimizer" else "alone"
            less = [a - b for a, b in zip(samples, times[same])]
            tell(section="exchange", model=model, ranks=hvd.size(), way=name,
                 step_ms=1e3 * statistics.median(samples),
                 exchange_ms=1e3 * (statistics.median(samples) - statistics.median(times[same])),
                 rounds_ms=[round(1e3 * each, 2) for each in less])
    torch.distributed.destroy_process_group()
    hvd.shutdown()


def _rounds(hvd, steps, rounds):
    """By way, the slowest rank's times; each round begins with another way."""
    times = {name: [] for name in steps}
    names = list(steps)
    for turn in range(-2, rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            hvd.barrier()
            begin = time.perf_counter()
            steps[name]()
            mine = time.perf_counter() - begin
            slowest = max(hvd.allgather_object(mine))
            if turn >= 0:
                times[name].append(slowest)
    return times


def judge(rows, verdicts):
    """Each way beside Gloo's of the same model and number of ranks."""
    base = {(row["model"], row["ranks"]): row["exchange_ms"] for row in rows
            if row["way"] == "gloo"}
    for row in rows:
        if row["way"].startswith("tutti"):
            ratio = base[row["model"], row["ranks"]] / max(row["exchange_ms"], 1e-3)
            wanted = WANTED.get(row["way"], 1)
            verdicts.add(f"{row['ranks']} ranks, {row['model']}, {row['way']}: over DDP with Gloo",
                         f"{ratio:.2f}x", f"at least {wanted}x", ratio >= wanted)


def line(row):
    """A row for people."""
    return (f"{row['ranks']} ranks  {row['model']:<9} {row['way']:<24} step "
            f"{row['step_ms']:8.1f} ms  exchange {row['exchange_ms']:8.1f} ms")
