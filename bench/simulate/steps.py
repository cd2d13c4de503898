# SPDX-License-Identifier: Apache-2.0
"""Training steps that bench/schedule has measured over shaped links, computed by tutti simulate.

The speed of the wire is the case's own, as it was measured there by one long sum; all else is one
cluster. Its latency and overhead are those of an all-reduce of 1 KB between four such hosts (88 us
in bench/links, two exchanges). Of several runs of a case the last one counts.
"""
import json
import pathlib
import statistics
import subprocess

from bench.common import tree
from bench.schedule.trace import read_trace

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = sorted((HERE.parent / "schedule" / "results").glob("*.json"))
PAYLOAD = 1448 / 1514  # of a frame of the links
CLUSTER = {"name": "shaped-hosts", "hosts": {"count": 4, "ranks_per_host": 1},
           "network": {"source": "measured", "latency_us": 24, "bandwidth_gbs": 0.03,
                       "head_bytes": 0},
           "processor": {"source": "measured", "overhead_us": 10}}
VARIANTS = {"plain": [], "both": ["--cross"]}
SETTINGS = ["--chunk", "64K", "--fuse", "16K"]
MEDIAN_MOST, WORST_MOST = 0.05, 0.10


HEAD = (f"{'machine':<12}{'trace':<18}{'rho':<6}{'':<7}{'measured':>10}{'computed':>10}"
        f"{'error':>10}   (ms)")


def cases():
    """The last row of each machine and case."""
    found = {}
    for path in RESULTS:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row.get("section") == "ablation":
                found[path.stem, row["trace"], row["rho"]] = row
    return found


def write_trace(row, path):
    """The step of a case: times stretched, sizes shrunk. Returns the speed of a link in GB/s."""
    payload_a_us = row["mbit"] / 8 * PAYLOAD
    byte_us = 1.5 / payload_a_us / row["wire_share"]
    step = read_trace(row["trace"]).scaled(row["compute_us"],
                                           row["rho"] * row["compute_us"] / byte_us)
    lines = [f"# model={row['trace']}",
             f"# forward_us={step.forward_us} backward_us={step.backward_us}",
             "name\telements\tfirst_use_us\tready_us"]
    lines += [f"t{i}\t{one['elements']}\t{one['use']:.3f}\t{step.forward_us + one['ready']:.3f}"
              for i, one in enumerate(step.rows)]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return payload_a_us * row["wire_share"] / 1000


def compute(row, variant, folder):
    """Microseconds of a step."""
    rate = write_trace(row, folder / "step.tsv")
    output, cluster = folder / "step.json", folder / "cluster.json"
    cluster.write_text(json.dumps(CLUSTER), encoding="utf-8")
    words = [tree.TUTTI, "simulate", "--graph", folder / "step.tsv", "--ranks", 4, "--cluster",
             cluster, "--sweep", f"network.bandwidth_gbs={rate:.6f}", "--steps", 8,
             "--json", output, *SETTINGS, *VARIANTS[variant]]
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL,
                   timeout=60)
    return json.loads(output.read_text(encoding="utf-8"))["us"]["step"]


def measure(folder):
    """A row for each machine, case and variant."""
    for (machine, trace, rho), row in cases().items():
        for variant in VARIANTS:
            computed, measured = compute(row, variant, folder), row["median_us"][variant]
            yield {"section": "steps", "machine": machine, "trace": trace, "rho": rho,
                   "variant": variant, "measured_us": measured, "computed_us": round(computed),
                   "error": round(computed / measured - 1, 4)}


def show(row):
    print(f"{row['machine']:<12}{row['trace']:<18}{row['rho']:<6g}{row['variant']:<7}"
          f"{row['measured_us'] / 1e3:>10.1f}{row['computed_us'] / 1e3:>10.1f}"
          f"{100 * row['error']:>+8.1f} %", flush=True)


def judge(found, kept):
    errors = [abs(row["error"]) for row in found]
    worst = max(found, key=lambda row: abs(row["error"]))
    kept.add(f"{len(found)} measured steps, median error",
             f"{100 * statistics.median(errors):.1f} %", f"at most {100 * MEDIAN_MOST:g} %",
             statistics.median(errors) <= MEDIAN_MOST)
    kept.add(f"worst: {worst['trace']}, rho {worst['rho']:g}, {worst['variant']}, "
             f"{worst['machine']}", f"{100 * worst['error']:+.1f} %",
             f"within {100 * WORST_MOST:g} %", abs(worst["error"]) <= WORST_MOST)
