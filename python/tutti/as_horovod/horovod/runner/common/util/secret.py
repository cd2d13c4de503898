# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.horovod_tools."""

from tutti.horovod_tools import make_secret_key  # noqa: F401

HOROVOD_SECRET_KEY = "HOROVOD_SECRET_KEY"
