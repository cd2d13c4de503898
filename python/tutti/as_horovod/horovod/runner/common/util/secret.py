# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.horovod_tools."""

from tutti.horovod_tools import make_secret_key  # noqa: F401

HOROVOD_SECRET_KEY = "HOROVOD_SECRET_KEY"
