# SPDX-License-Identifier: Apache-2.0
"""Stores between real processes: values under every policy, and what a death does.

Labels: asan tsan sync
Needs: tutti-store_rank
Timeout: 300
"""
import functools
import signal
import time
import unittest

import ranks

Job = functools.partial(ranks.ServedRanks, "tutti-store_rank")


class Values(unittest.TestCase):
    def check(self, workers, servers, *arguments, **variables):
        with Job(workers, servers, [*map(str, arguments)], variables) as job:
            self.assertEqual(job.codes(), [0] * (workers + servers), job.stories())
            for rank in range(workers):
                job[rank].expect("^done$")

    def test_every_policy_with_and_without_servers(self):
        for policy in ("bulk", "stale:0", "stale:2", "async", "quorum:1", "quorum:2"):
            for servers in (0, 1, 3):
                with self.subTest(policy=policy, servers=servers):
                    self.check(3, servers, policy, "add", 20, 30001)

    def test_sums_have_the_order_of_workers(self):
        for servers in (0, 2):
            for transport in ("shm", "tcp"):
                with self.subTest(servers=servers, transport=transport):
                    self.check(4, servers, "bulk", "sum", 12, 200003, TUTTI_TRANSPORT=transport)

    def test_rates_hold_from_their_clock_on(self):
        for servers in (0, 2):
            with self.subTest(servers=servers):
                self.check(3, servers, "bulk", "sgd:lr=1.0", 12, 50001)

    def test_one_worker_and_short_tensors(self):
        self.check(1, 0, "stale:1", "add", 10, 1)
        self.check(1, 1, "bulk", "sum", 10, 0)
        self.check(2, 5, "async", "add", 10, 1)


class Refused(unittest.TestCase):
    def refuse(self, arguments, *words):
        """Servers own all, so that a worker that leaves first takes nothing with it."""
        with Job(2, 2, arguments) as job:
            for rank in (job[0], job[1]):
                self.assertEqual(rank.code(), 7, rank.story())
                line = rank.expect("^failed ").string
                for word in words:
                    self.assertIn(word, line)

    def test_ranks_that_differ(self):
        def arguments(rank):
            policies = ["stale:3", "bulk"]
            return [policies[rank], "add", "5", "10"] if rank < 2 else ["serve"]
        self.refuse(arguments, "stale:3 add", "bulk add", "use the same on all")

        def counts(rank):
            return ["bulk", "add", "5", str(10 + rank)] if rank < 2 else ["serve"]
        self.refuse(counts, "adds 10 elements of i64", "adds 11 elements of i64")

    def test_policies_and_updates_that_do_not_exist(self):
        self.refuse(["stale", "add", "5", "10"], "stale:S", "async")
        self.refuse(["bulk", "sdg", "5", "10"], "did you mean 'sgd'")
        self.refuse(["stale:3", "sum", "5", "10"], "update=add")
        self.refuse(["bulk", "sgd:lr=1", "5", "10"], "takes f32")
        self.refuse(["quorum:3", "add", "5", "10"], "quorum:2 or less")
        self.refuse(["quorum:2", "sum", "5", "10"], "tutti_store_start")


class Deaths(unittest.TestCase):
    """A process is killed in the middle of iterations. Workers hold after 30 of 60 until it has
    ended, so their next call is one without it, unless an earlier one was."""
    MIDDLE = ["60", "20000", "hold=30"]

    def named(self, rank, text):
        self.assertEqual(rank.code(), 7, rank.story())
        rank.expect(f"^failed -6 {text}")

    def done(self, rank):
        self.assertEqual(rank.code(), 0, rank.story())
        rank.expect("^done$")

    def test_a_killed_server_is_named_by_every_call(self):
        for policy in ("bulk", "stale:2", "async", "quorum:2"):
            for server in (0, 1):
                with self.subTest(policy=policy, server=server), \
                        Job(3, 2, [policy, "add", *self.MIDDLE]) as job:
                    job[0].expect("^going$")
                    for rank in job.lose(3 + server):
                        self.named(rank, rf"server {server} \(rank {3 + server}\) is gone")

    def test_sums_go_on_without_a_killed_server(self):
        for servers, count in ((1, 200000), (2, 200000), (3, 20000), (3, 3)):
            with self.subTest(servers=servers, count=count), \
                    Job(3, servers, ["bulk", "sum", 60, count, "alone", "hold=30"]) as job:
                job[0].expect("^going$")
                for rank in job.lose(3):
                    self.done(rank)

    def open_late(self, job):
        """A server dies, and all workers know it, before the store is opened."""
        for rank in range(3):
            job[rank].expect("^going$")
        job[3].signal(signal.SIGKILL)
        for rank in range(3):
            job[rank].expect(r"server 0 \(rank 3\) is gone", of_log=True)
        for rank in range(3):
            job[rank].say()
        return [job[rank].code() for rank in range(3)]

    def test_a_store_is_opened_without_servers_that_are_gone(self):
        for policy in ("bulk", "stale:2", "quorum:2"):
            with self.subTest(policy=policy), \
                    Job(3, 2, [policy, "add", 20, 20000, "late"]) as job:
                self.assertEqual(self.open_late(job), [0] * 3, job.stories())

    def test_sums_are_opened_without_a_server(self):
        for servers in (1, 3):
            with self.subTest(servers=servers), \
                    Job(3, servers, ["bulk", "sum", 20, 20000, "late"]) as job:
                self.assertEqual(self.open_late(job), [0] * 3, job.stories())

    def test_sums_name_the_last_server(self):
        with Job(2, 2, ["bulk", "sum", *self.MIDDLE, "alone"]) as job:
            job[0].expect("^going$")
            job[2].signal(signal.SIGKILL)
            job[2].code()
            for rank in job.lose(3):
                self.named(rank, r"server [01] \(rank [23]\) is gone")

    def test_bulk_names_a_killed_worker(self):
        for update in ("sum", "add"):
            with self.subTest(update=update), Job(3, 3, ["bulk", update, *self.MIDDLE]) as job:
                job[0].expect("^going$")
                for rank in job.lose(1):
                    self.named(rank, r"worker 1 \(rank 1\) is gone")
                for rank in (3, 4, 5):
                    self.assertEqual(job[rank].code(), 0, job[rank].story())

    def test_others_go_on_without_a_killed_worker(self):
        for policy in ("stale:2", "async", "quorum:2", "quorum:3"):
            with self.subTest(policy=policy), \
                    Job(3, 3, [policy, "add", *self.MIDDLE, "alone"]) as job:
                job[1].expect("^going$")
                for rank in job.lose(1):
                    self.done(rank)


