# SPDX-License-Identifier: Apache-2.0
"""Horovod's exceptions."""


class HorovodInternalError(RuntimeError):
    """A collective failed. `__cause__` is Tutti's own error, with status, rank and tensor."""


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts of an elastic job have changed."""

    def __init__(self, skip_sync=False):
        super().__init__()
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """Never raised here: nothing is compiled against a framework."""
