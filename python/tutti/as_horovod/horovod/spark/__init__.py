# SPDX-License-Identifier: Apache-2.0
"""Not provided."""

raise ImportError("horovod.spark is not provided by Tutti; "
                  "start the ranks with tutti run, and use tutti.torch")
