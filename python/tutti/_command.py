# SPDX-License-Identifier: Apache-2.0
"""The `tutti` command of an installed wheel: the C program beside the library."""

import os
import pathlib
import sys


def main() -> None:
    """Replace this process by the packaged program."""
    program = pathlib.Path(__file__).resolve().parent / "bin" / "tutti"
    if not program.exists():
        sys.exit(f"tutti: {program} is missing; the wheel is incomplete, install it again")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
