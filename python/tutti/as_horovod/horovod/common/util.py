# SPDX-License-Identifier: Apache-2.0
"""The helpers that scripts import."""

from tutti.torch.basics import (ccl_built, cuda_built, ddl_built, gloo_built,  # noqa: F401
                                mpi_built, nccl_built, rocm_built)


def split_list(items, parts):
    """`items` in `parts` runs of nearly equal length."""
    share, extra = divmod(len(items), parts)
    ends = [(i + 1) * share + min(i + 1, extra) for i in range(parts)]
    return [items[begin:end] for begin, end in zip([0, *ends], ends)]


def check_extension(*_, **__):
    """Nothing is compiled against a framework, so there is nothing to check."""


def gpu_available(*_):
    """Is there a GPU that torch can use?"""
    import torch

    return torch.cuda.is_available()
