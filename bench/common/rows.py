# SPDX-License-Identifier: Apache-2.0
"""Rows of a result: one JSON object per line."""
import json
import pathlib


def write(path, rows, mode="w"):
    """Nowhere if there is no path: --json was not given."""
    if path:
        with open(path, mode, encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def read(paths):
    return [json.loads(line) for path in paths
            for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
