# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.horovod_tools."""

from tutti.horovod_tools import (HostInfo, SlotInfo, get_host_assignments,  # noqa: F401
                                   parse_hosts)
