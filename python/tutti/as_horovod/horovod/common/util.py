# SPDX-License-Identifier: Apache-2.0
"""The helpers that scripts import."""

import contextlib
import os

from tutti.torch import basics, tensors


def split_list(items, parts):
    """`items` in `parts` runs of nearly equal length."""
    share, extra = divmod(len(items), parts)
    ends = [(i + 1) * share + min(i + 1, extra) for i in range(parts)]
    return [items[begin:end] for begin, end in zip([0, *ends], ends)]


def check_extension(*_, **__):
    """Nothing is compiled against a framework, so there is nothing to check."""


def extension_available(ext_base_name, verbose=False):
    """Can horovod.<name> be imported?"""
    return ext_base_name == "torch"


def gpu_available(ext_base_name, verbose=False):
    """Is there a GPU that torch can use?"""
    import torch

    return torch.cuda.is_available()


def mpi_built(verbose=False):
    """As hvd.mpi_built()."""
    return basics.mpi_built()


def gloo_built(verbose=False):
    """As hvd.gloo_built()."""
    return basics.gloo_built()


def nccl_built(verbose=False):
    """As hvd.nccl_built()."""
    return basics.nccl_built()


def ddl_built(verbose=False):
    """As hvd.ddl_built()."""
    return basics.ddl_built()


def ccl_built(verbose=False):
    """As hvd.ccl_built()."""
    return basics.ccl_built()


def cuda_built(verbose=False):
    """As hvd.cuda_built()."""
    return basics.cuda_built()


def rocm_built(verbose=False):
    """As hvd.rocm_built()."""
    return basics.rocm_built()


def is_iterable(thing):
    """Can it be iterated over?"""
    try:
        iter(thing)
    except TypeError:
        return False
    return True


def num_rank_is_power_2(num_rank):
    """Is it 1, 2, 4, 8, ...?"""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


@contextlib.contextmanager
def env(**variables):
    """Set these environment variables inside the block; None leaves one unchanged."""
    variables = {name: value for name, value in variables.items() if value is not None}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def check_installed_version(name, version, exception=None):
    """Nothing to check: nothing was compiled against a framework's version."""


def get_average_backwards_compatibility_fun(reduce_ops):
    """A function that selects the operator from op and average, the older parameter."""
    return tensors.reduction
