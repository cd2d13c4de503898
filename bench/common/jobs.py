# SPDX-License-Identifier: Apache-2.0
"""Jobs that stay alive and are measured by turns: ranks that obey lines of a socket."""
import os
import secrets
import signal
import socket
import subprocess
import time

from bench.common import namespaces, tree

WORKER = tree.ROOT / "bench/common/worker"  # one rank; its driver sends the lengths to reduce
PATIENCE_S = 60
# In namespaces the ranks of all hosts share this machine's cores: no rank should spin for long.
SHARED_CORES = {"TUTTI_SPIN": "no"}
TCP = {"TUTTI_TRANSPORT": "tcp"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """The ranks of one library. A rank that has no line to obey blocks in a read."""

    def __init__(self, name, size, folder, bytes_max=0):
        self.name, self.size = name, size
        self.path = folder / f"{name}.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(size)
        self.listener.settimeout(PATIENCE_S)
        self.environment = dict(os.environ, BENCH_SOCKET=str(self.path), BENCH_BYTES=str(bytes_max))
        self.log = open(folder / f"{name}.log", "w+", encoding="utf-8")
        self.processes, self.ranks = [], []

    def start(self, command, **variables):
        self.processes.append(subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log, env=dict(self.environment, **variables), start_new_session=True))

    def start_tutti(self, command, hosts=None, per_host=1, **settings):
        """Every rank, of hosts or here. Nothing has a name or a port that a job of another run
        could have: that one may be on this machine."""
        address = hosts.addresses[0] if hosts else "127.0.0.1"
        settings = {"TUTTI_SIZE": str(self.size), "TUTTI_JOB_ID": f"{namespaces.MARK}-{self.name}",
                    "TUTTI_SECRET": secrets.token_hex(32),
                    "TUTTI_RENDEZVOUS": f"tcp://{address}:{free_port()}", **settings}
        for rank in range(self.size):
            place, own = [], {"TUTTI_RANK": str(rank)}
            if hosts:
                own["TUTTI_HOSTID"] = hosts.names[rank // per_host]
                place = namespaces.inside(own["TUTTI_HOSTID"])
            self.start([*place, *command], **own, **settings)

    def meet(self):
        try:
            for _ in range(self.size):
                rank = self.listener.accept()[0]
                rank.settimeout(PATIENCE_S)
                self.ranks.append(rank.makefile("rw", encoding="ascii"))
                self.ranks[-1].readline()
        except TimeoutError:
            raise SystemExit(f"{self.name} did not start:\n{self.said()}") from None

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def ask(self, line):
        """The ranks' answers to one line, as lists of numbers."""
        for rank in self.ranks:
            rank.write(line + "\n")
            rank.flush()
        answers = [rank.readline().split() for rank in self.ranks]
        if not all(answers):
            raise SystemExit(f"{self.name} died at '{line}'\n{self.said()}")
        return [[float(word) for word in answer] for answer in answers]

    def sample(self, length, iterations):
        """Of bench/common/worker: the slowest rank's microseconds for a sum of so many bytes."""
        answers = self.ask(f"{length} {iterations}")
        if any(wrong for _, wrong in answers):
            raise SystemExit(f"{self.name}, {length} bytes: wrong elements\n{self.said()}")
        return max(time_ns for time_ns, _ in answers) / 1e3

    def end(self):
        for rank in self.ranks:
            rank.close()
        self.listener.close()
        deadline = time.monotonic() + 10
        for process in self.processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.log.close()
