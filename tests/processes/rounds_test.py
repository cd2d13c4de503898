# SPDX-License-Identifier: Apache-2.0
"""Training in rounds by real processes: a rank is killed or stopped, hosts have their own rounds,
servers sum.

Labels: asan sync
Needs: tutti-rounds_rank
Timeout: 200
"""
import signal
import unittest

import ranks

TRANSPORTS = ("shm", "tcp")


class Job(ranks.ServedRanks):
    def __init__(self, size, arguments, variables=None, servers=0, **keywords):
        super().__init__("tutti-rounds_rank", size, servers, arguments, variables, **keywords)


class Rounds(unittest.TestCase):
    def end(self, job, size, wanted):
        for rank in range(size):
            self.assertEqual(job[rank].code(), 0, job[rank].story())
            self.assertIn(wanted, job[rank].lines)

    def test_a_killed_rank_is_named_and_weights_are_those_of_the_last_round(self):
        for policy in ("local:period=4", "outer:period=6,lr=0.5"):
            for transport in TRANSPORTS:
                with self.subTest(policy=policy, transport=transport), \
                        Job(3, [policy, 1000000, "hold=200"],
                            {"TUTTI_TRANSPORT": transport}) as job:
                    job[0].expect("^going$")
                    for rank in job.lose(2):
                        rank.expect("^restored$")
                        self.assertEqual(rank.code(), 7, rank.story())
                        self.assertRegex("\n".join(rank.lines), "failed -6 .*rank 2 is down")

    def test_a_stopped_rank_is_waited_for(self):
        with Job(3, ["local:period=2", 400]) as job:
            job[0].expect("^going$")
            job[1].signal(signal.SIGSTOP)
            job[1].signal(signal.SIGCONT)
            self.end(job, 3, "step 400 first 800 last 800")

    def test_hosts_have_rounds_of_their_own(self):
        """Hosts of ranks 0 and 1, and of 2 and 3: 1.5 and 3.5 a step, 2.5 of all after a flush."""
        with Job(4, ["local:inside=1,outside=8", 20], {"TUTTI_TRANSPORT": "auto"},
                 per_rank=lambda rank: {"TUTTI_HOSTID": str(rank // 2)}) as job:
            self.end(job, 4, "step 20 first 50 last 50")

    def test_servers_sum(self):
        with Job(3, ["outer:period=4,lr=1,momentum=0", 10], {"TUTTI_SUM": "server"},
                 servers=2) as job:
            self.end(job, 3, "step 10 first 20 last 20")


if __name__ == "__main__":
    unittest.main()
