# SPDX-License-Identifier: Apache-2.0
"""A stopped rank is not dead: the others name it, wait for it at no cost, and the job continues.

Timeout: 400
"""
import signal
import time
import unittest

import ranks

STOP_S = 3.0
CPU_SHARE_MAX = 0.05
CPU_TRIES = 3  # a machine that stalls may count the stall as ours, but not always


class Stop(unittest.TestCase):
    def stop_one(self, transport, load, warning):
        """Rank 1 is stopped between two batches. The others wait for it all the time, and one of
        them logs a line that matches `warning`."""
        for _ in range(CPU_TRIES):
            used = self.cpu_share_of_waiting(transport, load, warning)
            if max(used) < CPU_SHARE_MAX:
                return
        self.fail(f"waiting took {used} of a core")

    def cpu_share_of_waiting(self, transport, load, warning, size=3, victim=1):
        verbs = ["init", f"steps:20:{load}", "cpu", "on:1", "wait", f"steps:1:{load}", "cpu",
                 f"steps:50:{load}", "shutdown", "leaks"]
        variables = {"TUTTI_TRANSPORT": transport, "TUTTI_STALL_WARNING": "1"}
        with ranks.Ranks(size, verbs, variables=variables) as job:
            job[victim].expect("^waiting$")
            job[victim].signal(signal.SIGSTOP)
            others = [rank for index, rank in enumerate(job) if index != victim]
            for rank in others:
                rank.expect(r"^cpu")
            begin = time.monotonic()
            time.sleep(STOP_S)
            while not any(rank.find(warning, rank.log) for rank in others):
                self.assertLess(time.monotonic() - begin, ranks.PATIENCE_S,
                                [rank.story() for rank in others])
                time.sleep(0.1)
            job[victim].signal(signal.SIGCONT)
            waited = time.monotonic() - begin
            job[victim].say()
            self.assertEqual(job.codes(), [0] * size, [rank.story() for rank in job])
            return [float([line for line in rank.lines if line.startswith("cpu")][1].split()[1])
                    / waited for rank in others]

    def test_shared_memory_names_the_stopped_rank(self):
        self.stop_one("shm", "allreduce:1000", r"warn.*rank 1\b.*stopped|warn.*stopped.*rank 1\b")

    def test_shared_memory_continues_after_large_calls(self):
        self.stop_one("shm", "allreduce:1000000", r"warn.*rank 1\b")

    def test_tcp_names_the_missing_rank(self):
        self.stop_one("tcp", "allreduce:100000", r"warn.*waited.*rank 1\b|warn.*rank 1\b.*waited")

    def test_leaving_does_not_wait_for_a_stopped_rank(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport), \
                    ranks.Ranks(3, ["init", "steps:3:mixed:1", "on:1", "wait", "on:0", "wait",
                                    "on:2", "wait", "shutdown", "leaks"],
                                variables={"TUTTI_TRANSPORT": transport}) as job:
                job.expect("^waiting$")
                job[1].signal(signal.SIGSTOP)
                for rank in (job[0], job[2]):
                    rank.say()
                    self.assertEqual(rank.code(), 0, rank.story())
                    self.assertLess(int(rank.find(r"^shutdown 0 (\d+)$")[1]), 20e9, rank.story())
                job[1].signal(signal.SIGCONT)
                job[1].say()
                self.assertEqual(job[1].code(), 0, job[1].story())

    def test_a_death_is_named_while_another_rank_is_stopped(self):
        """The stopped one may be storing into the others' memory; they need not wait for it."""
        for load in ("allreduce:1000", "allreduce:2000000"):
            for transport in ("shm", "tcp"):
                with self.subTest(load=load, transport=transport), \
                        ranks.Ranks(4, ["init", "memory:arena", f"storm:{load}", "shutdown",
                                        "leaks"], variables={"TUTTI_TRANSPORT": transport,
                                                             "TUTTI_GOODBYE": "0.2"}) as job:
                    job.expect("^going$")
                    job[1].signal(signal.SIGSTOP)
                    at_ns = ranks.kill(job[2].pid)
                    for rank in (job[0], job[3]):
                        match = rank.expect(r"^failed -6 (\d+) \d+ rank 2 is down")
                        self.assertLess(ranks.NAPS.seconds(at_ns, int(match[1])), 2.0, rank.story())
                        self.assertEqual(rank.code(), 0, rank.story())
                    job[1].signal(signal.SIGCONT)
                    self.assertEqual(job[1].code(), 0, job[1].story())

    def names_the_stopped(self, load, transport, patience):
        """Calls that wait for the stopped rank 1 fail by a deadline. True: all of them name it."""
        with ranks.Ranks(3, ["init", "memory:arena", f"storm:{load}", "shutdown", "leaks"],
                         variables={"TUTTI_TRANSPORT": transport, "TUTTI_GOODBYE": "0.2",
                                    "TUTTI_TIMEOUT": patience}) as job:
            job.expect("^(going$|failed)")
            job[1].signal(signal.SIGSTOP)
            for rank in (job[0], job[2]):
                rank.expect(r"^failed -[78] ")
                self.assertEqual(rank.code(), 0, rank.story())
            job[1].signal(signal.SIGCONT)
            self.assertEqual(job[1].code(), 0, job[1].story())
            return all(rank.find(r"^failed -[78] \d+ \d+ .*ranks? (\d+, )*1\b")
                       for rank in (job[0], job[2]))

    def test_a_deadline_ends_a_call_with_a_stopped_rank(self):
        """Half a second is enough unless the machine stalls; then calls of ranks that run fail."""
        for load in ("allreduce:1000", "allreduce:2000000"):
            for transport in ("shm", "tcp"):
                with self.subTest(load=load, transport=transport):
                    self.assertTrue(any(self.names_the_stopped(load, transport, patience)
                                        for patience in ("0.5", "4", "12")))

    def expires(self, victim, transport, patience_s):
        """A named call whose frames the stopped rank cannot get ends in time, and names it; the
        call of the late rank fails with the same error; later calls match. Returns the delay."""
        verbs = ["init", "steps:2:named:10", f"on:{victim}", "wait", "try:named:10", "wait",
                 "steps:3:named:10", "shutdown", "leaks"]
        with ranks.Ranks(3, verbs, variables={"TUTTI_TRANSPORT": transport,
                                              "TUTTI_TIMEOUT": str(patience_s)}) as job:
            job[victim].expect("^waiting$")
            job[victim].signal(signal.SIGSTOP)
            late_s = 0.0
            for rank in (rank for index, rank in enumerate(job) if index != victim):
                match = rank.expect(rf"^failed -8 \d+ (\d+) tensor .*missing.*ranks? .*{victim}\b")
                late_s = max(late_s, int(match[1]) / 1e9 - patience_s)
            job[victim].signal(signal.SIGCONT)
            job[victim].say()
            job[victim].expect("^failed -8 .*gave up")
            for rank in job:
                rank.say()
            self.assertEqual(job.codes(), [0] * 3, [rank.story() for rank in job])
            return late_s

    def test_a_named_call_ends_at_its_deadline(self):
        """Within 0.2 s, unless the machine stalls; then a later try shows it."""
        for victim in (0, 1):
            for transport in ("shm", "tcp"):
                with self.subTest(victim=victim, transport=transport):
                    self.assertTrue(any(self.expires(victim, transport, patience_s) < 0.2
                                        for patience_s in (1, 1.5, 2, 4)))

    def test_a_stop_in_the_middle_of_calls_is_survived(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport), \
                    ranks.Ranks(3, ["init", "steps:3:mixed:1", "describe",
                                    "steps:150:mixed:30000", "shutdown", "leaks"],
                                variables={"TUTTI_TRANSPORT": transport}) as job:
                job.expect("^describe")
                for _ in range(5):
                    for rank in job:
                        rank.signal(signal.SIGSTOP)
                        time.sleep(0.01)
                        rank.signal(signal.SIGCONT)
                self.assertEqual(job.codes(), [0] * 3, [rank.story() for rank in job])


if __name__ == "__main__":
    unittest.main()
