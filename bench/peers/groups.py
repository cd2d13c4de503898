# SPDX-License-Identifier: Apache-2.0
"""Groups of ranks, one per library: how each is built, started, told what to measure, and ended."""
import contextlib
import dataclasses
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import time

from bench.common.mpi import AS_ROOT, MALLOC_KEPT
from bench.common.tree import ROOT

WORKERS = ROOT / "bench/peers/workers"
COLLECTIVES = ("allreduce", "broadcast", "allgather", "reducescatter", "alltoall")
START_S = 60
LEAVE_S = 5

# Without the two "any" the component refuses to start on hosts that have no InfiniBand device.
OMPI_UCX = ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca",
            "opal_common_ucx_devices", "any"]
OMPI_TCP = ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"]
OUR_VARIABLES = re.compile(
    r"TUTTI_|OMPI_|PMI|SLURM_|HOROVOD_|RANK$|WORLD_SIZE$|LOCAL_|MASTER_|TORCH")


@dataclasses.dataclass(frozen=True)
class Library:
    """One row of the table: a program, its launcher, and its arguments."""
    name: str
    program: str  # in build/peers
    launcher: str  # tutti, openmpi, mpich or plain (one process after the other)
    flags: tuple = ()
    environment: tuple = ()
    places: tuple = ("foreign",)
    is_peer: bool = True

    def entries(self):
        """(name in the tables, place of the buffers) for each way it is measured."""
        if self.is_peer:
            return [(self.name, "foreign")]
        return [(f"{self.name}-{place}", place) for place in self.places]


def libraries(transport):
    kept, tutti = tuple(MALLOC_KEPT.items()), ("TUTTI_TRANSPORT", transport)
    gloo = (Library("gloo", "gloo", "plain"), Library("torch", "torch", "plain"))
    if transport == "shm":
        return (
            Library("tutti", "tutti", "tutti", (), (tutti,), ("arena", "foreign"), False),
            Library("openmpi", "openmpi", "openmpi",
                    ("--mca", "pml", "ob1", "--mca", "btl", "self,vader")),
            Library("openmpi-kept", "openmpi", "openmpi",
                    ("--mca", "pml", "ob1", "--mca", "btl", "self,vader"), kept),
            Library("openmpi-ucx", "openmpi", "openmpi", tuple(OMPI_UCX),
                    kept + (("UCX_TLS", "self,posix,cma"),)),
            Library("mpich", "mpich", "mpich"),
        ) + gloo
    return (
        Library("tutti", "tutti", "tutti", (), (tutti,), ("foreign",), False),
        Library("tutti-nocrc", "tutti", "tutti", (), (tutti, ("TUTTI_INTEGRITY", "none")),
                ("foreign",), False),
        Library("openmpi", "openmpi", "openmpi", tuple(OMPI_TCP)),
        Library("openmpi-kept", "openmpi", "openmpi",
                tuple(OMPI_TCP + ["--mca", "btl_tcp_links", "2"]), kept),
        Library("openmpi-ucx", "openmpi", "openmpi", tuple(OMPI_UCX),
                kept + (("UCX_TLS", "self,tcp"), ("UCX_NET_DEVICES", "lo"))),
        Library("mpich", "mpich", "mpich", (),
                (("UCX_TLS", "self,tcp"), ("UCX_NET_DEVICES", "lo"), ("MPIR_CVAR_NOLOCAL", "1"))),
    ) + gloo


MEMORY = Library("memory", "memory", "plain", (), (), ("arena",), False)


# ---- building -----------------------------------------------------------------------------------


def build_commands(bin_folder, build):
    """{program: command} that makes it in `bin_folder`."""
    cc, worker, flags = os.environ.get("CC", "cc"), str(WORKERS / "worker.c"), [
        "-std=c11", "-D_GNU_SOURCE", "-O3", "-march=native", "-Wall", "-Wextra", f"-I{WORKERS}",
        f"-I{ROOT}"]

    def out(name):
        return ["-o", str(bin_folder / name)]
    return {
        "tutti": [cc, *flags, f"-I{ROOT}/include", worker, str(WORKERS / "tutti_peer.c"),
                  str(build / "libtutti.a"), "-lsodium", "-lm", "-lpthread", *out("tutti")],
        "memory": [cc, *flags, worker, str(WORKERS / "memory_peer.c"), *out("memory")],
        "openmpi": ["mpicc.openmpi", *flags, worker, str(WORKERS / "mpi_peer.c"), *out("openmpi")],
        "mpich": ["mpicc.mpich", *flags, worker, str(WORKERS / "mpi_peer.c"), *out("mpich")],
        "gloo": ["sh", "-c", 'cc -c "$1" -o "$2.o" $4 && c++ -std=c++14 -O3 "$3" "$2.o" -I"$5" '
                 '-o "$2" -lgloo -lpthread', "build", worker, str(bin_folder / "gloo"),
                 str(WORKERS / "gloo_peer.cc"), " ".join(flags), str(WORKERS)],
        "torch": [cc, *flags, "-shared", "-fPIC", worker, *out("torch")],
    }


