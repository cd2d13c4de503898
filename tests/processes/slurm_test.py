# SPDX-License-Identifier: Apache-2.0
"""A real slurmctld with two nodes on this machine: srun and sbatch start ranks that join.

Skipped where Slurm's packages are not installed.
Labels: check cli launch mesh
Timeout: 400
"""
import pathlib
import re
import sys
import time
import unittest

import cluster
import ranks

VERBS = ["init", "describe", "steps:9:mixed:2000", "shutdown", "leaks"]
# The nodes share this machine; these ranks behave as if they did not, so that links between nodes
# are TCP.
APART = ["sh", "-c", 'TUTTI_HOSTID=$SLURM_NODEID exec "$0" "$@"']


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lacking = cluster.missing(cluster.Slurm.PACKAGES)
        if lacking:
            raise unittest.SkipTest(f"Slurm is not installed: {lacking}")
        cls.slurm = cls.enterClassContext(cluster.Slurm())
        cls.home = cls.slurm.folder / "home"
        cls.home.mkdir()
        cls.slurm.environment["HOME"] = str(cls.home)

    def assert_joined(self, text, size, family):
        self.assertEqual(text.count("init 0 ok"), size, text)
        self.assertEqual(text.count("shutdown 0"), size, text)
        self.assertEqual(text.count(f"joined by {family}"), size, text)
        for rank in range(size):
            self.assertIn(f"rank {rank} of {size}", text)

    def srun(self, *words, **more):
        return self.slurm.run("srun", "--chdir", self.home, *words, **more)

    def test_srun_without_a_process_manager(self):
        ended = self.srun("--mpi=none", "-N2", "-n4", ranks.WORKER, *VERBS)
        self.assertEqual(ended.returncode, 0, ended)
        self.assert_joined(ended.stdout, 4, "slurm")

    def test_srun_with_pmi2(self):
        ended = self.srun("--mpi=pmi2", "-N2", "-n4", ranks.WORKER, *VERBS)
        self.assertEqual(ended.returncode, 0, ended)
        self.assert_joined(ended.stdout, 4, "pmi")

    def test_pmi2_carries_the_secret(self):
        ended = self.srun("--mpi=pmi2", "-N2", "-n4", ranks.WORKER, *VERBS, HOME="/nonexistent",
                          XDG_CONFIG_HOME="")
        self.assertEqual(ended.returncode, 0, ended)
        self.assert_joined(ended.stdout, 4, "pmi")

    def test_pmix_carries_the_secret(self):
        """On one node: two nodes of one host need the same directory for their PMIx servers."""
        if not (ranks.BIN.parent / "plugins" / "tutti-pmix.so").exists():
            self.skipTest("the pmix plugin is not built: install libpmix-dev, and build again")
        ended = self.srun("--mpi=pmix", "-N1", "-n3", ranks.WORKER, *VERBS, HOME="/nonexistent",
                          XDG_CONFIG_HOME="", TUTTI_RENDEZVOUS="pmix")
        self.assertEqual(ended.returncode, 0, ended)
        self.assert_joined(ended.stdout, 3, r"engine (pmix)")

    def test_mpi_does_the_collectives(self):
        """Open MPI, started by srun itself; ranks join by Slurm's variables before MPI starts."""
        if not (ranks.BIN.parent / "plugins" / "tutti-mpi-openmpi.so").exists():
            self.skipTest("the MPI plugin is not built: install libopenmpi-dev, and build again")
        for meet, family in ((None, "pmix"), ("mpi", "engine (mpi-openmpi)")):
            more = {"TUTTI_RENDEZVOUS": meet} if meet else {}
            ended = self.srun("--mpi=pmix", "-N1", "-n3", ranks.WORKER, *VERBS[:-1],
                              TUTTI_ENGINE="mpi", **more)
            self.assertEqual(ended.returncode, 0, ended)
            self.assert_joined(ended.stdout, 3, family)
            self.assertEqual(ended.stdout.count("engine mpi-openmpi: Open MPI"), 3, ended)

    def test_servers_behind_workers(self):
        """The line of docs/running.md."""
        jobs = self.home / "jobs"
        jobs.write_text(f"0-1 {ranks.WORKER} {' '.join(VERBS)}\n"
                        f"2-3 {pathlib.Path(ranks.BIN, 'tutti')} server\n")
        ended = self.srun("--mpi=none", "-N2", "-n4", "--multi-prog", jobs, TUTTI_SERVERS="2")
        self.assertEqual(ended.returncode, 0, ended)
        self.assert_joined(ended.stdout, 2, "slurm")

    def test_nodes_are_hosts(self):
        for mpi in ("none", "pmi2"):
            with self.subTest(mpi=mpi):
                ended = self.srun(f"--mpi={mpi}", "-N2", "-n4", "--ntasks-per-node=2", *APART,
                                  ranks.WORKER, *VERBS)
                self.assertEqual(ended.returncode, 0, ended)
                self.assertEqual(ended.stdout.count("shutdown 0"), 4, ended)
                for host in (0, 1):
                    self.assertEqual(len(re.findall(rf"host {host} of 2", ended.stdout)), 2, ended)

    def test_two_steps_of_one_job_at_once(self):
        """A port made from the job's number alone would be the rendezvous of both."""
        step = f"srun --mpi=none --overlap -N2 -n2 {ranks.WORKER} {' '.join(VERBS)}"
        text = self.batch("-N2", "-n4", lines=[f"{step} & one=$!", f"{step} & two=$!",
                                               "wait $one && wait $two"])
        self.assertEqual(text.count("rank 0 of 2"), 2, text)
        self.assertEqual(text.count("shutdown 0"), 4, text)

    def batch(self, *words, lines, wants=0):
        script = self.home / "job.sh"
        script.write_text("\n".join(["#!/bin/sh", *lines, "echo ended $?"]) + "\n")
        output = self.home / f"{self.id()}.out"
        ended = self.slurm.run("sbatch", "--chdir", self.home, "-o", output, *words, script)
        self.assertEqual(ended.returncode, 0, ended)
        deadline = time.monotonic() + ranks.PATIENCE_S
        while True:
            text = output.read_text() if output.exists() else ""
            over = re.search(r"^ended (\d+)$", text, re.MULTILINE)
            if over:
                self.assertEqual(int(over[1]), wants, text)
                return text
            if time.monotonic() > deadline:
                self.fail(f"the batch job never ended: {text}\n{self.slurm.story()}")
            time.sleep(0.05)

    def test_sbatch_script_with_srun(self):
        text = self.batch("-N2", "-n4", lines=[
            f"srun --mpi=none {ranks.WORKER} {' '.join(VERBS)}"])
        self.assert_joined(text, 4, "slurm")

    def test_sbatch_script_without_srun_gets_an_error_with_the_cure(self):
        text = self.batch("-N2", "-n4", lines=[f"{ranks.WORKER} {' '.join(VERBS)}"])
        self.assertIn("rank 0 of 1", text)
        self.assertIn("srun --ntasks=4", text)

    def test_sbatch_script_with_tutti_run(self):
        """`tutti run` in an allocation starts ranks itself; Slurm's variables do not mislead."""
        text = self.batch("-N1", "-n4", lines=[
            f"{pathlib.Path(ranks.BIN, 'tutti')} run -q -n 3 {ranks.WORKER} {' '.join(VERBS)}"])
        self.assert_joined(text, 3, "tutti")

    def test_tutti_run_uses_the_nodes_of_its_allocation(self):
        rsh = self.home / "rsh"
        rsh.write_text("#!/bin/sh\necho \"reached $1\" >&2; export TUTTI_HOSTID=$1; shift\n"
                       "exec sh -c \"$*\"\n")
        rsh.chmod(0o755)
        text = self.batch("-N2", "--ntasks-per-node=2", lines=[
            f"{pathlib.Path(ranks.BIN, 'tutti')} run --rsh {rsh} {ranks.WORKER} {' '.join(VERBS)}"])
        self.assert_joined(text, 4, "tutti")
        self.assertRegex(text, r"4 ranks on 2 of the 2 nodes of Slurm job \d+")
        self.assertEqual(len(re.findall("^reached ", text, re.MULTILINE)), 1, text)

    def test_a_killed_rank_is_named(self):
        ended = self.srun("--mpi=none", "-N2", "-n4", "--kill-on-bad-exit=0", *APART, ranks.WORKER,
                          "init", "steps:3:mixed:1000", "on:3", "die:kill",
                          "storm:allreduce:1000", "shutdown")
        self.assertNotEqual(ended.returncode, 0, ended)
        named = re.findall(r"^failed -6 \d+ \d+ rank 3 is down", ended.stdout, re.MULTILINE)
        self.assertEqual(len(named), 3, ended)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    nothing = program.result.wasSuccessful() and program.result.testsRun == 0
    sys.exit(77 if nothing else not program.result.wasSuccessful())
