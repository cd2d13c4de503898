# SPDX-License-Identifier: Apache-2.0
"""Not provided."""

raise ImportError("horovod.runner.task_fn is not provided by Tutti; "
                  "start the ranks with tutti run, or call horovod.run")
