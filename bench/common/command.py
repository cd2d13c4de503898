# SPDX-License-Identifier: Apache-2.0
"""Options of all drivers: --help, --quick, --json."""
import argparse


def parser(topic, about, quick):
    """For the driver of a topic; `quick` describes what --quick leaves out."""
    made = argparse.ArgumentParser(prog=f"bench/{topic}/run", description=about.splitlines()[0])
    made.add_argument("--quick", action="store_true", help=quick)
    made.add_argument("--json", metavar="FILE", help="also write one JSON object per line")
    return made
