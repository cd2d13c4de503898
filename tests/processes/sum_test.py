# SPDX-License-Identifier: Apache-2.0
"""TUTTI_SUM=server between real processes: a server dies, and the workers make the sums.

Labels: asan tsan sync
Needs: tutti-sum_rank
Timeout: 300
"""
import signal
import time
import unittest

import ranks

WORKERS, TENSORS = 3, 5


def job_of(servers, steps, hosts=None, words=(), **variables):
    """Workers that make so many steps, and servers that sum."""
    return ranks.ServedRanks("tutti-sum_rank", WORKERS, servers, [steps, *words],
                             {"TUTTI_SUM": "server", **variables},
                             per_rank=lambda rank: {} if hosts is None else
                             {"TUTTI_HOSTID": hosts[rank]})


class Deaths(unittest.TestCase):
    def check(self, servers, kills, hosts=None, **variables):
        """In the middle of steps. Workers hold after 30 of 60 until the servers have ended."""
        with job_of(servers, 60, hosts, ("hold=30",), **variables) as job:
            for rank in range(WORKERS):
                job[rank].expect("^going$")
            job.lose(*range(WORKERS, WORKERS + kills))
            self.assertEqual([job[rank].code() for rank in range(WORKERS)], [0] * WORKERS,
                             job.stories())
            job[0].expect(r"server \d .* is gone; from now on the workers make the sums",
                          of_log=True)
            for rank in range(WORKERS):
                job[rank].expect("^done$")
                lost = [line for line in job[rank].lines if line.startswith("lost")]
                self.assertLessEqual(len(lost), 2 * TENSORS, lost)

    def test_workers_go_on_without_a_server(self):
        for servers in (1, 2, 3):
            for transport in ("shm", "tcp"):
                with self.subTest(servers=servers, transport=transport):
                    self.check(servers, 1, TUTTI_TRANSPORT=transport)

    def test_workers_go_on_without_any(self):
        self.check(2, 2)

    def test_hosts_that_sum_first_go_on_too(self):
        self.check(2, 1, hosts="aabcd")


class Stops(unittest.TestCase):
    def check(self, victim, name, hosts=None, **variables):
        """`victim` is stopped while nobody calls, so all wait for it in the next step."""
        with job_of(2, 20, hosts, ("hold",), **variables) as job:
            for rank in range(WORKERS):
                job[rank].expect("^going$")
            job[victim].signal(signal.SIGSTOP)
            for rank in range(WORKERS):
                job[rank].say()
            if hosts is not None or "TUTTI_TRANSPORT" in variables:  # TCP does not notice
                time.sleep(0.2)
            else:
                job[0].expect(rf"{name} .*does not respond.*waiting for it", of_log=True)
            for rank in range(WORKERS):
                self.assertIsNone(job[rank].process.poll(), job[rank].story())
            job[victim].signal(signal.SIGCONT)
            self.assertEqual(job.codes(), [0] * (WORKERS + 2), job.stories())
            for rank in range(WORKERS):
                job[rank].expect("^done$")
                self.assertIsNone(job[rank].find("^lost"), job[rank].story())

    def test_a_stopped_server_is_waited_for(self):
        server = r"server 0 \(rank 3\)"
        self.check(WORKERS, server)
        self.check(WORKERS, server, TUTTI_TRANSPORT="tcp")

    def test_hosts_that_sum_first_wait_too(self):
        self.check(WORKERS, r"server 0 \(rank 3\)", hosts="aabcd")

    def test_a_stopped_worker_is_waited_for(self):
        self.check(1, "rank 1")


class Life(unittest.TestCase):
    def test_without_a_death(self):
        for servers in (0, 2):
            with self.subTest(servers=servers), job_of(servers, 20) as job:
                self.assertEqual(job.codes(), [0] * (WORKERS + servers), job.stories())


if __name__ == "__main__":
    unittest.main()
