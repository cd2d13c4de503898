# SPDX-License-Identifier: Apache-2.0
"""A step of ResNet-50 on 27,600 ranks of Summit by formula, in each mode of agreeing: time and
memory from exec to exit, the best of five; beside it the step that comes out. Then how long the
network is busy in a step on each known cluster, by formula and walked."""
import json
import os
import statistics
import subprocess
import time

from bench.common import tree

MODES = [("plan", "tutti"), ("original", "horovod"), ("cached", "horovod-cached")]
CLUSTERS = "summit,ethernet-10g,ethernet-25g,ethernet-100g,dgx1-v100,dgx2,dgx-a100"
RANKS, ROUNDS = 27600, 5
ERROR_MOST = 0.05
SECONDS_MOST, BYTES_MOST = 1.0, 256 << 20

HEAD = f"{'mode':<10}{'strategy':<17}{'seconds':>9}{'MiB':>7}{'step ms':>11}{'agreement':>11}"


def run(strategy, path):
    """Seconds and bytes of one process."""
    words = [str(tree.TUTTI), "simulate", "-g", "resnet50", "--cluster", "summit", "-n", str(RANKS),
             "--strategy", strategy, "--depth", "closed", "--json", str(path)]
    begin = time.monotonic()
    pid = os.posix_spawn(words[0], words, os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise RuntimeError(" ".join(words) + f" ended with status {status}")
    return time.monotonic() - begin, usage.ru_maxrss * 1024


def compare(path):
    """The same job at both depths: rho is the time of its all-reduces, one after the other as ddp
    makes them, over that of computation; buckets of 256 KiB are of many lengths."""
    words = [str(tree.TUTTI), "simulate", "-g", "resnet50", "--steps", "1", "--strategy", "ddp",
             "--engine", "tutti", "--chunk", "256K", "--json", str(path)]
    for axis in (f"cluster={CLUSTERS}", "ranks=64,256,768,2048", "depth=moves,closed"):
        words += ["--sweep", axis]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for moves, closed in zip(found[::2], found[1::2]):
        rho = [row["metrics"]["rho"] for row in (moves, closed)]
        yield {"section": "depths", "cluster": moves["cluster"], "ranks": moves["ranks"],
               "moves_rho": rho[0], "closed_rho": rho[1], "error": rho[1] / rho[0] - 1}


def measure(folder):
    path = folder / "row.json"
    for mode, strategy in MODES:
        found = [run(strategy, path) for _ in range(ROUNDS)]
        us = json.loads(path.read_text(encoding="utf-8"))["us"]
        yield {"section": "closed", "mode": mode, "strategy": strategy, "ranks": RANKS,
               "seconds": min(found)[0], "memory_bytes": max(one[1] for one in found),
               "step_us": us["step"], "agreement_us": us["agreement"]}
    yield from compare(path)


def show(row):
    if row["section"] == "depths":
        print(f"{row['cluster']:<15}{row['ranks']:>6} ranks: rho {row['moves_rho']:.4f} walked, "
              f"{row['closed_rho']:.4f} closed, {row['error']:+.2%}", flush=True)
        return
    print(f"{row['mode']:<10}{row['strategy']:<17}{row['seconds']:>9.3f}"
          f"{row['memory_bytes'] / 2**20:>7.1f}{row['step_us'] / 1000:>11.3f}"
          f"{row['agreement_us'] / 1000:>11.3f}", flush=True)


def judge(found, kept):
    errors = [abs(row["error"]) for row in found if row["section"] == "depths"]
    kept.add("closed against moves, steps of known clusters",
             f"median {statistics.median(errors):.1%}, worst {max(errors):.1%}",
             f"worst {ERROR_MOST:.0%}", max(errors) <= ERROR_MOST)
    for row in [one for one in found if one["section"] == "closed"]:
        kept.add(f"{row['ranks']} ranks, {row['mode']}: exec to exit", f"{row['seconds']:.2f} s",
                 f"at most {SECONDS_MOST:g}", row["seconds"] <= SECONDS_MOST)
        kept.add(f"{row['ranks']} ranks, {row['mode']}: memory",
                 f"{row['memory_bytes'] / 2**20:.1f} MiB", f"at most {BYTES_MOST >> 20}",
                 row["memory_bytes"] <= BYTES_MOST)
