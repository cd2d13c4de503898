# SPDX-License-Identifier: Apache-2.0
"""One script with `import horovod.torch`, under horovodrun and under tutti run --as-horovod."""
import json
import os
import statistics
import subprocess
import time

from bench.common.shapes import MODELS, module_of

WANTED = 6
TURNS = 2


def rank_main(options, tell):
    """One rank, of whoever horovod.torch is."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    for model in options.models:
        module, plain = module_of(MODELS[model]()), module_of(MODELS[model]())
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(module.parameters(), lr=0.0),
                                             named_parameters=module.named_parameters())
        times = {"alone": [], "with": []}
        for turn in range(-2, options.rounds):
            for name, one, its in (("alone", plain, None), ("with", module, optimizer)):
                hvd.allreduce(torch.ones(1), name="barrier")
                begin = time.perf_counter()
                for p in one.parameters():
                    if p.grad is not None:
                        p.grad.zero_()
                one(1.0).backward()
                if its is not None:
                    its.synchronize()
                mine = torch.tensor([time.perf_counter() - begin])
                slowest = hvd.allgather(mine, name="times").max().item()
                if turn >= 0:
                    times[name].append(slowest)
        if hvd.rank() == 0:
            alone, step = (1e3 * statistics.median(times[name]) for name in ("alone", "with"))
            way = "horovod" if "site-packages" in hvd.__file__ else "tutti as horovod"
            tell(section="horovod", model=model, ranks=hvd.size(), way=way, step_ms=step,
                 exchange_ms=step - alone, times_ms={
                     name: [round(1e3 * each, 2) for each in times[name]] for name in times})
    hvd.shutdown()


def run(options, ranks, python, script, tutti):
    """Rows of both, which take turns; one row for all turns of each."""
    words = [str(python), str(script), "--as-rank", "horovod", "--models",
             ",".join(options.models), "--rounds", str(-(-options.rounds // TURNS))]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    clean["OMP_NUM_THREADS"] = "1"
    merged = {}
    for command in TURNS * ([str(python.parent / "horovodrun"), "-np", str(ranks), "--gloo"],
                            [str(tutti), "run", "-q", "--as-horovod", "-n", str(ranks)]):
        output = subprocess.run([*command, *words], stdout=subprocess.PIPE, text=True, check=True,
                                env=clean).stdout
        for line_ in output.splitlines():
            if "RESULT " in line_:
                row = json.loads(line_.split("RESULT ", 1)[1])
                _merge(merged.setdefault((row["model"], row["way"]), row), row)
    return list(merged.values())


def _merge(into, row):
    """Add another turn's times."""
    times = into["times_ms"]
    if row is not into:
        for name in times:
            times[name] += row["times_ms"][name]
    alone, step = (statistics.median(times[name]) for name in ("alone", "with"))
    into["step_ms"], into["exchange_ms"] = step, step - alone


def judge(rows, verdicts):
    """Ours beside Horovod's of the same model and number of ranks."""
    base = {(row["model"], row["ranks"]): row["exchange_ms"] for row in rows
            if row["way"] == "horovod"}
    for row in rows:
        if row["way"] != "horovod":
            ratio = base[row["model"], row["ranks"]] / max(row["exchange_ms"], 1e-3)
            verdicts.add(f"{row['ranks']} ranks, {row['model']}, one script: over Horovod 0.28.1",
                         f"{ratio:.2f}x", f"at least {WANTED}x", ratio >= WANTED)


def line(row):
    """A row for people."""
    return (f"{row['ranks']} ranks  {row['model']:<9} {row['way']:<37} step "
            f"{row['step_ms']:8.1f} ms  exchange {row['exchange_ms']:8.1f} ms")