class Stops(unittest.TestCase):
    def test_a_stopped_worker_is_named_and_waited_for(self):
        with Job(3, 1, ["stale:1", "add", 60, 20000, "hold=30"]) as job:
            job[1].expect("^going$")
            job[1].signal(signal.SIGSTOP)
            for rank in range(3):
                job[rank].say()
            job[0].expect("rank 1 does not respond .*stopped.*waiting for it", of_log=True)
            job[1].signal(signal.SIGCONT)
            self.assertEqual(job.codes(), [0] * 4, job.stories())

    def test_a_stopped_server_is_named_and_waited_for(self):
        """It is stopped while nobody calls, so every worker needs it then."""
        for policy, update in (("bulk", "sum"), ("bulk", "add"), ("stale:2", "add"),
                               ("async", "add")):
            for transport in ("shm", "tcp"):
                with self.subTest(policy=policy, update=update, transport=transport), \
                        Job(3, 2, [policy, update, 60, 20000, "hold"],
                            {"TUTTI_TRANSPORT": transport}) as job:
                    for rank in range(3):
                        job[rank].expect("^going$")
                    job[3].signal(signal.SIGSTOP)
                    for rank in range(3):
                        job[rank].say()
                    if transport == "shm":  # TCP does not notice
                        job[0].expect(r"server 0 \(rank 3\) does not respond.*waiting for it",
                                      of_log=True)
                    else:
                        time.sleep(0.2)
                    for rank in range(3):
                        self.assertIsNone(job[rank].process.poll(), job[rank].story())
                    job[3].signal(signal.SIGCONT)
                    self.assertEqual(job.codes(), [0] * 5, job.stories())
                    for rank in range(3):
                        job[rank].expect("^done$")

    def test_stops_in_the_middle_of_calls_are_survived(self):
        for policy, update in (("bulk", "sum"), ("stale:1", "add")):
            with self.subTest(policy=policy), \
                    Job(3, 2, [policy, update, 200, 20000, "hold=150"]) as job:
                job[0].expect("^going$")
                for _ in range(5):
                    for rank in job:
                        rank.signal(signal.SIGSTOP)
                        time.sleep(0.01)
                        rank.signal(signal.SIGCONT)
                for rank in range(3):
                    job[rank].say()
                self.assertEqual(job.codes(), [0] * 5, job.stories())


class Ends(unittest.TestCase):
    """Rank 1 ends with the store open, after 20 iterations. The others hold after 30 until it has
    ended, unless they fail before."""

    def others(self, job):
        others = job.go_on_without(1)
        self.assertEqual(job[1].code(), 0, job[1].story())
        job[1].expect("^left$")
        return others

    def test_others_go_on_without_a_worker_that_ends(self):
        for policy in ("stale:1", "stale:2", "async", "quorum:2"):
            for how in ("leave", "exit"):
                with self.subTest(policy=policy, how=how), \
                        Job(3, 3, [policy, "add", 60, 20000, f"{how}=1:20", "hold=30"]) as job:
                    for rank in self.others(job):
                        self.assertEqual(rank.code(), 0, rank.story())
                        rank.expect("^done$")

    def test_a_worker_that_leaves_counts_no_more_in_sums(self):
        with Job(3, 3, ["bulk", "sum", 60, 20000, "leave=1:20", "hold=30"]) as job:
            for rank in self.others(job):
                self.assertEqual(rank.code(), 0, rank.story())
                rank.expect("^done$")

    def test_bulk_names_a_worker_that_exits(self):
        for update in ("sum", "add"):
            with self.subTest(update=update), \
                    Job(3, 3, ["bulk", update, 60, 20000, "exit=1:20", "hold=30"]) as job:
                for rank in self.others(job):
                    self.assertEqual(rank.code(), 7, rank.story())
                    rank.expect(r"^failed -6 worker 1 \(rank 1\) is gone .*policy bulk needs")

    def test_an_owner_that_ends_is_named(self):
        for policy, update in (("bulk", "sum"), ("bulk", "add"), ("stale:2", "add"),
                               ("async", "add")):
            for how, words in (("leave", "failed -7 worker 1 .rank 1. has left, and what it owned"),
                               ("exit", "failed -6 worker 1 .rank 1. is gone")):
                with self.subTest(policy=policy, update=update, how=how), \
                        Job(3, 0, [policy, update, 60, 20000, f"{how}=1:20", "hold=30"]) as job:
                    for rank in self.others(job):
                        self.assertEqual(rank.code(), 7, rank.story())
                        rank.expect(f"^{words}")


if __name__ == "__main__":
    unittest.main()
