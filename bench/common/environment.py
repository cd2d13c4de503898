# SPDX-License-Identifier: Apache-2.0
"""The virtual environment that has torch."""
import importlib.util
import os
import subprocess
import sys

from bench.common import tree

INSIDE = "BENCH_TORCH_INSIDE"


def enter(script):
    """Go on in it, made first if need be; returns once inside."""
    if os.environ.get(INSIDE):
        return
    environment = tree.BUILD / "python"
    subprocess.run([tree.ROOT / "tools/python-env", environment], check=True)
    os.environ.update({INSIDE: "1", "TUTTI_LIBRARY": str(tree.BUILD / "libtutti.so")})
    python = environment / "bin" / "python"
    os.execv(python, [str(python), str(script), *sys.argv[1:]])


def has_torch():
    return importlib.util.find_spec("torch") is not None
