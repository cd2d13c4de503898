# SPDX-License-Identifier: Apache-2.0
"""kill -9 of a process of a store: how soon calls end, or the others go on.

The documented bound is 1 s from the proof of the death. Ranks print the times of their calls, on
the monotonic clock; they are compared in naps, and with 2 s, since the machine may be busy. What
the calls return is tested by store_test.py.

Labels: asan sync
Needs: tutti-store_rank
Timeout: 300
"""
import functools
import re
import unittest

import ranks

Job = functools.partial(ranks.ServedRanks, "tutti-store_rank")
LATENCY_S_MAX = 2.0
TRANSPORTS = ("shm", "tcp")


def summary(seconds):
    ordered = sorted(seconds)
    return f"median {ordered[len(ordered) // 2]:.4f} s, longest {ordered[-1]:.4f} s"


class Bounds(unittest.TestCase):
    """Workers hold after 200 iterations until the victim has ended, if they come so far before."""
    MIDDLE = [250, 6000, "alone", "hold=200", "times"]
    ends, goings_on = [], []

    def kill(self, job, victim):
        """The time, and the workers left."""
        job[0].expect("^going$")
        at_ns = ranks.kill(job[victim].pid)
        return at_ns, job.go_on_without(victim)

    def check(self, rank, begin_ns, end_ns, into):
        into.append((end_ns - begin_ns) / 1e9)
        self.assertLess(ranks.NAPS.seconds(begin_ns, end_ns), LATENCY_S_MAX, rank.story())

    def test_calls_end_after_the_death_of_a_server(self):
        for policy in ("bulk", "stale:2", "async", "quorum:2"):
            for transport in TRANSPORTS:
                with self.subTest(policy=policy, transport=transport), \
                        Job(3, 2, [policy, "add", *self.MIDDLE],
                            {"TUTTI_TRANSPORT": transport}) as job:
                    at_ns, others = self.kill(job, 3)
                    for rank in others:
                        self.assertEqual(rank.code(), 7, rank.story())
                        self.check(rank, at_ns, int(rank.expect(r"^ended (\d+)$")[1]), self.ends)

    def test_others_go_on_after_the_death_of_a_worker(self):
        """No two iterations are further apart, nor the death and the next one."""
        for policy in ("stale:2", "async", "quorum:2", "quorum:3"):
            for transport in TRANSPORTS:
                with self.subTest(policy=policy, transport=transport), \
                        Job(3, 3, [policy, "add", *self.MIDDLE],
                            {"TUTTI_TRANSPORT": transport}) as job:
                    at_ns, others = self.kill(job, 1)
                    for rank in others:
                        self.assertEqual(rank.code(), 0, rank.story())
                        found = [re.match(r"at (\d+)$", line) for line in rank.lines]
                        times = [at_ns, *(ns for ns in (int(one[1]) for one in found if one)
                                          if ns > at_ns)]
                        self.assertGreater(len(times), 1, rank.story())
                        longest = max(zip(times, times[1:]), key=lambda pair: pair[1] - pair[0])
                        self.check(rank, *longest, self.goings_on)

    @classmethod
    def tearDownClass(cls):
        for what, seconds in (("from a kill to the error", cls.ends),
                              ("until the others went on", cls.goings_on)):
            if seconds:
                print(f"{len(seconds)} workers; {what}: {summary(seconds)}")


if __name__ == "__main__":
    unittest.main()
