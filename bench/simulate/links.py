# SPDX-License-Identifier: Apache-2.0
"""All-reduces that bench/links has measured between hosts, computed by tutti simulate.

A step of one tensor that is ready at its end: what is exposed of it is the all-reduce. The hosts
are those of steps.py at 1 Gbit/s; ranks of one host share memory. Of several runs the last counts.
"""
import json
import pathlib
import statistics
import subprocess

from bench.common import tree
from bench.simulate.steps import CLUSTER, HERE, PAYLOAD

RESULTS = HERE.parent / "links" / "results" / "2cores.json"
SCENES = {"star": {"count": 4, "ranks_per_host": 1}, "pairs": {"count": 2, "ranks_per_host": 2}}
BYTES_LEAST = 64 << 10
WORST_MOST = 0.10
MEMORY = {"local": {"latency_us": 0.5, "bandwidth_gbs": 10},
          "memory": {"bandwidth_gbs": 20}}
HEAD = f"{'scene':<8}{'bytes':>10}{'measured':>12}{'computed':>10}{'error':>10}   (ms)"


def cases():
    found = {}
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("job") == "tutti" and row["scene"] in SCENES and row["bytes"] >= BYTES_LEAST:
            found[row["scene"], row["bytes"]] = row["median_us"]
    return found


def compute(scene, length, folder):
    """Microseconds of an all-reduce."""
    network = {**CLUSTER["network"], "bandwidth_gbs": 0.125 * PAYLOAD}
    cluster = {**CLUSTER, **MEMORY, "hosts": SCENES[scene], "network": network}
    files = {name: folder / name for name in ("cluster.json", "one.tsv", "one.json")}
    files["cluster.json"].write_text(json.dumps(cluster), encoding="utf-8")
    files["one.tsv"].write_text(
        "# model=one\n# forward_us=1 backward_us=1\nname\telements\tfirst_use_us\tready_us\n"
        f"t\t{length // 4}\t0\t2\n", encoding="ascii")
    words = [tree.TUTTI, "simulate", "--graph", files["one.tsv"], "--ranks", 4, "--cluster",
             files["cluster.json"], "--strategy", "ddp", "--steps", 5, "--json", files["one.json"]]
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL,
                   timeout=60)
    return json.loads(files["one.json"].read_text(encoding="utf-8"))["us"]["exposed"]


def measure(folder):
    for (scene, length), measured in cases().items():
        computed = compute(scene, length, pathlib.Path(folder))
        yield {"section": "links", "scene": scene, "bytes": length, "measured_us": measured,
               "computed_us": round(computed, 1), "error": round(computed / measured - 1, 4)}


def show(row):
    print(f"{row['scene']:<8}{row['bytes']:>10}{row['measured_us'] / 1e3:>12.2f}"
          f"{row['computed_us'] / 1e3:>10.2f}{100 * row['error']:>+8.1f} %", flush=True)


def judge(found, kept):
    worst = max(found, key=lambda row: abs(row["error"]))
    median = statistics.median(abs(row["error"]) for row in found)
    kept.add(f"{len(found)} measured all-reduces, worst: {worst['scene']}, {worst['bytes']} bytes",
             f"{100 * worst['error']:+.1f} % (median {100 * median:.1f} %)",
             f"within {100 * WORST_MOST:g} %", abs(worst["error"]) <= WORST_MOST)
