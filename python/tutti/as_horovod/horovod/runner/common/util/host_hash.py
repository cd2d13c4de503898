# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.horovod_tools."""

from tutti.horovod_tools import host_hash  # noqa: F401
