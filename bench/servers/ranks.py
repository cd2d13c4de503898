# SPDX-License-Identifier: Apache-2.0
"""The jobs of bench/servers: workers that obey lines, and servers behind them."""
import secrets

from bench.common import jobs, namespaces, tree


class Job(jobs.Job):
    """Workers first, then servers; a host each, or all of them here. Those of `job.processes` are
    in the order of ranks."""

    def __init__(self, name, workers, servers, folder, program="bench-servers-rank"):
        super().__init__(name, workers, folder)
        self.servers, self.program = servers, tree.BIN / program

    def begin(self, hosts=None, **settings):
        address = hosts.addresses[0] if hosts else "127.0.0.1"
        settings = {"TUTTI_SIZE": str(self.size + self.servers),
                    "TUTTI_SERVERS": str(self.servers) if self.servers else "0",
                    "TUTTI_JOB_ID": f"{namespaces.MARK}-{self.name}",
                    "TUTTI_SECRET": secrets.token_hex(32),
                    "TUTTI_RENDEZVOUS": f"tcp://{address}:{jobs.free_port()}",
                    **jobs.SHARED_CORES, **settings}
        for rank in range(self.size + self.servers):
            place, own = [], {"TUTTI_RANK": str(rank)}
            if hosts:
                own["TUTTI_HOSTID"] = hosts.names[rank]
                place = namespaces.inside(hosts.names[rank])
            command = ([self.program] if rank < self.size else [tree.TUTTI, "server"])
            self.start([*place, *command], **own, **settings)
        self.meet()
        return self

    def slowest(self, line):
        """By call, the slowest worker's microseconds."""
        answers = self.ask(line)
        if any(time < 0 for answer in answers for time in answer):
            raise SystemExit(f"{self.name}, '{line}': a sum is wrong")
        return [max(times) / 1e3 for times in zip(*answers)]
