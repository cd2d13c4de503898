# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.horovod_tools."""

from tutti.horovod_tools import (execute_function_multithreaded, in_thread,  # noqa: F401
                                   on_event)
