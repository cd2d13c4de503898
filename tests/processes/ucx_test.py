# SPDX-License-Identifier: Apache-2.0
"""Our algorithms over UCX: its transports, deaths under each, waiting that sleeps.

Conformance and the faults that all transports share are in engines_test.py. Skipped where the
plugin was not built.
Labels: check plugin
Timeout: 400
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import ranks

BUILD = pathlib.Path(os.environ.get("TEST_BUILD", "build")).resolve()
HOSTS = str(ranks.BIN / "tutti-hosts")
TUTTI = str(ranks.BIN / "tutti")
UCX = {"TUTTI_TRANSPORT": "ucx"}


class Ucx(unittest.TestCase):
    def setUp(self):
        if not (BUILD / "plugins" / "tutti-ucx.so").exists():
            self.skipTest("the plugin is not built: install libucx-dev, and build again")

    def run_ranks(self, count, *words, **variables):
        return subprocess.run([TUTTI, "run", "-n", str(count), *words], check=False, text=True,
                              env={**ranks.clean_environment(), **UCX, **variables},
                              capture_output=True, timeout=120)

    def test_over_ucx_tcp_alone(self):
        ended = self.run_ranks(3, HOSTS, UCX_TLS="tcp,self")
        self.assertEqual(ended.returncode, 0, ended)
        self.assertEqual(ended.stdout.count(": ok"), 3, ended)

    def test_between_hosts_with_error_handling_of_ucx(self):
        apart = ["sh", "-c", 'TUTTI_HOSTID=$TUTTI_RANK exec "$0" "$@"']
        ended = self.run_ranks(3, *apart, HOSTS)
        self.assertEqual(ended.returncode, 0, ended)
        self.assertEqual(ended.stdout.count(": ok"), 3, ended)

    def test_one_rank_alone(self):
        ended = self.run_ranks(1, HOSTS)
        self.assertEqual(ended.returncode, 0, ended)

    def test_long_frames_and_many_calls(self):
        with ranks.Ranks(4, ["init", "steps:40:mixed:300000", "steps:200:mixed:100", "shutdown"],
                         UCX) as job:
            self.assertEqual(job.codes(), [0] * 4, [rank.story() for rank in job])

    def assert_death_is_named(self, verb, per_rank=None, **variables):
        with ranks.Ranks(3, ["init", verb, "shutdown"], {**UCX, **variables}, per_rank) as job:
            job.expect("going")
            at_ns = ranks.kill(job[2].pid)
            for rank in (0, 1):
                line = job[rank].expect(r"^failed (-?\d+) (\d+) \d+ (.*)$")
                self.assertEqual(line[1], "-6", line[0])
                self.assertIn("rank 2", line[3])
                self.assertLess(ranks.NAPS.seconds(at_ns, int(line[2])), 2.0, line[0])
                self.assertEqual(job[rank].code(), 0, job[rank].story())

    def test_a_rank_killed_under_long_frames_is_named_within_two_seconds(self):
        """Frames that UCX fetches from their sender, which is dead, or has recalled them."""
        for wires in ("tcp,self", "posix,self"):
            with self.subTest(wires=wires):
                self.assert_death_is_named("storm:allreduce:400000", UCX_TLS=wires)
        self.assert_death_is_named("storm:allreduce:400000",
                                   lambda rank: {"TUTTI_HOSTID": str(rank)})

    def test_waiting_sleeps(self):
        """A rank that waits for another uses no processor time."""
        with ranks.Ranks(2, lambda rank: ["init", "steps:3:mixed:1000",
                                          *(["describe", "wait"] if rank == 1 else ["describe"]),
                                          "steps:3:mixed:1000", "shutdown"], UCX) as job:
            job.expect("describe")
            time.sleep(0.5)  # until the rank waits

            def used():
                text = pathlib.Path(f"/proc/{job[0].pid}/stat").read_text().rsplit(")", 1)[1]
                return sum(int(word) for word in text.split()[11:13]) / os.sysconf("SC_CLK_TCK")
            before = used()
            time.sleep(1.0)
            self.assertLess(used() - before, 0.2)
            job[1].say()
            self.assertEqual(job.codes(), [0, 0], [rank.story() for rank in job])

    def test_an_older_ucx_is_refused_with_both_versions(self):
        text = ("void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release)\n"
                "{ *major = 1; *minor = 3; *release = 0; }\n")
        with tempfile.TemporaryDirectory(prefix="tutti-ucx-") as folder:
            older = f"{folder}/older.so"
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", older], input=text,
                           text=True, check=True)
            ended = self.run_ranks(2, HOSTS, LD_PRELOAD=older)
        self.assertNotEqual(ended.returncode, 0, ended)
        self.assertIn("UCX is version 1.3, the plugin was built for 1.", ended.stderr)

    def test_a_missing_plugin_names_the_package(self):
        with tempfile.TemporaryDirectory(prefix="tutti-ucx-") as folder:
            alone = shutil.copy(HOSTS, folder)
            ended = subprocess.run([alone], capture_output=True, text=True, timeout=60, check=False,
                                   env={**ranks.clean_environment(), **UCX, "HOME": folder})
        self.assertNotEqual(ended.returncode, 0, ended)
        self.assertTrue(re.search("libucx0", ended.stderr), ended)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    nothing = program.result.wasSuccessful() and program.result.testsRun == len(
        program.result.skipped)
    sys.exit(77 if nothing else not program.result.wasSuccessful())
