# SPDX-License-Identifier: Apache-2.0
"""Not provided."""

raise ImportError("horovod.mxnet is not provided by Tutti; "
                  "MXNet is retired; use torch")
