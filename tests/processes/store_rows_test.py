# SPDX-License-Identifier: Apache-2.0
"""Rows of tables between real processes: values under every policy, deaths, files, refusals.

Labels: asan tsan sync
Needs: tutti-store_rows
Timeout: 300
"""
import pathlib
import functools
import signal
import tempfile
import unittest

import ranks

Job = functools.partial(ranks.ServedRanks, "tutti-store_rows")


class Values(unittest.TestCase):
    def check(self, workers, servers, *arguments, **variables):
        with Job(workers, servers, arguments, variables) as job:
            self.assertEqual(job.codes(), [0] * (workers + servers),
                             [rank.story() for rank in job])

    def test_every_policy_with_and_without_servers(self):
        for policy in ("bulk", "stale:2", "async", "quorum:2"):
            for servers, transport in ((0, "shm"), (1, "tcp"), (3, "shm"), (3, "tcp")):
                with self.subTest(policy=policy, servers=servers, transport=transport):
                    self.check(3, servers, "count", policy, 12, 4001, 7,
                               TUTTI_TRANSPORT=transport)

    def test_numbers_and_values_that_are_long_frames(self):
        self.check(3, 1, "count", "stale:1", 8, 200000, 1)
        self.check(3, 3, "count", "bulk", 8, 90, 8000, TUTTI_TRANSPORT="tcp")

    def test_sums_have_the_order_of_workers(self):
        for servers in (0, 1, 3):
            for transport in ("shm", "tcp"):
                with self.subTest(servers=servers, transport=transport):
                    self.check(4, servers, "sum", 12, 20000, 8, TUTTI_TRANSPORT=transport)

    def test_short_tables_and_empty_ones(self):
        self.check(1, 0, "count", "async", 6, 1, 1)
        self.check(2, 2, "sum", 6, 0, 5)
        self.check(2, 0, "count", "bulk", 6, 3, 2)

    def test_kept_tables_have_the_bits_of_whole_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            for servers in (0, 3):
                self.check(3, servers, "keep", pathlib.Path(folder) / "table", 2003, 9)

    def test_refusals(self):
        self.check(2, 1, "refuse")


class Deaths(unittest.TestCase):
    """A server is killed in the middle of iterations. Workers hold after 30 of 60 until it has
    ended."""

    def test_sums_go_on_without_a_killed_server(self):
        for servers, rows in ((1, 20000), (2, 20000), (3, 5)):
            with self.subTest(servers=servers, rows=rows), \
                    Job(3, servers, ["sum", 60, rows, 9, "hold=30"]) as job:
                job[0].expect("^going$")
                for rank in job.lose(3):
                    self.assertEqual(rank.code(), 0, rank.story())
                    rank.expect("^done$")

    def test_a_killed_server_is_named(self):
        for policy in ("bulk", "stale:2", "quorum:2"):
            with self.subTest(policy=policy), \
                    Job(3, 2, ["count", policy, 60, 20000, 2, "hold=30"]) as job:
                job[0].expect("^going$")
                for rank in job.lose(3):
                    self.assertEqual(rank.code(), 7, rank.story())
                    rank.expect(r"^failed -6 server 0 \(rank 3\) is gone")


if __name__ == "__main__":
    unittest.main()
