# SPDX-License-Identifier: Apache-2.0
"""Gradient exchange beside torch's own Gloo: every way by turns in the same processes."""
import math
import os
import pathlib
import statistics
import sys
import time

from bench.common.rounds import in_turn
from bench.common.shapes import MODELS, module_of

ALONE, DROPPED, GLOO, GLOO_VIEWS = ("alone", "alone, gradients dropped", "gloo",
                                    "gloo, gradients in buckets")
BACKEND, HOOK, HOOK_VIEWS = ("tutti, DDP backend", "tutti, DDP hook",
                             "tutti, DDP hook, gradients in buckets")
HOOK_DROPPED = "tutti, DDP hook, gradients dropped"
OWN, ARENA = "tutti, optimizer", "tutti, optimizer, arena"
WANTED = {HOOK: 2, HOOK_VIEWS: 2, OWN: 1.5, ARENA: 3}
# At most so many times as long as DDP with Tutti's hook where the loop treats gradients alike.
HOOK_OF, OVER_HOOK = {OWN: HOOK_DROPPED, ARENA: HOOK}, 1.3
# What a way is compared with: DDP with Gloo and the same options.
BESIDE = {HOOK_VIEWS: GLOO_VIEWS}
# Parameters, gradients and DDP's buckets of a way: so many copies of the model.
COPIES = {ALONE: 2, DROPPED: 0, GLOO: 3, GLOO_VIEWS: 2, BACKEND: 3, HOOK: 3, HOOK_VIEWS: 2,
          HOOK_DROPPED: 2, OWN: 2, ARENA: 2}
# DDP rebuilds its buckets in its second step.
WARM_TURNS = 4
SPARE_COPIES = 2  # what backward makes, and what is formed anew before the old is gone


class Ways:
    """Some of the ways of exchanging gradients, each on its own copy of the model; those without
    exchange share one."""

    def __init__(self, shapes, names):
        import torch
        import tutti.torch as hvd

        self.torch, self.hvd, self.shapes = torch, hvd, shapes
        gloo = torch.distributed.new_group(backend="gloo")
        ours = torch.distributed.new_group(backend="tutti")
        plain = module_of(shapes)
        make = {
            ALONE: lambda: self._step(plain),
            DROPPED: lambda: self._step(plain, None, True),
            GLOO: lambda: self._step(self._parallel(gloo)),
            GLOO_VIEWS: lambda: self._step(self._parallel(gloo, views=True)),
            BACKEND: lambda: self._step(self._parallel(ours)),
            HOOK: lambda: self._step(self._parallel(gloo, hvd.ddp_hook)),
            HOOK_VIEWS: lambda: self._step(self._parallel(gloo, hvd.ddp_hook, True)),
            HOOK_DROPPED: lambda: self._step(self._parallel(gloo, hvd.ddp_hook, True), None, True),
            OWN: lambda: self._optimized("f", True),
            ARENA: lambda: self._optimized("a", False),
        }
        self.steps = {name: make[name]() for name in names}

    def _parallel(self, group, hook=None, views=False):
        model = self.torch.nn.parallel.DistributedDataParallel(
            module_of(self.shapes), process_group=group, gradient_as_bucket_view=views)
        if hook is not None:
            model.register_comm_hook(None, hook)
        return model

    def _optimized(self, prefix, drops):
        module = module_of(self.shapes)
        pairs = [(f"{prefix}.{name}", p) for name, p in module.named_parameters()]
        optimizer = self.hvd.DistributedOptimizer(
            self.torch.optim.SGD(module.parameters(), lr=0.0), pairs)
        return self._step(module, optimizer, drops)

    def _step(self, module, optimizer=None, drops=False):
        def step():
            module.zero_grad(set_to_none=drops)
            module(1.0).backward()
            if optimizer is not None:
                optimizer.synchronize()

        return step


def parts(model, ranks):
    """The ways in lists for which there is memory on all ranks, each beside Gloo."""
    total = 4 * sum(math.prod(shape) for shape in MODELS[model]())
    text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
    has = 0.9 * 1024 * int(text.split("MemAvailable:")[1].split()[0])

    def fit(names):
        return total * ranks * (sum(map(COPIES.get, names)) + SPARE_COPIES) <= has

    found = []
    for name in [name for name in COPIES if name.startswith("tutti")]:
        needs = [ALONE, DROPPED, BESIDE.get(name, GLOO), *filter(None, [HOOK_OF.get(name)]), name]
        if found and fit({*found[-1], *needs}):
            found[-1] += [each for each in needs if each not in found[-1]]
        elif fit(needs):
            found.append(needs)
        else:
            print(f"bench/torch/run: {model} at {ranks} ranks, {name}: left out, "
                  f"{has / 2**30:.0f} GiB are not enough", file=sys.stderr)
    return found


def rank_main(options, tell):
    """One rank; rank 0 prints the results."""
    import torch
    import tutti.torch as hvd
    import tutti.torch.backend  # noqa: F401

    hvd.init()
    store = hvd.broadcast_object(f"/tmp/tutti-bench-torch.{os.getpid()}", 0)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}",
                                         rank=hvd.rank(), world_size=hvd.size())
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    for model in options.models:
        times = _rounds(hvd, Ways(MODELS[model](), options.ways).steps, options.rounds)
        for name, samples in times.items() if hvd.rank() == 0 else ():
            same = DROPPED if name in (DROPPED, OWN, HOOK_DROPPED) else ALONE
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
    for turn in range(-WARM_TURNS, rounds):
        for name in in_turn(names, turn):
            hvd.barrier()
            begin = time.perf_counter()
            steps[name]()
            mine = time.perf_counter() - begin
            slowest = max(hvd.allgather_object(mine))
            if turn >= 0:
                times[name].append(slowest)
    return times


def _judge_beside_hook(rows, verdicts):
    """The optimizer beside the hook, both as whole steps less those without exchange."""
    by_way = {(row["model"], row["ranks"], row["way"]): row for row in rows}
    for (model, ranks, way), row in by_way.items():
        hook = by_way.get((model, ranks, HOOK_OF.get(way)))
        if hook is not None:
            ratio = row["exchange_ms"] / max(hook["exchange_ms"], 1e-3)
            verdicts.add(f"{ranks} ranks, {model}, {way}: beside {hook['way']}", f"{ratio:.2f}x",
                         f"at most {OVER_HOOK}x", ratio <= OVER_HOOK)


def judge(rows, verdicts):
    """Each way beside Gloo's of the same model and number of ranks."""
    _judge_beside_hook(rows, verdicts)
    for number, row in enumerate(rows):
        if row["way"].startswith("tutti"):
            beside = BESIDE.get(row["way"], GLOO)
            key = (row["model"], row["ranks"], beside)
            # Of the same run: where ways took turns in parts, each has one of its own.
            base = next(each["exchange_ms"] for each in reversed(rows[:number])
                        if (each["model"], each["ranks"], each["way"]) == key)
            ratio = base / max(row["exchange_ms"], 1e-3)
            wanted = WANTED.get(row["way"], 1)
            verdicts.add(f"{row['ranks']} ranks, {row['model']}, {row['way']}: over DDP with "
                         f"{beside.capitalize()}", f"{ratio:.2f}x", f"at least {wanted}x",
                         ratio >= wanted)


def line(row):
    """A row for people."""
    return (f"{row['ranks']} ranks  {row['model']:<9} {row['way']:<37} step "
            f"{row['step_ms']:8.1f} ms  exchange {row['exchange_ms']:8.1f} ms")
