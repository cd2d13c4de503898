# SPDX-License-Identifier: Apache-2.0
"""Where things lie in this tree, and how a job of it is started."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
BIN = BUILD / "bin"
TUTTI = BIN / "tutti"


def run(*words, check=True):
    """A command, in silence; what it said is in what comes back."""
    return subprocess.run([str(word) for word in words], check=check, capture_output=True,
                          text=True)


def need(*programs):
    """End here if one of these is not built."""
    for program in programs:
        if not (BIN / program).exists():
            raise SystemExit(f"{BIN / program} is missing: make bench")


def job(ranks, *settings):
    """The words before a command that make it so many ranks here; a setting is "NAME=value"."""
    words = [str(TUTTI), "run", "-q", "--no-prefix", "-n", str(ranks)]
    for setting in settings:
        words += ["-x", setting]
    return words
