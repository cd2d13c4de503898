# SPDX-License-Identifier: Apache-2.0
"""When a GPU produced and used each gradient: the tables in bench/traces/."""
import pathlib

from bench.common.steps import Step

TRACES = pathlib.Path(__file__).resolve().parents[1] / "traces"


def read_trace(name):
    """A trace; what has no time of its own is used with what stands before it."""
    forward = backward = None
    rows, last_use = [], 0.0
    for line in (TRACES / f"{name}.tsv").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            for word in line.split():
                key, _, value = word.partition("=")
                forward = float(value) if key == "forward_us" else forward
                backward = float(value) if key == "backward_us" else backward
        elif not line.startswith("name\t"):
            _, elements, use, ready = line.split("\t")
            last_use = min(float(use), forward) if use else last_use
            end = forward + backward
            ready = min(max(float(ready), forward), end) if ready else end
            rows.append({"elements": int(elements), "use": last_use, "ready": ready - forward})
    return Step(forward, backward, rows)
