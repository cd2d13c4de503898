# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.horovod_tools."""

from tutti.horovod_tools import dumps_base64, loads_base64  # noqa: F401
