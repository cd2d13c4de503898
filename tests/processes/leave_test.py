# SPDX-License-Identifier: Apache-2.0
"""A rank that leaves in order, or dies, while others still call: their errors name rank and cause.

Labels: asan
Needs: tutti-worker
Timeout: 400
"""
import unittest

import ranks

PEER_DOWN, PEER_LEFT = -6, -7


class Leave(unittest.TestCase):
    def leave(self, last, status, word, load="allreduce:1000"):
        """Rank 2 of 3 ends with the verbs `last`; the others' calls must fail with `status` and its
        name. That call may be one that rank 2 still took part in. Returns rank 2's codes."""
        codes = []
        for transport in ("shm", "tcp"):
            with self.subTest(last=last, transport=transport, load=load), \
                    ranks.Ranks(3, lambda rank: ["init", f"steps:5:{load}", *last] if rank == 2
                                else ["init", f"storm:{load}", f"try:{load}", "shutdown", "leaks"],
                                variables={"TUTTI_TRANSPORT": transport}) as job:
                for rank in job.ranks[:2]:
                    match = rank.expect(r"^failed (-?\d+) \d+ \d+ (.*)$")
                    self.assertEqual(int(match[1]), status, rank.story())
                    self.assertRegex(match[2], rf"\brank 2\b.*{word}", rank.story())
                    self.assertEqual(rank.code(), 0, rank.story())
                codes.append(job[2].code())
        return codes

    def test_shutdown_is_a_goodbye(self):
        for load in ("allreduce:1", "allreduce:1000000", "broadcast:100000", "alltoall:5000",
                     "barrier"):
            self.assertEqual(self.leave(["shutdown", "leaks"], PEER_LEFT, "left", load), [0, 0])

    def test_exit_without_shutdown_is_a_death(self):
        self.assertEqual(self.leave(["die:exit"], PEER_DOWN, "down"), [0, 0])
        self.assertEqual(self.leave(["die:_exit"], PEER_DOWN, "down"), [0, 0])

    def test_crashes_are_deaths(self):
        for how in ("abort", "segv"):
            self.assertNotIn(0, self.leave([f"die:{how}"], PEER_DOWN, "down"))

    def test_all_leave_at_once(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport), \
                    ranks.Ranks(4, ["init", "steps:3:mixed:1000", "shutdown", "leaks"],
                                variables={"TUTTI_TRANSPORT": transport}) as job:
                self.assertEqual(job.codes(), [0] * 4, [rank.story() for rank in job])

    def test_leaving_is_no_death_on_hosts_of_several_ranks(self):
        """A rank waits for goodbyes of the other host while those of its own exit."""
        for _ in range(10):
            with ranks.Ranks(6, ["init", "steps:3:mixed:1000", "shutdown", "leaks"],
                             per_rank=lambda rank: {"TUTTI_HOSTID": f"host{rank // 3}"}) as job:
                self.assertEqual(job.codes(), [0] * 6, [rank.story() for rank in job])
                self.assertEqual([line for rank in job for line in rank.log if "down" in line], [])

    def test_joining_again_after_leaving(self):
        with ranks.Ranks(3, ["init", "steps:3:mixed:1000", "shutdown", "init",
                             "steps:3:mixed:1000", "shutdown", "leaks"]) as job:
            self.assertEqual(job.codes(), [0] * 3, [rank.story() for rank in job])

    def test_two_deaths_at_once_name_one_of_them(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport), \
                    ranks.Ranks(4, ["init", "storm:allreduce:1000", "shutdown", "leaks"],
                                variables={"TUTTI_TRANSPORT": transport}) as job:
                job.expect("^going$")
                ranks.kill(job[1].pid)
                ranks.kill(job[3].pid)
                for rank in (job[0], job[2]):
                    match = rank.expect(r"^failed (-?\d+) \d+ \d+ (.*)$")
                    self.assertEqual(int(match[1]), PEER_DOWN, rank.story())
                    self.assertRegex(match[2], r"\brank [13]\b", rank.story())
                    self.assertEqual(rank.code(), 0, rank.story())


class Disagree(unittest.TestCase):
    MISMATCH = -5

    def disagree(self, size, odd, other, words, late=False):
        """Rank 1 calls `odd` where the others call `other`; afterwards all agree again. `late`: on
        a rank whose part ended at once the next call returns the error, and fails everywhere."""
        settle = ["try:barrier", "sleep:60"] * 10 + ["try:barrier"]
        for transport in ("shm", "tcp"):
            with self.subTest(odd=odd, other=other, transport=transport), \
                    ranks.Ranks(size, lambda rank: ["init", "steps:3:mixed:100"] +
                                (odd if rank == 1 else other) + (settle if late else []) +
                                ["root:0", "steps:9:mixed:100", "shutdown", "leaks"],
                                variables={"TUTTI_TRANSPORT": transport}) as job:
                self.assertEqual(job.codes(), [0] * size, [rank.story() for rank in job])
                texts = set()
                for rank in job:
                    match = rank.find(r"^failed (-?\d+) (\d+) (\d+) "
                                      r"(?:an earlier call failed on other ranks: )?(.*)$")
                    self.assertIsNotNone(match, rank.story())
                    self.assertEqual(int(match[1]), self.MISMATCH, rank.story())
                    end_ns, took_ns = int(match[2]), int(match[3])
                    self.assertLess(ranks.NAPS.seconds(end_ns - took_ns, end_ns), 2.0, rank.story())
                    texts.add(match[4])
                self.assertEqual(len(texts), 1, texts)
                for word in words:
                    self.assertIn(word, min(texts))

    def test_count(self):
        self.disagree(3, ["try:allreduce:101"], ["try:allreduce:100"], ["rank 1:", "101", "100"])
        self.disagree(2, ["try:allreduce:1000000"], ["try:allreduce:7"], ["1000000", "7"])

    def test_collective(self):
        self.disagree(3, ["try:allgather:100"], ["try:allreduce:100"], ["allgather", "allreduce"])
        self.disagree(4, ["try:barrier"], ["try:alltoall:1000"], ["barrier", "alltoall"])

    def test_root(self):
        for count in (5, 500000):
            self.disagree(3, ["root:1", f"try:broadcast:{count}"],
                          ["root:0", f"try:broadcast:{count}"], ["root 1", "root 0"], late=True)


if __name__ == "__main__":
    unittest.main()
