# SPDX-License-Identifier: Apache-2.0
"""The section of machines: frames per second of processor time of whole ranks on a modelled
network, what they hold, and the seconds of a ResNet50 step by name. The best round counts for the
targets, because other programs on a machine only take away."""

import json
import subprocess

from bench.common import tree

HEAD = (f"{'ranks':>7}  {'algorithm':<9}{'bytes':>8}{'frames':>10}{'best M/s':>9}{'median':>9}"
        f"{'KiB/rank':>9}{'end us':>11}")
CASES = [(ranks, algorithm, 65536) for ranks in (64, 256) for algorithm in
         ("ring", "direct", "halving")] + [(2048, "ring", 65536), (2048, "halving", 65536)]
ROUNDS = {64: 15, 256: 7, 2048: 2}
STEP_RANKS = 256
RATES = {64: 1e6, 256: 1e6, 2048: 4e5}  # frames per second
LARGE_BYTES = 512 << 10                 # of a rank, of 2048


def run(*words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True,
                          check=True, timeout=300)
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(_folder):
    for case in CASES:
        yield from run(tree.BIN / "bench-simulate-machines", *case, ROUNDS[case[0]])
    yield run(tree.BIN / "bench-simulate-step", STEP_RANKS, 2)[-1]


def show(row):
    if "step" in row:
        print(f"{row['ranks']:>7}  a ResNet50 step by name: {row['seconds']:.2f} s, "
              f"{row['frames']} frames, {row['frames_per_second'] / 1e6:.2f} M/s, "
              f"{row['bytes_per_rank'] / 1024:.0f} KiB a rank", flush=True)
        return
    print(f"{row['ranks']:>7}  {row['algorithm']:<9}{row['bytes']:>8}{row['frames']:>10}"
          f"{row['frames_per_second'] / 1e6:>9.2f}{row['median_frames_per_second'] / 1e6:>9.2f}"
          f"{row['bytes_per_rank'] / 1024:>9.0f}{row['end_us']:>11.1f}", flush=True)


def judge(found, kept):
    rounds = [row for row in found if "step" not in row]
    for ranks, wanted in RATES.items():
        worst = min((row for row in rounds if row["ranks"] == ranks),
                    key=lambda row: row["frames_per_second"])
        rate = worst["frames_per_second"]
        kept.add(f"machines of {ranks} ranks, slowest: {worst['algorithm']}",
                 f"{rate / 1e6:.2f} M frames/s", f"{wanted / 1e6:g}", rate >= wanted)
    held = max(row["bytes_per_rank"] for row in rounds if row["ranks"] == 2048)
    kept.add("machines of 2048 ranks, memory", f"{held / 1024:.0f} KiB a rank",
             f"at most {LARGE_BYTES >> 10}", held <= LARGE_BYTES)
