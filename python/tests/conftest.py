# SPDX-License-Identifier: Apache-2.0
"""Every test runs on all ranks of one job; `tutti run -n N python -m pytest` starts it."""

import importlib.metadata
import os

import pytest

import tutti


def torch_version():
    """(major, minor) of PyTorch; (0, 0) without one."""
    try:
        return tuple(int(word) for word in importlib.metadata.version("torch").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return 0, 0


def needs_torch(major, minor, why):
    """Marks a test of a feature that older versions of PyTorch, 1.13 among them, do not have."""
    return pytest.mark.skipif(torch_version() < (major, minor), reason=f"this torch: {why}")


@pytest.fixture(scope="session")
def job():
    with tutti.init() as context:
        yield context


@pytest.fixture(scope="module")
def process_group(tmp_path_factory):
    """torch.distributed's world on Tutti, beside hvd's."""
    import torch.distributed as dist  # the arrays' tests do without torch
    import tutti.torch as hvd
    import tutti.torch.backend  # noqa: F401 (a wheel registers it by entry point)

    hvd.init()
    path = hvd.broadcast_object(str(tmp_path_factory.mktemp("store") / "store"), 0)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    dist.init_process_group("tutti", init_method=f"file://{path}", rank=hvd.rank(),
                            world_size=hvd.size())
    yield dist.group.WORLD
    dist.destroy_process_group()
    hvd.shutdown()


def rank():
    """This rank, in torch.distributed's world."""
    import torch.distributed as dist
    return dist.get_rank()


def size():
    """How many ranks torch.distributed's world has."""
    import torch.distributed as dist
    return dist.get_world_size()


def lies_in_shared_memory(tensor):
    """Is the tensor's first element in memory that the ranks of this host share?"""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            if begin <= tensor.data_ptr() < end:
                return "/memfd:tutti" in line
    return False
