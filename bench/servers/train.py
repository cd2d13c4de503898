# SPDX-License-Identifier: Apache-2.0
"""Loss of a small network under bulk and stale:3 at equal steps; workers drift apart.

With a small learning rate weights change little in three iterations, and even async ends as bulk
does: such a rate tests nothing. So a large one, at which orders of updates matter, is judged
beside it, and async is shown as a control. stale:0 must have the bits of bulk."""
import statistics

from bench.servers.ranks import Job

WORKERS, SERVERS = 4, 2
RATES, EXP_US = (0.2, 2), 3e3
POLICIES = ("bulk", "stale:0", "stale:3", "async")


def run(bench):
    steps, seeds = (100, 1) if bench.quick else (1000, 3)
    job = Job("train", WORKERS, SERVERS, bench.folder, "bench-servers-train")
    try:
        job.begin()
        for rate in RATES:
            losses = {policy: [] for policy in POLICIES}
            for seed in range(1, seeds + 1):
                for policy in POLICIES:
                    job.ask(f"store {policy} sgd:lr={rate}")
                    before, after = job.ask(f"train {steps} {seed} {EXP_US}")[0]
                    losses[policy].append(after)
            bench.record(section="train", steps=steps, rate=rate, workers=WORKERS,
                         servers=SERVERS, first_loss=before, losses=losses)
            print(f"train, lr {rate}, {steps} steps: loss {before:.3f} at first; " + ", ".join(
                f"{name} {statistics.mean(found):.6f}" for name, found in losses.items()),
                flush=True)
    finally:
        job.end()


def judge(bench, rows):
    for row in rows:
        mean = {name: statistics.mean(found) for name, found in row["losses"].items()}
        worst = max(abs(stale / bulk - 1) for stale, bulk in
                    zip(row["losses"]["stale:3"], row["losses"]["bulk"]))
        name = f"train, lr {row['rate']}, {row['steps']} steps"
        bench.verdicts.add(f"{name}: loss of stale:3 over bulk's",
                           f"{mean['stale:3'] / mean['bulk']:.5f}, of one seed off by at most "
                           f"{100 * worst:.2f} % (async {mean['async'] / mean['bulk']:.5f})",
                           "at most 1.02", mean["stale:3"] <= 1.02 * mean["bulk"])
        bench.verdicts.add(f"{name}: stale:0 has the loss of bulk",
                           "yes" if row["losses"]["stale:0"] == row["losses"]["bulk"] else "no",
                           "yes", row["losses"]["stale:0"] == row["losses"]["bulk"])
