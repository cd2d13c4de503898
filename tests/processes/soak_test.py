# SPDX-License-Identifier: Apache-2.0
"""Many calls of all kinds with checked results: memory and descriptors stay constant.

Timeout: 400
"""
import unittest

import ranks

CALLS = 20000
# Pools are allocated when first needed, a few times in all; a leak grows between every two samples.
STEP_KIB = 16
STEPS_MAX = 2  # of the last five


class Soak(unittest.TestCase):
    def soak(self, transport, memory):
        names = ranks.shared_memory_names()
        with ranks.Ranks(4, ["init", f"memory:{memory}", f"soak:{CALLS}", "shutdown", "leaks"],
                         variables={"TUTTI_TRANSPORT": transport}) as job:
            self.assertEqual(job.codes(), [0] * 4, [rank.story() for rank in job])
            for rank in job:
                looks = [line.split() for line in rank.lines if line.startswith("soak")]
                sizes = [int(look[3]) for look in looks]
                self.assertEqual(len({look[5] for look in looks}), 1, looks)
                steps = [after - before for before, after in zip(sizes, sizes[1:])][-5:]
                self.assertLessEqual(sum(step >= STEP_KIB for step in steps), STEPS_MAX, looks)
        self.assertEqual(ranks.shared_memory_names() - names, set())

    def test_shared_memory(self):
        self.soak("shm", "arena")

    def test_tcp(self):
        self.soak("tcp", "private")


if __name__ == "__main__":
    unittest.main()
