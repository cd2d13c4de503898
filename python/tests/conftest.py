# SPDX-License-Identifier: Apache-2.0
"""Every test runs on all ranks of one job; `tutti run -n N python -m pytest` starts it."""

import importlib.metadata

import pytest

import tutti


def torch_version():
    """(major, minor) of PyTorch; (0, 0) without one."""
    try:
        return tuple(int(word) for word in importlib.metadata.version("torch").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return 0, 0


def needs_torch(major, minor, why):
    """Marks a test of what older versions of PyTorch, 1.13 among them, do not have."""
    return pytest.mark.skipif(torch_version() < (major, minor), reason=f"this torch: {why}")


@pytest.fixture(scope="session")
def job():
    with tutti.init() as context:
        yield context


def lies_in_shared_memory(tensor):
    """Is the tensor's first element in memory that the ranks of this host share?"""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            if begin <= tensor.data_ptr() < end:
                return "/memfd:tutti" in line
    return False
