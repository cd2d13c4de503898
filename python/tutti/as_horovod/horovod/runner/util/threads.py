# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.horovod_tools."""

from tutti.horovod_tools import (execute_function_multithreaded, in_thread,  # noqa: F401
                                   on_event)
