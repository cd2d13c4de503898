# SPDX-License-Identifier: Apache-2.0
"""What a figure was measured on: processor, caches, memory, kernel, versions."""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import time

CPU = pathlib.Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_bytes():
    """{level: bytes} of the data caches of one core."""
    found = {}
    for index in sorted(CPU.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            size = (index / "size").read_text().strip()
            level = int((index / "level").read_text())
        except (OSError, ValueError):
            continue
        if kind != "Instruction":
            found[level] = int(size[:-1]) * UNITS[size[-1]] if size[-1] in UNITS else int(size)
    return found


def last_cache_bytes():
    return max(cache_bytes().values(), default=32 << 20)


def field(path, pattern):
    try:
        match = re.search(pattern, pathlib.Path(path).read_text(), re.M)
    except OSError:
        return ""
    return match.group(1) if match else ""


def head(bench, **more):
    """The first line of a result: what was measured, on what, and when."""
    return {"bench": bench, "machine": field("/proc/cpuinfo", r"^model name\s*:\s*(.*)$"),
            "cores": len(os.sched_getaffinity(0)),
            "memory": field("/proc/meminfo", r"^MemTotal:\s*(.*)$"), "kernel": platform.release(),
            "tcp": field("/proc/sys/net/ipv4/tcp_congestion_control", r"(\w+)"), **more,
            "time": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime())}


def head_text(head_row):
    """The same for people."""
    return ", ".join(f"{key} {value}" for key, value in head_row.items() if key != "bench")


def package_versions():
    names = ("openmpi-bin", "mpich", "libucx0", "libgloo-dev", "python3-torch")
    if not shutil.which("dpkg-query"):
        return {}
    lines = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *names],
                           capture_output=True, text=True, check=False).stdout.splitlines()
    return dict(line.split() for line in lines if len(line.split()) == 2)


def describe(tutti):
    version = subprocess.run([tutti, "--version"], capture_output=True, text=True, check=False)
    return {"machine": {
        "processor": field("/proc/cpuinfo", r"^model name\s*:\s*(.*)$"),
        "cores": len(os.sched_getaffinity(0)),
        "caches": {f"L{level}": size for level, size in cache_bytes().items()},
        "memory_bytes": int(field("/proc/meminfo", r"^MemTotal:\s*(\d+)") or 0) * 1024,
        "virtual": " hypervisor " in field("/proc/cpuinfo", r"^flags(.*)$") + " ",
        "kernel": platform.release(),
        "huge_pages_shared": field("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
                                   r"\[(\w+)\]"),
        "tcp": field("/proc/sys/net/ipv4/tcp_congestion_control", r"(\w+)"),
        "tutti": version.stdout.strip(),
        "packages": package_versions(),
    }}
