# SPDX-License-Identifier: Apache-2.0
"""How idle the machine was: what else runs on it makes a case worthless."""
import os
import pathlib
import time

CORES = 8  # four ranks, and a thread each that drives the wire


class Watch:
    """How idle the cores were since this was made."""

    def __init__(self):
        self.begin = self.read()

    @staticmethod
    def read():
        words = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        numbers = [int(word) for word in words[1:9]]
        return numbers[3] + numbers[4], sum(numbers)

    def idle(self):
        idle, total = (now - then for now, then in zip(self.read(), self.begin))
        return idle / max(1, total)

    @classmethod
    def calm(cls, wanted=0.9, tries=60):
        """Wait until nothing else has the cores that a job needs, a minute at most. Where there are
        many, other runs of this bench may have some."""
        cores = len(os.sched_getaffinity(0))
        for _ in range(tries):
            watch = cls()
            time.sleep(1)
            if watch.idle() * cores >= min(wanted * cores, CORES):
                return
