# SPDX-License-Identifier: Apache-2.0
"""Not provided."""

raise ImportError("horovod.tensorflow is not provided by Tutti; "
                  "use torch, or call Tutti on NumPy arrays (import tutti)")
