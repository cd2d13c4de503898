# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.horovod_tools."""

from tutti.horovod_tools import Timeout, TimeoutException  # noqa: F401
