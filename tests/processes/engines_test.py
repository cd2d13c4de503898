# SPDX-License-Identifier: Apache-2.0
"""One table: the conformance suite and faults, by name, over every transport and engine.

The rows are our transports (shm, tcp), a plugin's (ucx), the MPI engine by each MPI, both again
with control messages over MPI, and the example of an outsider (zmq); the columns are the parts of
`tutti-conformance` and the faults below. Tests of one row alone are in ucx_test.py and mpi_test.py;
there and in plugin_test.py the last three rows conform. A row whose plugin or launcher is missing
is skipped with a message.
Labels: check plugin
Timeout: 600
"""
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest

import ranks

BUILD = pathlib.Path(os.environ.get("TEST_BUILD", "build")).resolve()
ENGINE = str(ranks.BIN / "tutti-conformance")
TUTTI = str(ranks.BIN / "tutti")
ROOT = ["--allow-run-as-root"] if os.geteuid() == 0 else []
# The launcher stops all ranks when one dies; here they first print what they saw.
OURS = [TUTTI, "run", "-q", "--grace", "10"]
OPEN = ["mpirun.openmpi", *ROOT, "--oversubscribe"]
# Hydra may end all ranks of the dead one's host whatever its options: two "hosts".
APART = ["-disable-auto-cleanup", "-launcher", "fork", "-hosts", "a:2,b:1"]
OPEN_RECOVERY = {"OMPI_MCA_orte_enable_recovery": "1"}
HYDRA = ["mpirun.mpich"]
# MPICH's UCX ends a process that was about to read memory of a dead one (cma_ep.c).
HYDRA_RECOVERY = {"HYDRA_AUTO_CLEANUP": "0", "UCX_TLS": "^cma"}
LINKS = {"TUTTI_ENGINE": "mpi", "TUTTI_CONTROL_TRANSPORT": "mpi"}
PARTS = ("forms", "together", "sets", "named", "urgent", "mismatch", "deadline")
VICTIM = 2
PEER_DOWN = -6
DEATH_S_MAX = 2.0
# Ranks that wait keep polling MPI: on a busy machine they keep the one that reports off its core.
DEATH_S_MAX_ASKING = 10.0


class Row:
    """A transport or engine. `faulty`, `recovery`: arguments and variables for the launcher of jobs
    whose ranks die."""

    def __init__(self, launcher, variables, plugin=None, faulty=(), recovery=None, survivors=2):
        self.launcher, self.variables, self.plugin = launcher, variables, plugin
        self.faulty, self.recovery, self.survivors = list(faulty), recovery or {}, survivors
        self.may_end_all = survivors < 2
        self.death_s_max = DEATH_S_MAX_ASKING if recovery else DEATH_S_MAX

    def missing(self):
        if self.plugin and not (BUILD / "plugins" / f"tutti-{self.plugin}.so").exists():
            return f"the plugin {self.plugin} is not built"
        return None if shutil.which(self.launcher[0]) else f"{self.launcher[0]} is not installed"


FAULTS_ONLY = ("openmpi_links", "mpich_links", "zmq")
ROWS = {
    "shm": Row(OURS, {"TUTTI_TRANSPORT": "shm"}),
    "tcp": Row(OURS, {"TUTTI_TRANSPORT": "tcp"}),
    "ucx": Row(OURS, {"TUTTI_TRANSPORT": "ucx"}, "ucx"),
    "openmpi": Row(OPEN, {"TUTTI_ENGINE": "mpi"}, "mpi-openmpi", recovery=OPEN_RECOVERY),
    # The launcher may still end a survivor, on a busy machine both: then the job is run again.
    "mpich": Row(HYDRA, {"TUTTI_ENGINE": "mpi"}, "mpi-mpich", APART, HYDRA_RECOVERY, survivors=1),
    "openmpi_links": Row(OPEN, LINKS, "mpi-openmpi", recovery=OPEN_RECOVERY),
    "mpich_links": Row(HYDRA, LINKS, "mpi-mpich", APART, HYDRA_RECOVERY, survivors=1),
    "zmq": Row(OURS, {"TUTTI_ENGINE": "zmq"}, "zmq"),
}


