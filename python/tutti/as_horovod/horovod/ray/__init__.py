# SPDX-License-Identifier: Apache-2.0
"""Not provided."""

raise ImportError("horovod.ray is not provided by Tutti; "
                  "start the ranks with tutti run, and use tutti.torch")
