# SPDX-License-Identifier: Apache-2.0
"""Files of rows for tutti simulate --validate, from results of other benchmarks."""
import json
import pathlib

from bench.simulate import links, steps

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "validation"
SECTIONS = {"own-links.json": links, "own-steps.json": steps}


def text(section):
    """A row on a line."""
    head = json.dumps(section.HEAD, indent=2)
    rows = ",\n".join("    " + json.dumps(row) for row in section.rows())
    return f"{head[:-2]},\n  \"rows\": [\n{rows}\n  ]\n}}\n"


def write():
    for name, section in SECTIONS.items():
        (FOLDER / name).write_text(text(section), encoding="utf-8")
