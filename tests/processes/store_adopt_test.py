# SPDX-License-Identifier: Apache-2.0
"""Stores of sums whose servers are killed: their parts go to the owners left.

Labels: asan tsan sync
Needs: tutti-store_adopt
Timeout: 300
"""
import functools
import signal
import unittest

import ranks

Job = functools.partial(ranks.ServedRanks, "tutti-store_adopt")
WORKERS = 3


class Killed(unittest.TestCase):
    def play(self, policy, codec, servers, victims, iterations=150, count=70001):
        """Kill the victims one after the other. An iteration has the same bits on all workers that
        have it, and each death loses at most one of them; under a quorum late calls, too."""
        most = len(victims) if policy == "bulk" else 3 * len(victims)
        with Job(WORKERS, servers, [policy, codec, iterations, count]) as job:
            job[0].expect("^going$")
            for victim in victims:
                job[WORKERS + victim].signal(signal.SIGKILL)
                job[WORKERS + victim].code()
            sums = {}
            for rank in range(WORKERS):
                self.assertEqual(job[rank].code(), 0, job[rank].story())
                job[rank].expect("^done$")
                lost = [line for line in job[rank].lines if line.startswith("lost ")]
                self.assertLessEqual(len(lost), most, lost)
                for line in lost:
                    self.assertRegex(line, r"^lost \d+ server \d \(rank \d\) is gone, and with it")
                for line in job[rank].lines:
                    if line.startswith("sum "):
                        _, iteration, bits = line.split()
                        self.assertEqual(sums.setdefault(iteration, bits), bits, line)
            return sums

    def test_coded_sums_go_on(self):
        for codec in ("int8", "sign", "qsgd:ef=on"):
            for servers, victims in ((1, [0]), (2, [0]), (3, [2, 0])):
                with self.subTest(codec=codec, servers=servers, victims=victims):
                    sums = self.play("bulk", codec, servers, victims)
                    self.assertGreaterEqual(len(sums), 150 - len(victims))

    def test_sums_of_a_quorum_go_on(self):
        """Server 0 is the keeper, which decides whose pushes count."""
        for policy in ("quorum:1", "quorum:2", "quorum:3"):
            for codec in ("none", "int8"):
                for servers, victims in ((1, [0]), (2, [1]), (3, [0]), (3, [0, 1])):
                    with self.subTest(policy=policy, codec=codec, servers=servers,
                                      victims=victims):
                        sums = self.play(policy, codec, servers, victims)
                        self.assertGreaterEqual(len(sums), 150 - 3 * len(victims))

    def test_sums_go_on(self):
        for servers, victims in ((1, [0]), (3, [0, 1])):
            with self.subTest(servers=servers, victims=victims):
                sums = self.play("bulk", "none", servers, victims)
                self.assertGreaterEqual(len(sums), 150 - len(victims))


if __name__ == "__main__":
    unittest.main()
