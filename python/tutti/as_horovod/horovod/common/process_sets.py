# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.basics."""

from tutti.torch.basics import (ProcessSet, add_process_set,  # noqa: F401
                                get_process_set_ids_and_ranks, global_process_set,
                                process_set_by_id, process_set_ids, process_sets,
                                remove_process_set)
