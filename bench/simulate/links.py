# SPDX-License-Identifier: Apache-2.0
"""All-reduces that bench/links has measured between hosts, as rows for validation.

A step of one tensor that is ready at its end: what is exposed of it is the all-reduce. The hosts
are those of steps.py at 1 Gbit/s; ranks of one host share memory. Of several runs the last counts.
"""
import json

from bench.simulate.steps import HERE, PAYLOAD

RESULTS = HERE.parent / "links" / "results" / "2cores.json"
SCENES = {"star": "clusters/shaped-hosts.json", "pairs": "clusters/shaped-pairs.json"}
BYTES_LEAST, BYTES_JUDGED = 64 << 10, 1 << 20
GRAPH_BYTES = 1 << 20  # of graphs/one.tsv
HEAD = {"summary": "All-reduces between hosts over links of 1 Gbit/s, against medians of "
                   "bench/links; shorter ones than 1 MiB pass through the shaper's bucket.",
        "median_percent": 5,
        "defaults": {"figure": "us.exposed", "kind": "predicted", "tolerance_percent": 10,
                     "source": "bench/links/results/2cores.json",
                     "scenario": {"graph": "graphs/one.tsv", "ranks": 4, "strategy": "ddp",
                                  "steps": 5,
                                  "sweep": {"network.bandwidth_gbs": round(0.125 * PAYLOAD, 6)}}}}


def cases():
    found = {}
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("job") == "tutti" and row["scene"] in SCENES and row["bytes"] >= BYTES_LEAST:
            found[row["scene"], row["bytes"]] = row["median_us"]
    return found


def rows():
    for (scene, length), measured in sorted(cases().items()):
        row = {"name": f"{scene}, {length} bytes",
               "scenario": {"cluster": SCENES[scene], "scale-bytes": length / GRAPH_BYTES},
               "expected": measured}
        yield row if length >= BYTES_JUDGED else {**row, "tolerance_percent": "shown"}