def build(names, bin_folder, build_folder):
    """Compile what is needed; {name: reason} for what could not be."""
    bin_folder.mkdir(parents=True, exist_ok=True)
    commands, failed = build_commands(bin_folder, build_folder), {}
    for name in sorted(names):
        try:
            done = subprocess.run(commands[name], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                failed[name] = (done.stderr.strip().splitlines() or ["no message"])[0]
        except FileNotFoundError as error:
            failed[name] = f"{error.filename} is not installed"
    return failed


# ---- one group ----------------------------------------------------------------------------------


class GroupFailed(Exception):
    """The group is gone; its library is left out from here on."""


class Group:
    """The ranks of one library. Between samples each of them sleeps in read()."""

    def __init__(self, library, rank_count, setting):
        self.library, self.rank_count, self.setting = library, rank_count, setting
        self.folder = setting.folder / f"{library.name}-{rank_count}"
        self.folder.mkdir()
        self.processes, self.streams = [], {}
        with open(self.folder / "barrier", "wb") as file:
            file.truncate(4096 * 2)
        self.log = open(self.folder / "log", "wb")
        for command, extra in self.commands():
            environment = {**self.environment(), **extra}
            self.processes.append(subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=self.log,
                stderr=self.log, start_new_session=True))

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not OUR_VARIABLES.match(name)}
        return {**kept, **dict(self.library.environment),
                "BENCH_SOCKET": str(self.setting.folder / "driver"),
                "BENCH_GROUP": self.library.name, "BENCH_SHARED": str(self.folder / "barrier"),
                "BENCH_BIND": "1" if self.setting.binds else "0", "BENCH_STORE": str(self.folder),
                "BENCH_MEMORY": str(self.setting.folder / "memory"),
                "BENCH_MEMORY_BYTES": str(self.setting.memory_bytes(self.rank_count)),
                "BENCH_WORKER_LIBRARY": str(self.setting.bin_folder / "torch")}

    def commands(self):
        count, program = str(self.rank_count), str(self.setting.bin_folder / self.library.program)
        if self.library.launcher == "tutti":
            return [([str(self.setting.build_folder / "bin/tutti"), "run", "-q", "-n", count,
                      program], {})]
        if self.library.launcher == "openmpi":
            return [(["mpirun.openmpi", "-n", count, *AS_ROOT, "--oversubscribe", "--bind-to",
                      "none", *self.library.flags, program], {})]
        if self.library.launcher == "mpich":
            return [(["mpiexec.mpich", "-n", count, program], {})]
        if self.library.program == "torch":
            command = [self.setting.torch_python, str(WORKERS / "torch_peer.py")]
        else:
            command = [program]
        return [(command, {"BENCH_RANK": str(rank), "BENCH_SIZE": count})
                for rank in range(self.rank_count)]

    def adopt(self, rank, stream):
        self.streams[rank] = stream

    def is_complete(self):
        return len(self.streams) == self.rank_count

    def has_died(self):
        return any(process.poll() is not None for process in self.processes)

    def last_words(self):
        self.log.flush()
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "nothing was said"

    def measure(self, case, warmup_count, iteration_count, checks, timeout_s):
        """Nanoseconds of each timed call, of the slowest rank; None if it has no such call."""
        order = (f"{COLLECTIVES.index(case.collective)} {case.bytes} {int(case.touches)} "
                 f"{int(case.place == 'arena')} {int(case.keeps)} {warmup_count} "
                 f"{iteration_count} {int(checks)}\n").encode()
        answers = self.exchange(order, time.monotonic() + timeout_s)
        if any(answer[0] == "unsupported" for answer in answers):
            return None
        if any(answer[0] != "ok" for answer in answers):
            raise GroupFailed(self.last_words())
        wrong_count = sum(int(answer[1]) for answer in answers)
        if wrong_count > 0:
            raise GroupFailed(f"{wrong_count} wrong elements: {case}")
        return [max(times) for times in zip(*(map(int, answer[2:]) for answer in answers))]

    def exchange(self, order, deadline):
        try:
            for stream in self.streams.values():
                stream.sendall(order)
        except OSError as error:
            raise GroupFailed(self.last_words()) from error
        waiting, texts = {stream: b"" for stream in self.streams.values()}, []
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise GroupFailed("a call did not end in time")
            for stream in ready:
                data = stream.recv(1 << 16)
                if not data:
                    raise GroupFailed(f"a rank is gone: {self.last_words()}")
                waiting[stream] += data
                if data.endswith(b"\n"):
                    texts.append(waiting.pop(stream).decode().split())
        return texts

    def hang_up(self):
        """Ranks then leave."""
        for stream in self.streams.values():
            stream.close()

    def close(self, deadline):
        """End what has not left by then."""
        for process in self.processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.kill(process)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def kill(process):
        """Its session was made for it, so nothing else is in it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# ---- all groups of a rank count -----------------------------------------------------------------


def accept(listener, groups, deadline):
    """Take the connections of ranks until every group is complete, dead, or late."""
    pending, strangers = {group.library.name: group for group in groups}, {}
    while pending and time.monotonic() < deadline:
        ready, _, _ = select.select([listener, *strangers], [], [], 0.2)
        for stream in ready:
            if stream is listener:
                strangers[stream.accept()[0]] = b""
                continue
            data = stream.recv(256)
            strangers[stream] += data
            if not data or strangers[stream].endswith(b"\n"):
                words = strangers.pop(stream).decode().split()
                if words and words[1] in pending:
                    pending[words[1]].adopt(int(words[2]), stream)
        pending = {name: group for name, group in pending.items()
                   if not group.is_complete() and not group.has_died()}


@contextlib.contextmanager
def started(chosen, rank_count, setting, warn):
    """The groups that could be started, by name; all ended on the way out."""
    path = setting.folder / "driver"
    groups = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(256)
        try:
            for library in chosen:
                groups.append(Group(library, rank_count, setting))
            accept(listener, groups, time.monotonic() + START_S)
            for group in groups:
                if not group.is_complete():
                    warn(f"{group.library.name} at {rank_count} ranks did not start: "
                         f"{group.last_words()}")
            yield {group.library.name: group for group in groups if group.is_complete()}
        finally:
            for group in groups:
                group.hang_up()
            deadline = time.monotonic() + LEAVE_S
            for group in groups:
                group.close(deadline)
            path.unlink()
