# SPDX-License-Identifier: Apache-2.0
"""Training steps that bench/schedule has measured over shaped links, as rows for validation.

The speed of the wire is the case's own, as it was measured there by one long sum; all else is one
cluster. Of several runs of a case the last one counts.
"""
import json
import pathlib

from bench.schedule.trace import read_trace

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = sorted((HERE.parent / "schedule" / "results").glob("*.json"))
PAYLOAD = 1448 / 1514  # of a frame of the links
VARIANTS = {"plain": {}, "both": {"cross": True}}
HEAD = {"summary": "Training steps of four hosts over shaped links, with and without crossing, "
                   "against medians of bench/schedule.",
        "median_percent": 5,
        "defaults": {"figure": "us.step", "kind": "predicted", "tolerance_percent": 10,
                     "assumption": "the wire is as fast as one long sum of the case",
                     "scenario": {"cluster": "clusters/shaped-hosts.json", "ranks": 4,
                                  "chunk": "64K", "fuse": "16K", "steps": 8}}}


def cases():
    """The last row of each machine and case."""
    found = {}
    for path in RESULTS:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row.get("section") == "ablation":
                found[path.stem, row["trace"], row["rho"]] = row
    return found


def scenario(row, variant):
    """The step of a case: times stretched, sizes shrunk."""
    payload_a_us = row["mbit"] / 8 * PAYLOAD
    byte_us = 1.5 / payload_a_us / row["wire_share"]
    step = read_trace(row["trace"])
    total = row["rho"] * row["compute_us"] / byte_us
    rate = payload_a_us * row["wire_share"] / 1000
    return {"graph": f"../traces/{row['trace']}.tsv",
            "scale-time": float(f"{row['compute_us'] / step.compute_us:.9g}"),
            "scale-bytes": float(f"{total / step.bytes():.9g}"),
            "sweep": {"network.bandwidth_gbs": float(f"{rate:.6g}")}, **VARIANTS[variant]}


def rows():
    for (machine, trace, rho), row in cases().items():
        for variant in VARIANTS:
            yield {"name": f"{trace}, rho {rho:g}, {variant}, {machine}",
                   "scenario": scenario(row, variant), "expected": row["median_us"][variant],
                   "source": f"bench/schedule/results/{machine}.json"}
