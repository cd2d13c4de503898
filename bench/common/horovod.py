# SPDX-License-Identifier: Apache-2.0
"""A Python that has Horovod 0.28.1, to run it beside us."""
import os
import subprocess
import sys

HEADERS = "/usr/include/torch/csrc/api/include"
OPTIONS = {"HOROVOD_WITH_PYTORCH": "1", "HOROVOD_WITH_GLOO": "1", "HOROVOD_WITHOUT_MPI": "1",
           "HOROVOD_WITHOUT_TENSORFLOW": "1", "HOROVOD_WITHOUT_MXNET": "1"}


def is_in(python):
    """Whether this Python can import it."""
    try:
        subprocess.run([python, "-c", "import horovod.torch"], check=True, cwd="/",
                       stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def install(folder):
    """The Python of a virtual environment that has Horovod, built there first if need be, beside
    the distribution's torch: it no longer builds beside today's. None if that fails; says why."""
    python = folder / "bin" / "python"
    if is_in(python):
        return python
    print(f"Horovod 0.28.1 is built beside the distribution's torch, in {folder} (minutes)",
          flush=True)
    try:
        subprocess.run(["/usr/bin/python3", "-c", "import torch"], check=True, cwd="/")
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--system-site-packages", folder],
                       check=True)
        pip = [python, "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "setuptools<81", "wheel", "cmake<4", "pybind11", "packaging"],
                       check=True)
        found = subprocess.run([python, "-c", "import pybind11; print(pybind11.get_include())"],
                               check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        subprocess.run([*pip, "--no-build-isolation", "--no-binary", "horovod", "horovod==0.28.1"],
                       check=True, env={**os.environ, **OPTIONS, "CPATH": f"{HEADERS}:{found}"})
    except (OSError, subprocess.CalledProcessError) as problem:
        print(f"Horovod cannot be built here ({problem}); it needs python3-torch and libtorch-dev "
              "of the distribution, a compiler, and Python's package index", file=sys.stderr)
        return None
    return python