class Job(ranks.Rank):
    """All ranks below one launcher; each leaves its process number in the folder."""

    def __init__(self, row, count, words, faulty=False, wrapper=""):
        self.home = tempfile.TemporaryDirectory(prefix="tutti-engines-")
        number = "${TUTTI_RANK-${OMPI_COMM_WORLD_RANK-$PMI_RANK}}"
        shell = f'trap "" TERM; n={number}; echo $$ > "$HOME/$n"; {wrapper} exec "$0" "$@"'
        super().__init__([*row.launcher, *(row.faulty if faulty else []), "-n", str(count),
                          "sh", "-c", shell, *words],
                         {**ranks.clean_environment(), **row.variables,
                          **(row.recovery if faulty else {}), "HOME": self.home.name,
                          "ZMQ_ENGINE_ADDRESS": f"ipc://{self.home.name}/sums"})

    def rank_pid(self, rank):
        return int(pathlib.Path(self.home.name, str(rank)).read_text())

    def count(self, pattern):
        """Searches all lines: mpirun may put those of two ranks into one."""
        return sum(len(re.findall(pattern, line)) for line in [*self.lines, *self.log])

    def expect_many(self, pattern, count):
        deadline = time.monotonic() + ranks.PATIENCE_S
        with self.changed:
            while self.count(pattern) < count:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"not {count} lines like {pattern!r}: {self.lines[-20:]} "
                                         f"{self.log[-20:]}")
                self.changed.wait(min(left, 0.5))

    def was_ended(self, last):
        """True: all ranks were killed before one of them could print its last line. Some may have
        reported the victim by then. A rank that ends by itself, by an assertion, an abort or a
        fault, leaves other lines or a core."""
        deadline = time.monotonic() + ranks.PATIENCE_S
        while time.monotonic() < deadline and not self.count(last):
            if not any(pathlib.Path(f"/proc/{self.rank_pid(rank)}").exists() for rank in (0, 1)):
                with self.changed:
                    self.changed.wait(0.5)  # their output may be in flight
                other = [line for line in self.log if f"rank {VICTIM} is down" not in line]
                return not self.count(last) and not other
            with self.changed:
                self.changed.wait(0.1)
        return False

    def end(self):
        for rank in pathlib.Path(self.home.name).glob("[0-9]*"):
            try:
                os.kill(int(rank.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                pass
        super().end()
        self.home.cleanup()


class Table(unittest.TestCase):
    def start(self, row, count, words, **keywords):
        job = Job(row, count, words, **keywords)
        self.addCleanup(job.end)
        return job

    def conforms(self, row):
        for size in (2, 3):
            job = self.start(row, size, [ENGINE])
            self.assertEqual(job.code(), 0, job.story())
            for rank in range(size):
                self.assertEqual(job.count(rf"rank {rank} of {size}: ok"), 1, job.story())
            for part in PARTS:
                self.assertEqual(job.count(rf"\bpart {part}\b"), size, job.story())

    # ---- faults ----

    def dies(self, row, load):
        """A rank is killed inside calls: the others' calls fail in time and name it; no later call
        works, and they can leave."""
        told = rf"failed {PEER_DOWN} (\d+) \d+ .*?\brank {VICTIM}\b"
        for _ in range(5):
            job = self.start(row, 3, [ranks.WORKER, "init", f"storm:{load}",
                                      "try:allreduce:1000", "shutdown"], faulty=True)
            job.expect_many("going", 3)
            at_ns = ranks.kill(job.rank_pid(VICTIM))
            if not row.may_end_all or not job.was_ended("shutdown 0"):
                break
        job.expect_many(told, row.survivors)
        for line in job.lines:
            match = re.search(told, line)
            self.assertLess(ranks.NAPS.seconds(at_ns, int(match[1])) if match else 0,
                            row.death_s_max, line)
        job.expect_many("shutdown 0", row.survivors)
        self.assertEqual(job.count("succeeded"), 0, job.story())
        self.assertGreaterEqual(job.count(rf"failed -\d+ .*?\brank {VICTIM}\b"), 2 * row.survivors)

    def killed_in_small_calls(self, row):
        self.dies(row, "allreduce:1000")

    def killed_in_long_calls(self, row):
        self.dies(row, "allreduce:400000")

    def stopped_is_waited_for(self, row):
        """A stopped rank is not dead: no call fails, and the job continues with it."""
        job = self.start(row, 3, [ranks.WORKER, "init", "steps:3:mixed:2000", f"on:{VICTIM}",
                                  "stop", "steps:3:mixed:2000", "shutdown"])
        victim = self.wait_until_stopped(job)
        time.sleep(1.0)  # longer than any interval between signs of life
        self.assertEqual(job.count("failed|shutdown"), 0, job.story())
        os.kill(victim, signal.SIGCONT)
        self.assertEqual(job.code(), 0, job.story())
        self.assertEqual(job.count("shutdown 0"), 3, job.story())

    def wait_until_stopped(self, job):
        deadline = time.monotonic() + ranks.PATIENCE_S
        while time.monotonic() < deadline:
            try:
                pid = job.rank_pid(VICTIM)
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            except (FileNotFoundError, ValueError):
                state = ""
            if state == "T":
                return pid
            time.sleep(0.01)
        raise AssertionError(job.story())

    def leaves_in_order(self, row):
        """A rank that shuts down while others still call: theirs fail, it is named, no hang."""
        job = self.start(row, 3, [ranks.WORKER, "init", "steps:3:mixed:2000", f"on:{VICTIM}",
                                  "shutdown", f"on:{VICTIM}", "die:exit", "try:allreduce:1000",
                                  "shutdown"], faulty=True)
        job.expect_many(rf"failed -\d+ \d+ \d+ .*?\brank {VICTIM}\b", 2)
        job.expect_many("shutdown 0", 3)

    def half_without_it(self, row):
        """Ranks with another transport or engine are refused when they join; both are named."""
        gone, want = "export TUTTI_TRANSPORT=ucx", r"no engine, rank 2 on \S+ uses engine ucx"
        if row.variables == LINKS:
            gone, want = "unset TUTTI_CONTROL_TRANSPORT", None
        elif row.plugin:
            name = row.plugin.replace("mpi-", "")
            gone = "unset TUTTI_ENGINE; export TUTTI_TRANSPORT=tcp"
            want = rf"engine {name}, rank 2 on \S+ uses no engine"
        for _ in range(5):
            job = self.start(row, 3, [ranks.WORKER, "init", "shutdown"],
                             wrapper=f"case $n in {VICTIM}) {gone};; esac;")
            self.assertNotEqual(job.code(), 0, job.story())
            if not job.count("process manager error"):
                break  # else mpiexec failed with the ranks that ended, and lost their output
        want = f"rank 0 uses {want}" if want else r"rank 2 on \S+ runs with other settings than"
        self.assertGreaterEqual(job.count(want), 1, job.story())


    def one_without_its_file(self, row):
        """A rank whose plugin is missing is refused by all, with both sides named; its error names
        the package to install."""
        alone = f'case $n in {VICTIM}) cp "$0" "$HOME/alone"; exec "$HOME/alone" "$@";; esac;'
        for _ in range(20):
            job = self.start(row, 3, [ranks.WORKER, "init", "shutdown"], faulty=True, wrapper=alone)
            job.code()
            if not row.may_end_all or job.count(r"init -\d+ .*there is no plugin"):
                break  # else the launcher ended it before
        name = row.plugin.replace("mpi-", "")
        self.assertGreaterEqual(
            job.count(rf"init -\d+ rank 0 uses engine {name}, rank {VICTIM} on \S+ cannot load"),
            1 if row.may_end_all else 3, job.story())
        self.assertEqual(job.count(rf"cannot load .*there is no plugin tutti-{row.plugin}\.so"), 1)


FAULTS = (Table.killed_in_small_calls, Table.killed_in_long_calls, Table.stopped_is_waited_for,
          Table.leaves_in_order, Table.half_without_it, Table.one_without_its_file)


def add(name, row, check):
    def test(self):
        missing = row.missing()
        if missing:
            self.skipTest(missing)
        check(self, row)
    test.__doc__ = check.__doc__
    setattr(Table, f"test_{name}_{check.__name__}", test)


for row_name, one_row in ROWS.items():
    for one_check in FAULTS if row_name in FAULTS_ONLY else (Table.conforms, *FAULTS):
        if one_check is Table.half_without_it and not one_row.plugin \
                and ROWS["ucx"].missing():
            continue
        if one_check is Table.one_without_its_file and not one_row.plugin:
            continue
        add(row_name, one_row, one_check)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    sys.exit(not program.result.wasSuccessful())
