# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.torch.basics."""

from tutti.torch.basics import (ProcessSet, add_process_set, global_process_set,  # noqa: F401
                                process_set_ids, remove_process_set)
