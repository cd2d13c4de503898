# SPDX-License-Identifier: Apache-2.0
"""Horovod's ranks and sizes, as methods of one object."""

from tutti.torch import basics


class HorovodBasics:
    """Every function of tutti.torch.basics as a method."""

    def __init__(self, *_):
        pass

    def __getattr__(self, name):
        return getattr(basics, name)
