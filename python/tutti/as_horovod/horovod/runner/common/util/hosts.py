# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.horovod_tools."""

from tutti.horovod_tools import (HostInfo, SlotInfo, get_host_assignments,  # noqa: F401
                                   parse_hosts)
