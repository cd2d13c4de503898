# SPDX-License-Identifier: Apache-2.0
"""horovodrun's command line, on `tutti run --as-horovod`.

Installed as `tutti-horovodrun`, because the name horovodrun may be taken; a link of that name makes
old job scripts work:

    ln -s "$(command -v tutti-horovodrun)" ~/bin/horovodrun

Every flag of horovodrun is honoured, ignored with a message, or refused."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from typing import List, Sequence, Tuple

HOROVOD_VERSION = "0.28.1"  # whose flags these are
# flag: (number of values, replacement). A name with a dash is an option of tutti run, a name in
# capitals a variable of the ranks, which tutti.torch reads.
HONOURED = {
    "-np": (1, "-n"), "--num-proc": (1, "-n"), "-H": (1, "-H"), "--hosts": (1, "-H"),
    "-hostfile": (1, "--hostfile"), "--hostfile": (1, "--hostfile"),
    "--network-interfaces": (1, "--interface"), "--network-interface": (1, "--interface"),
    "--output-filename": (1, "--output-dir"), "--start-timeout": (1, "--timeout-start"),
    "--slots-per-host": (1, "--nproc-per-node"),
    "--timeline-filename": (1, "HOROVOD_TIMELINE"),
    "--fusion-threshold-mb": (1, "HOROVOD_FUSION_THRESHOLD"),
    "--cache-capacity": (1, "HOROVOD_CACHE_CAPACITY"),
    "--stall-check-warning-time-seconds": (1, "HOROVOD_STALL_CHECK_TIME_SECONDS"),
    "--stall-check-shutdown-time-seconds": (1, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"),
    "--gloo-timeout-seconds": (1, "HOROVOD_GLOO_TIMEOUT_SECONDS"),
    "--log-level": (1, "HOROVOD_LOG_LEVEL"),
}
SWITCHES = {"--autotune": "HOROVOD_AUTOTUNE=1", "--no-stall-check": "HOROVOD_STALL_CHECK_DISABLE=1"}
SSH = {"-p": "-p", "--ssh-port": "-p", "-i": "-i", "--ssh-identity-file": "-i"}
IGNORED = {
    "--gloo": 0, "--mpi": 0, "--jsrun": 0, "--tcp": 0, "--mpi-args": 1, "--binding-args": 1,
    "--mpi-threads-disable": 0, "--no-mpi-threads-disable": 0, "--num-nccl-streams": 1,
    "--thread-affinity": 1, "--disable-cache": 0, "--verbose": 0,
    "--cycle-time-ms": 1, "--hierarchical-allreduce": 0, "--no-hierarchical-allreduce": 0,
    "--hierarchical-allgather": 0, "--no-hierarchical-allgather": 0, "--torus-allreduce": 0,
    "--no-torus-allreduce": 0, "--no-autotune": 0, "--autotune-log-file": 1,
    "--autotune-warmup-samples": 1, "--autotune-steps-per-sample": 1,
    "--autotune-bayes-opt-max-samples": 1, "--autotune-gaussian-process-noise": 1,
    "--timeline-mark-cycles": 0, "--no-timeline-mark-cycles": 0, "--stall-check": 0,
    "--log-with-timestamp": 0, "--no-log-hide-timestamp": 0, "-prefix-timestamp": 0,
    "--log-without-timestamp": 0, "--log-hide-timestamp": 0,
    "--prefix-output-with-timestamp": 0,
}
REFUSED = {
    flag: "a job does not grow or shrink; start a fixed number with -np"
    for flag in ("--min-np", "--min-num-proc", "--max-np", "--max-num-proc",
                 "--host-discovery-script", "--elastic-timeout", "--reset-limit",
                 "--blacklist-cooldown-range")
}
REFUSED["--config-file"] = "give the flags themselves"


def translate(arguments: Sequence[str]) -> Tuple[List[str], str]:
    """The command line of tutti run and the message to print; SystemExit for refused flags."""
    options: List[str] = []
    ssh: List[str] = []
    ignored: List[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        flag, has_value, value = rest.pop(0).partition("=")
        if flag == "--":
            break
        if flag in ("-v", "--version"):
            print(HOROVOD_VERSION)
            sys.exit(0)
        if flag in ("-cb", "--check-build"):
            check_build()
            sys.exit(0)
        if flag in REFUSED:
            sys.exit(f"horovodrun: {flag}: {REFUSED[flag]}")
        if flag in SWITCHES:
            options += ["-x", SWITCHES[flag]]
            continue
        count = 1 if flag in SSH else HONOURED.get(flag, (IGNORED.get(flag, -1),))[0]
        if count < 0:
            sys.exit(f"horovodrun: {flag} is not a flag of horovodrun; see tutti-horovodrun --help")
        if count and not has_value:
            if not rest:
                sys.exit(f"horovodrun: {flag} needs a value")
            value = rest.pop(0)
        if flag in SSH:
            ssh += [SSH[flag], value]
        elif flag in HONOURED:
            becomes = HONOURED[flag][1]
            if flag == "--fusion-threshold-mb":
                value = str(int(float(value) * 1024 * 1024))
            options += [becomes, value] if becomes.startswith("-") else ["-x", f"{becomes}={value}"]
        else:
            ignored.append(flag)
    if ssh:
        options += ["--rsh", " ".join(["ssh -x -o BatchMode=yes", *ssh])]
    if not rest:
        sys.exit("horovodrun: no program was given; add its command after the flags")
    words = f"horovodrun: ignored: {', '.join(ignored)}" if ignored else ""
    return ["run", "--as-horovod", *options, *rest], words


def usage() -> str:
    """The help text: the effect of every flag."""
    lines = [__doc__, "Honoured:"]
    lines += [f"  {flag:<38}{becomes}" for flag, (_, becomes) in HONOURED.items()]
    lines += [f"  {flag:<38}{becomes}" for flag, becomes in SWITCHES.items()]
    lines += [f"  {flag:<38}ssh {becomes}" for flag, becomes in SSH.items()]
    lines += [f"  {'-v --version':<38}{HOROVOD_VERSION}",
              f"  {'-cb --check-build':<38}available frameworks and operations"]
    lines += ["Ignored, with one line:", "  " + " ".join(IGNORED), "Refused:"]
    lines += [f"  {flag:<38}{why}" for flag, why in REFUSED.items()]
    return "\n".join(lines)


def program() -> str:
    """The tutti command: the wheel's, else a build's, else the one on PATH."""
    here = pathlib.Path(__file__).resolve().parent
    for place in (here / "bin" / "tutti", here.parents[1] / "build" / "bin" / "tutti"):
        if place.exists():
            return str(place)
    found = shutil.which("tutti")
    if found is None:
        sys.exit("horovodrun: the tutti command was not found; install Tutti")
    return found


def check_build(verbose: bool = False) -> None:
    """Print the available frameworks and operations."""
    print("Tutti in place of Horovod\n\nAvailable Frameworks:\n    [X] PyTorch\n\n"
          "Available Controllers and Operations:\n    [X] Tutti (selected as Gloo)")


def main() -> None:
    """Replace this process by tutti run."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return
    command, words = translate(arguments)
    if words:
        print(words, file=sys.stderr, flush=True)
    tutti = program()
    os.execv(tutti, [tutti, *command])


if __name__ == "__main__":
    main()
