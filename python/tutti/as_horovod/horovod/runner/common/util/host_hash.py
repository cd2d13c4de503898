# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.horovod_tools."""

from tutti.horovod_tools import host_hash  # noqa: F401
