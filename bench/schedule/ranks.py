# SPDX-License-Identifier: Apache-2.0
"""The ranks of bench/schedule: programs that run the steps which the driver requests."""
from bench.common import jobs, tree


class Job(jobs.Job):
    """Ranks that obey lines; one rank a host, or several on this one."""

    def __init__(self, name, size, folder, program="bench-schedule-rank"):
        super().__init__(name, size, folder)
        self.program = tree.BIN / program

    def begin(self, hosts=None, **settings):
        """Without hosts the ranks share this one's memory."""
        usual = jobs.SHARED_CORES if hosts else {
            "TUTTI_SPIN": "yes", "TUTTI_RENDEZVOUS": f"file://{self.path.with_suffix('.meet')}"}
        self.start_tutti([self.program], hosts, **{**usual, **settings})
        self.meet()
        return self

    def slowest(self, line):
        """By call, the slowest rank's microseconds."""
        return [max(times) / 1e3 for times in zip(*self.ask(line))]
