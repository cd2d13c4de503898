# SPDX-License-Identifier: Apache-2.0
"""`tutti run -H` through a real sshd on loopback: output, codes, signals, and refused logins.

Skipped where sshd is not installed, or cannot run because its folder is missing.
Labels: check cli launch mesh
Timeout: 400
"""
import os
import pathlib
import re
import signal
import sys
import unittest

import cluster
import ranks

TUTTI = str(ranks.BIN / "tutti")
TWO, TWO_TWICE = "127.0.0.2:1,127.0.0.3:1", "127.0.0.2:2,127.0.0.3:2"
SEPARATION = pathlib.Path("/run/sshd")


class Ssh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lacking = cluster.missing(cluster.Sshd.PACKAGES)
        if lacking:
            raise unittest.SkipTest(f"sshd is not installed: {lacking}")
        if os.geteuid() == 0 and not SEPARATION.exists():
            SEPARATION.mkdir(mode=0o755)  # sshd needs it; its service would have made it
            cls.addClassCleanup(SEPARATION.rmdir)
        cls.sshd = cls.enterClassContext(cluster.Sshd())

    def start(self, hosts, *words, shell=None):
        job = ranks.Rank([TUTTI, "run", "--rsh", shell or self.sshd.shell, "-H", hosts, *words],
                         ranks.clean_environment())
        self.addCleanup(job.end)
        return job

    def test_two_hosts_join_and_report_it(self):
        """Two names of this machine, distinguished by a variable, so that links are TCP."""
        apart = ["sh", "-c", 'TUTTI_HOSTID=$((TUTTI_RANK / 2)) exec "$0" "$@"']
        job = self.start(TWO_TWICE, *apart, ranks.WORKER, "init", "describe", "steps:9:mixed:5000",
                         "shutdown", "leaks")
        self.assertEqual(job.code(), 0, job.story())
        for rank in range(4):
            self.assertIsNotNone(job.find(rf"^\[{rank}\] .*rank {rank} of 4"), job.story())
            self.assertIsNotNone(job.find(rf"^\[{rank}\] .*host {rank // 2} of 2"), job.story())
        self.assertEqual(sum("shutdown 0" in line for line in job.lines), 4, job.story())

    def test_this_host_and_another(self):
        job = self.start("localhost:1,127.0.0.2:2", ranks.WORKER, "init", "steps:9:mixed:5000",
                         "shutdown", "leaks")
        self.assertEqual(job.code(), 0, job.story())
        self.assertEqual(sum("shutdown 0" in line for line in job.lines), 3, job.story())

    def test_one_host_by_ssh_shares_memory(self):
        job = self.start("127.0.0.2:3", ranks.WORKER, "init", "describe", "steps:9:mixed:5000",
                         "shutdown", "leaks")
        self.assertEqual(job.code(), 0, job.story())
        self.assertEqual(sum("shutdown 0" in line for line in job.lines), 3, job.story())

    def test_arguments_and_variables_arrive_unchanged(self):
        awkward = "a 'b' \"c\" $HOME `id` \\ * ; #é"
        job = self.start(TWO, "-x", f"AWKWARD={awkward}", "sh", "-c",
                         'printf "%s|%s\\n" "$1" "$AWKWARD"', "sh", awkward)
        self.assertEqual(job.code(), 0, job.story())
        self.assertEqual(sorted(job.lines), [f"[{rank}] {awkward}|{awkward}" for rank in (0, 1)])

    def test_the_exit_code_is_that_of_the_first_rank_that_failed(self):
        job = self.start(TWO, "sh", "-c",
                         'if [ "$TUTTI_RANK" = 1 ]; then exit 7; fi; exec sleep 600')
        self.assertEqual(job.code(), 7, job.story())

    def test_an_interrupt_reaches_the_ranks_behind_ssh(self):
        job = self.start(TWO, "sh", "-c", "echo pid $$; exec sleep 600")
        pids = [int(job.expect(rf"^\[{rank}\] pid (\d+)")[1]) for rank in (0, 1)]
        job.signal(signal.SIGINT)
        self.assertEqual(job.code(), 128 + signal.SIGINT, job.story())
        self.assertEqual([pid for pid in pids if ranks.is_alive(pid)], [])

    def test_ranks_end_with_a_killed_launcher(self):
        job = self.start(TWO, "sh", "-c", "echo pid $$; exec sleep 600")
        pids = [int(job.expect(rf"^\[{rank}\] pid (\d+)")[1]) for rank in (0, 1)]
        job.signal(signal.SIGKILL)
        self.sshd.wait("the end of the ranks",
                       lambda: not any(ranks.is_alive(pid) for pid in pids))

    def test_a_host_that_refuses_the_login_is_named(self):
        job = self.start(TWO, ranks.WORKER, "init",
                         shell=f"{self.sshd.shell} -o PubkeyAuthentication=no")
        self.assertNotEqual(job.code(), 0, job.story())
        said = "\n".join(job.lines + job.log)
        self.assertRegex(said, r"host 127\.0\.0\.[23]", said)
        self.assertIn("Permission denied", said)

    def test_the_secret_is_in_no_command_line(self):
        """Every user of both hosts can read the command line of a remote shell."""
        job = self.start(TWO, "sh", "-c",
                         "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | "
                         "grep -oE '[0-9a-fA-F]{64}' | head -1 | sed 's/^/found /'")
        self.assertEqual(job.code(), 0, job.story())
        self.assertFalse([line for line in job.lines if re.search("found", line)], job.story())


if __name__ == "__main__":
    program = unittest.main(exit=False)
    nothing = program.result.wasSuccessful() and program.result.testsRun == 0
    sys.exit(77 if nothing else not program.result.wasSuccessful())
