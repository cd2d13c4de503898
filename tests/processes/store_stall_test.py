# SPDX-License-Identifier: Apache-2.0
"""Calls on stores that wait long: the log names whom they wait for, also over TCP.

Labels: asan tsan sync
Needs: tutti-store_rank tutti-sum_rank
Timeout: 300
"""
import signal
import unittest

import ranks


class Stalls(unittest.TestCase):
    def run_job(self, program, arguments, stopped, words, **variables):
        """Every other worker names the process that is stopped, and its calls then end well.
        Servers own all, so that nobody else waits for a worker's reply."""
        variables = {"TUTTI_TRANSPORT": "tcp", "TUTTI_STALL_WARNING": "0.2", **variables}
        with ranks.ServedRanks(program, 3, 3, arguments, variables) as job:
            for rank in range(3):
                job[rank].expect("^going$")
            job[stopped].signal(signal.SIGSTOP)
            for rank in range(3):
                job[rank].say()
            for rank in range(3):
                if rank != stopped:
                    job[rank].expect(words, of_log=True)
                    self.assertIsNone(job[rank].process.poll(), job[rank].story())
            job[stopped].signal(signal.SIGCONT)
            self.assertEqual(job.codes(), [0] * 6, job.stories())

    def test_a_stopped_worker_is_named(self):
        for policy, update, words in (
                ("bulk", "sum", r"a push and pull of tensor \"t\" of store 0 has waited for .*: "
                                r"worker 1 \(rank 1\) has not pushed"),
                ("stale:2", "add", r"store 0 has waited for .*: worker 1 \(rank 1\) has completed "
                                   r"\d+ of \d+ iterations"),
                ("bulk", "add", r"store 0 has waited for .*: worker 1 \(rank 1\) has ")):
            with self.subTest(policy=policy, update=update):
                self.run_job("tutti-store_rank", [policy, update, 60, 20000, "hold"], 1, words)

    def test_a_stopped_server_is_named(self):
        for policy, update in (("bulk", "sum"), ("stale:2", "add"), ("async", "add")):
            with self.subTest(policy=policy, update=update):
                self.run_job("tutti-store_rank", [policy, update, 60, 20000, "hold"], 3,
                             r"has waited for .*: server 0 \(rank 3\) does not reply")

    def test_sums_by_servers_name_whom_they_wait_for(self):
        for stopped, words in ((1, r"worker 1 \(rank 1\) has not pushed"),
                               (3, r"server 0 \(rank 3\) does not reply")):
            with self.subTest(stopped=stopped):
                self.run_job("tutti-sum_rank", [20, "hold"], stopped,
                             rf"a sum of tensor \S+ has waited for .*: {words}", TUTTI_SUM="server")


if __name__ == "__main__":
    unittest.main()
