# SPDX-License-Identifier: Apache-2.0
"""Horovod's launcher is `tutti run`."""

from tutti.horovod_run import run  # noqa: F401
