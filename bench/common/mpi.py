# SPDX-License-Identifier: Apache-2.0
"""How MPI is started beside us."""
import os

AS_ROOT = ["--allow-run-as-root"] if os.geteuid() == 0 else []
# Open MPI takes a temporary of the vector's size for every call. Above glibc's threshold it is
# mapped and faulted anew each time; a fair anchor keeps it.
MALLOC_KEPT = {"MALLOC_MMAP_THRESHOLD_": "2000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000",
               "MALLOC_TOP_PAD_": "600000000"}
