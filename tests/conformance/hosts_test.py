# SPDX-License-Identifier: Apache-2.0
"""Ranks placed on several hosts: shared memory inside, TCP between. The hosts are only names.

Labels: asan tsan
Needs: tutti-hosts
Timeout: 400
"""
import os
import pathlib
import secrets
import socket
import subprocess
import unittest

PROGRAM = str(pathlib.Path(os.environ.get("TEST_BIN", "build/bin")) / "tutti-hosts")
PATIENCE_S = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_on(hosts, **settings):
    """Run one rank for each name in `hosts`; returns their output, in rank order."""
    common = dict(os.environ, TUTTI_SIZE=str(len(hosts)), TUTTI_JOB_ID="hosts",
                  TUTTI_RENDEZVOUS=f"tcp://127.0.0.1:{free_port()}",
                  TUTTI_SECRET=secrets.token_hex(32), **settings)
    ranks = [subprocess.Popen([PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=dict(common, TUTTI_RANK=str(rank), TUTTI_HOSTID=host))
             for rank, host in enumerate(hosts)]
    try:
        return [(rank.communicate(timeout=PATIENCE_S)[0], rank.returncode) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


class Hosts(unittest.TestCase):
    def check(self, hosts, **settings):
        names = list(dict.fromkeys(hosts))
        for rank, (text, code) in enumerate(run_on(hosts, **settings)):
            self.assertEqual(code, 0, text)
            self.assertIn(f"rank {rank} of {len(hosts)} on host {names.index(hosts[rank])} of "
                          f"{len(names)}: ok", text)

    def test_two_hosts_of_two(self):
        self.check("aabb")

    def test_ranks_of_hosts_may_interleave(self):
        self.check("abab")

    def test_two_hosts_of_three(self):
        self.check("aaabbb")

    def test_hosts_may_differ_in_size(self):
        self.check("aaab")
        self.check("baaa")

    def test_the_hierarchy_can_be_forced(self):
        self.check("aabb", TUTTI_ALGORITHM="hierarchical")
        self.check("aaab", TUTTI_ALGORITHM="hierarchical")

    def test_several_threads_of_a_rank_encrypt(self):
        for hosts, settings in (("ab", {}), ("abc", {"TUTTI_SOCKETS": "2"}),
                                ("aabb", {"TUTTI_ALGORITHM": "hierarchical"})):
            with self.subTest(hosts=hosts):
                self.check(hosts, TUTTI_INTEGRITY="aead", TUTTI_THREADS="3", **settings)


if __name__ == "__main__":
    unittest.main()
