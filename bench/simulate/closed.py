# SPDX-License-Identifier: Apache-2.0
"""A step of ResNet-50 on 27,600 ranks of Summit by formula, in each mode of agreeing: time and
memory from exec to exit, the best of five; beside it the step that comes out."""
import json
import os
import time

from bench.common import tree

MODES = [("plan", "tutti"), ("original", "horovod"), ("cached", "horovod-cached")]
RANKS, ROUNDS = 27600, 5
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


def measure(folder):
    path = folder / "row.json"
    for mode, strategy in MODES:
        found = [run(strategy, path) for _ in range(ROUNDS)]
        us = json.loads(path.read_text(encoding="utf-8"))["us"]
        yield {"section": "closed", "mode": mode, "strategy": strategy, "ranks": RANKS,
               "seconds": min(found)[0], "memory_bytes": max(one[1] for one in found),
               "step_us": us["step"], "agreement_us": us["agreement"]}


def show(row):
    print(f"{row['mode']:<10}{row['strategy']:<17}{row['seconds']:>9.3f}"
          f"{row['memory_bytes'] / 2**20:>7.1f}{row['step_us'] / 1000:>11.3f}"
          f"{row['agreement_us'] / 1000:>11.3f}", flush=True)


def judge(found, kept):
    for row in found:
        kept.add(f"{row['ranks']} ranks, {row['mode']}: exec to exit", f"{row['seconds']:.2f} s",
                 f"at most {SECONDS_MOST:g}", row["seconds"] <= SECONDS_MOST)
        kept.add(f"{row['ranks']} ranks, {row['mode']}: memory",
                 f"{row['memory_bytes'] / 2**20:.1f} MiB", f"at most {BYTES_MOST >> 20}",
                 row["memory_bytes"] <= BYTES_MOST)
