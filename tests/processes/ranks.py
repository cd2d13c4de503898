# SPDX-License-Identifier: Apache-2.0
"""Ranks started one by one, without a launcher, so that a test can inject faults into each.

Every wait has a deadline; nothing that a job started outlives its `with` block.
"""
import bisect
import os
import pathlib
import re
import secrets
import signal
import subprocess
import tempfile
import threading
import time

BIN = pathlib.Path(os.environ.get("TEST_BIN", "build/bin")).resolve()
WORKER = str(BIN / "tutti-worker")
PATIENCE_S = 90  # for events that must happen; long, because the machine may be busy
OUR_VARIABLES = re.compile(
    r"TUTTI_|OMPI_|PMI|SLURM_|HOROVOD_|RANK$|WORLD_SIZE$|LOCAL_|MASTER_|TORCH")


def clean_environment():
    """This process's environment, without Tutti's and other launchers' variables."""
    kept = {name: value for name, value in os.environ.items() if not OUR_VARIABLES.match(name)}
    kept["LSAN_OPTIONS"] = "detect_leaks=0"
    return kept


class Rank:
    """One process. Its lines are read at once, so that a full pipe never blocks it."""

    def __init__(self, arguments, environment, **keywords):
        self.process = subprocess.Popen(arguments, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, **keywords)
        self.pid = self.process.pid
        self.lines, self.log = [], []
        self.changed = threading.Condition()
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.lines),
                                     (self.process.stderr, self.log))]
        for reader in self.readers:
            reader.start()

    def read(self, stream, into):
        for line in stream:
            with self.changed:
                into.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def find(self, pattern, lines=None):
        for line in self.lines if lines is None else lines:
            match = re.search(pattern, line)
            if match:
                return match
        return None

    def story(self):
        return f"pid {self.pid}, said {self.lines[-6:]}, logged {self.log[-6:]}"

    def expect(self, pattern, of_log=False):
        lines = self.log if of_log else self.lines
        reader = self.readers[of_log]
        deadline = time.monotonic() + PATIENCE_S
        with self.changed:
            while True:
                match = self.find(pattern, lines)
                if match:
                    return match
                left = deadline - time.monotonic()
                if left <= 0 or not reader.is_alive():
                    raise AssertionError(f"no line like {pattern!r}: {self.story()}")
                self.changed.wait(min(left, 0.5))

    def say(self, text="go"):
        """A line for it, unless it has ended."""
        try:
            os.write(self.process.stdin.fileno(), f"{text}\n".encode())
        except BrokenPipeError:
            pass

    def code(self):
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"never ended: {self.story()}") from None
        for reader in self.readers:
            reader.join(PATIENCE_S)
        return code

    def signal(self, number):
        os.kill(self.pid, number)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join(1)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


class Ranks:
    """A job of `program`. `verbs` is one list for all ranks, or a function of the rank. Ranks that
    are not among `first` start when `start` is called. `keywords` go to Popen."""
    program = WORKER

    def __init__(self, size, verbs, variables=None, per_rank=None, first=None, **keywords):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-ranks-")
        folder = pathlib.Path(self.folder.name)
        key = folder / "key"
        key.touch(0o600)
        key.write_text(secrets.token_hex(32))
        self.common = {
            "TUTTI_SIZE": str(size), "TUTTI_RENDEZVOUS": f"file://{folder}/meet",
            "TUTTI_SECRET_FILE": str(key), "TUTTI_JOB_ID": folder.name,
            "TUTTI_START_TIMEOUT": str(PATIENCE_S), **(variables or {})}
        self.per_rank = per_rank or (lambda rank: {})
        self.verbs = verbs if callable(verbs) else lambda rank: verbs
        self.keywords = keywords
        self.ranks = []
        self.start(*(range(size) if first is None else first))

    def environment(self, rank, **more):
        environment = {**clean_environment(), **self.common, "TUTTI_RANK": str(rank),
                       **self.per_rank(rank), **more}
        return {name: value for name, value in environment.items() if value is not None}

    def start(self, *numbers):
        self.ranks += [Rank([self.program, *self.verbs(rank)], self.environment(rank),
                            **self.keywords) for rank in numbers]

    def __getitem__(self, index):
        return self.ranks[index]

    def __iter__(self):
        return iter(self.ranks)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.end()
        self.folder.cleanup()

    def expect(self, pattern):
        return [rank.expect(pattern) for rank in self.ranks]

    def codes(self):
        return [rank.code() for rank in self.ranks]


class ServedRanks(Ranks):
    """Workers of `program`, and behind them servers. `arguments` are those of workers: a list, or
    a function of the rank."""

    def __init__(self, program, workers, servers, arguments, variables=None, **keywords):
        self.program, self.workers = str(BIN / program), workers
        of_worker = arguments if callable(arguments) else lambda rank: arguments
        super().__init__(workers + servers,
                         lambda rank: [*map(str, of_worker(rank))] if rank < workers else ["serve"],
                         {"TUTTI_SERVERS": str(servers), **(variables or {})}, **keywords)

    def lose(self, *victims):
        """Kills them, and lets the other workers, which hold, go on without them; returns these."""
        for victim in victims:
            self[victim].signal(signal.SIGKILL)
        return self.go_on_without(*victims)

    def go_on_without(self, *ended):
        """Once these have ended. The lines are there for workers that hold later, too."""
        for rank in ended:
            self[rank].code()
        others = [self[rank] for rank in range(self.workers) if rank not in ended]
        for rank in others:
            rank.say()
        return others

    def stories(self):
        return [rank.story() for rank in self]


def is_alive(pid):
    """A zombie is not alive: its parent has merely not reaped it yet."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


# Other libraries' tests may run beside ours; they name their memory after themselves.
OTHERS_MEMORY = ("ucx_", "mpich_", "vader_", "openmpi", "ompi", "torch_", "sem.",
                 "bench-")


def shared_memory_names():
    """Named files that a job could leave behind."""
    shm = pathlib.Path("/dev/shm")
    names = {entry.name for entry in shm.iterdir()} if shm.is_dir() else set()
    return {name for name in names if not name.startswith(OTHERS_MEMORY)}


class Naps(threading.Thread):
    """Time in which this machine let processes run, counted in consecutive naps of a thread. While
    the machine stalls, or has no core for us, no nap passes and none counts: a bound of a second is
    not missed because no process could run."""
    NAP_S = 0.01

    def __init__(self):
        super().__init__(daemon=True)
        self.ends_ns = []
        self.start()

    def run(self):
        while True:
            time.sleep(self.NAP_S)
            self.ends_ns.append(time.monotonic_ns())

    def seconds(self, begin_ns, end_ns):
        """Naps between two times of the clock that the workers print."""
        return self.NAP_S * (bisect.bisect(self.ends_ns, end_ns)
                             - bisect.bisect(self.ends_ns, begin_ns))


NAPS = Naps()


def kill(pid):
    """Kills; returns the time, on the clock that the workers print."""
    at_ns = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    return at_ns
