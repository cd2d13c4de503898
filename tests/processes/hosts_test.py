# SPDX-License-Identifier: Apache-2.0
"""Two hosts on one machine: network namespaces joined by a bridge, over IPv4 and IPv6.

Skipped where namespaces may not be made (needs root). All that is made is removed.
Timeout: 400
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import ranks

TUTTI = str(ranks.BIN / "tutti")
MARK = f"tt{os.getpid() % 100000}"


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(cls.remove_hosts)
        try:
            cls.make_hosts()
        except (OSError, subprocess.CalledProcessError) as error:
            raise unittest.SkipTest(f"no network namespaces here: {error}") from None
        cls.folder = tempfile.TemporaryDirectory(prefix="tutti-hosts-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.shell = pathlib.Path(cls.folder.name, "shell")
        cls.shell.write_text(
            "#!/bin/sh\n"
            "# A remote shell: host, then the command; the last digit of the address is the host.\n"
            f'host=$1; shift; exec ip netns exec {MARK}h${{host#"${{host%?}}"}} sh -c "$*"\n')
        cls.shell.chmod(0o755)

    @classmethod
    def make_hosts(cls):
        ip("netns", "add", f"{MARK}sw")
        ip("-n", f"{MARK}sw", "link", "add", "bridge", "type", "bridge")
        ip("-n", f"{MARK}sw", "link", "set", "bridge", "up")
        for host in ("1", "2"):
            name = f"{MARK}h{host}"
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "add", "wire", "type", "veth", "peer", "name", f"port{host}",
               "netns", f"{MARK}sw")
            ip("-n", f"{MARK}sw", "link", "set", f"port{host}", "master", "bridge", "up")
            ip("-n", name, "address", "add", f"10.77.0.{host}/24", "dev", "wire")
            ip("-n", name, "address", "add", f"fd77::{host}/64", "dev", "wire", "nodad")
            ip("-n", name, "link", "set", "wire", "up")

    @classmethod
    def remove_hosts(cls):
        for name in ("h1", "h2", "sw"):
            if shutil.which("ip"):
                ip("netns", "del", MARK + name, check=False)

    def start(self, hosts, *verbs, variables=()):
        environment = ranks.clean_environment()
        command = [TUTTI, "run", "-q", "-H", hosts, "--rsh", str(self.shell), "--grace", "10",
                   *(word for name in variables for word in ("-x", name)),
                   # The launcher stops all ranks when one dies; these first print what they saw.
                   "sh", "-c", 'trap "" TERM; exec "$0" "$@"', ranks.WORKER, *verbs]
        job = ranks.Rank(command, environment)
        self.addCleanup(job.end)
        return job

    def works(self, hosts, variables=()):
        job = self.start(hosts, "init", "describe", "steps:21:mixed:5000", "steps:3:mixed:400000",
                         "shutdown", "leaks", variables=variables)
        self.assertEqual(job.code(), 0, job.story())
        described = "\n".join(line for line in job.lines if "describe" in line)
        self.assertEqual(len(re.findall(r"host [01] of 2", described)), 4, described)
        self.assertEqual(len(re.findall(r"local [01] of 2", described)), 4, described)
        self.assertEqual(sum("shutdown 0" in line for line in job.lines), 4, job.story())

    FOUR, SIX = "10.77.0.1:2,10.77.0.2:2", "[fd77::1]:2,[fd77::2]:2"

    def test_ipv4(self):
        self.works(self.FOUR)
        self.works(self.FOUR, ["TUTTI_ALGORITHM=hierarchical"])
        self.works(self.FOUR, ["TUTTI_INTEGRITY=aead"])
        self.works(self.FOUR, ["TUTTI_TRANSPORT=tcp"])
        self.works(self.FOUR, ["TUTTI_SOCKETS=3"])
        self.works(self.FOUR, ["TUTTI_ALGORITHM=hierarchical", "TUTTI_RAILS=1"])

    def test_ipv6(self):
        self.works(self.SIX)

    def survives_a_second(self, hosts, steps):
        """False: the ranks were done before the link was down."""
        job = self.start(hosts, "init", "steps:3:mixed:1000", "describe",
                         f"steps:{steps}:mixed:3000", "shutdown", "leaks")
        job.expect("describe")
        ip("-n", f"{MARK}sw", "link", "set", "port2", "down")
        time.sleep(1.0)
        was_in_time = job.process.poll() is None
        ip("-n", f"{MARK}sw", "link", "set", "port2", "up")
        self.assertEqual(job.code(), 0, job.story())
        return was_in_time

    def test_a_link_that_is_down_for_a_second_is_survived(self):
        for hosts in (self.FOUR, self.SIX):
            with self.subTest(hosts=hosts):
                self.assertTrue(any(self.survives_a_second(hosts, steps)
                                    for steps in (1500, 6000, 24000)))

    def test_a_killed_rank_is_named_on_both_hosts(self):
        job = self.start(self.FOUR, "init", "steps:3:mixed:1000", "on:3", "sleep:300", "on:3",
                         "die:kill", "storm:allreduce:1000", "shutdown", "leaks")
        self.assertEqual(job.code(), 128 + signal.SIGKILL, job.story())
        for rank in (0, 1, 2):
            line = job.find(rf"^\[{rank}\] failed (-?\d+) \d+ (\d+) (.*)$")
            self.assertIsNotNone(line, job.lines)
            self.assertEqual(line[1], "-6", line[0])
            self.assertIn("rank 3", line[3])

    def test_a_host_that_vanishes_is_named(self):
        job = self.start(self.FOUR, "init", "steps:3:mixed:1000", "describe",
                         "storm:allreduce:100000", "shutdown",
                         variables=["TUTTI_KEEPALIVE=3"])
        job.expect("describe")
        ip("-n", f"{MARK}sw", "link", "set", "port2", "down")
        try:
            # The other may get the goodbye of this one, and its line may be first.
            job.expect(r"^\[[01]\] failed -6 \d+ \d+ .*rank [23]\b")
        finally:
            ip("-n", f"{MARK}sw", "link", "set", "port2", "up")


if __name__ == "__main__":
    program = unittest.main(exit=False)
    nothing = program.result.wasSuccessful() and program.result.testsRun == 0
    sys.exit(77 if nothing else not program.result.wasSuccessful())
