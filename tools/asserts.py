#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the asserts per function of each folder of src/, without tests.

usage: asserts.py [--files] [root]      --files: also per file.

Exits 1 when a folder has fewer per function than FLOOR.
"""
import pathlib
import re
import sys

import tidy

FLOOR = {"src/control": 0.7, "src/aggregate": 0.7}
ASSERT = re.compile(r"\bTT_(?:DEBUG_)?ASSERT\s*\(")


def count(path, root):
    """Functions that a file defines, and asserts in their bodies."""
    source = tidy.Source(path, path.relative_to(root).as_posix())
    bodies = [body for _, _, body, _ in source.functions]
    return len(bodies), sum(len(ASSERT.findall(body)) for body in bodies)


def say(name, functions, asserts):
    print(f"{name:44} {functions:5} functions {asserts:5} asserts "
          f"{asserts / max(functions, 1):5.2f}")


def main(arguments):
    names = [argument for argument in arguments[1:] if argument != "--files"]
    root = pathlib.Path(names[0] if names else ".").resolve()
    too_few = []
    for folder in sorted(path for path in (root / "src").iterdir() if path.is_dir()):
        functions = asserts = 0
        for path in sorted(folder.rglob("*.[ch]")):
            if not path.name.endswith("_test.c"):
                found = count(path, root)
                functions, asserts = functions + found[0], asserts + found[1]
                if "--files" in arguments and found[0] > 0:
                    say("  " + path.relative_to(root).as_posix(), *found)
        name = folder.relative_to(root).as_posix()
        say(name, functions, asserts)
        if asserts < FLOOR.get(name, 0) * functions:
            too_few.append(name)
    for name in too_few:
        print(f"{name}: fewer than {FLOOR[name]} asserts per function")
    return 1 if too_few else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
