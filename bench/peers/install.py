# SPDX-License-Identifier: Apache-2.0
"""The peers come from Debian's packages, and are installed when a comparison is run; what is not
there afterwards is left out of the comparison, with a word about it."""
import os
import shutil
import subprocess
import sys

PACKAGES = {
    "openmpi": ("openmpi-bin", "libopenmpi-dev", "libucx0"),
    "mpich": ("mpich", "libmpich-dev", "libucx0"),
    "gloo": ("libgloo-dev", "g++"),
    "torch": ("python3-torch",),
    "plot": ("python3-matplotlib",),
}


def is_installed(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package],
                          capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout == "installed"


def install(programs, warn):
    """Packages of these programs that are missing; silent and quick when none is."""
    if not shutil.which("dpkg-query") or not shutil.which("apt-get"):
        warn("not Debian: comparing with what is installed")
        return
    wanted = {package for name in programs for package in PACKAGES.get(name, ())}
    missing = sorted(package for package in wanted if not is_installed(package))
    if not missing:
        return
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    print(f"peers: installing {' '.join(missing)}", file=sys.stderr)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-q"],
                    ["apt-get", "install", "-q", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run([*as_root, *command], env=environment, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        warn(f"apt-get could not install {' '.join(missing)}: "
             f"{(done.stderr.strip().splitlines() or ['no message'])[-1]}")


def python_with(module):
    """A python3 that has the module: this one, else the distribution's; None if neither."""
    for python in (sys.executable, "/usr/bin/python3"):
        done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False,
                              cwd="/")  # where no folder has its name
        if done.returncode == 0:
            return python
    return None
