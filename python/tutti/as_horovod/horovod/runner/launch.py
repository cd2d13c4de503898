# SPDX-License-Identifier: Apache-2.0
"""horovodrun is tutti.horovodrun."""

from tutti.horovod_tools import parse_args
from tutti.horovodrun import check_build
from tutti.horovodrun import main as run_commandline  # noqa: F401

__all__ = ["check_build", "parse_args", "run_commandline"]
