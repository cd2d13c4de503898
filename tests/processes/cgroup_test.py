# SPDX-License-Identifier: Apache-2.0
"""A control group that leaves too little memory: an error that names it, never an OOM kill.

Needs: tutti_cli tutti-worker
Timeout: 400
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import ranks

BIN = pathlib.Path(os.environ["TEST_BIN"])
MIB = 1 << 20
LIMIT = 256 * MIB


def own_memory_group():
    """Folder of the memory controller's group that this process is in, and its limit's file."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if "memory" in names.split(","):
            return pathlib.Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
        if names == "" and pathlib.Path(f"/sys/fs/cgroup{path}/memory.max").exists():
            return pathlib.Path("/sys/fs/cgroup" + path), "memory.max"
    return None, None


class ControlGroup(unittest.TestCase):
    def setUp(self):
        parent, limit = own_memory_group()
        if parent is None:
            self.skipTest("no memory controller")
        try:
            self.group = pathlib.Path(tempfile.mkdtemp(prefix="tutti-test-", dir=parent))
            self.addCleanup(self.group.rmdir)
            (self.group / limit).write_text(str(LIMIT))
        except OSError as error:
            self.skipTest(f"no control group can be made: {error}")

    def enter(self):
        (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def bench(self, size):
        return subprocess.run(
            [BIN / "tutti", "bench", "allreduce", "-n", "2", "-b", size, "-e", size, "--arena",
             "-i", "1", "-w", "0"], preexec_fn=self.enter, capture_output=True, text=True,
            timeout=200)

    def test_allocations_that_fit_succeed(self):
        result = self.bench("1M")
        self.assertEqual(result.returncode, 0, result)

    def fill(self, size, count, deeper=None, **variables):
        """Ranks of one job allocate until memory is exhausted; returns what each got."""
        def enter():
            ((deeper or self.group) / "cgroup.procs").write_text(str(os.getpid()))
        with ranks.Ranks(size, ["init", f"fill:{count}", "shutdown"], variables=variables,
                         preexec_fn=enter) as job:
            self.assertEqual(job.codes(), [0] * size, [rank.story() for rank in job])
            found = [rank.find(r"^filled (\d+) .*(control group|host).* left") for rank in job]
            self.assertNotIn(None, found, [rank.story() for rank in job])
            return [int(each[1]) * count for each in found]

    def test_at_the_limit_tutti_alloc_returns_null(self):
        """Blocks of all sizes; one rank, and two that race."""
        for transport, size, count in (
                ("shm", 1, 60_000), ("shm", 2, 700_000), ("shm", 2, 5 * MIB), ("shm", 1, 40 * MIB),
                ("tcp", 2, 100_000), ("tcp", 1, 5 * MIB), ("tcp", 2, 40 * MIB)):
            with self.subTest(transport=transport, size=size, count=count):
                got = self.fill(size, count, TUTTI_TRANSPORT=transport)
                self.assertGreater(sum(got), LIMIT // 4)
                self.assertLess(max(got), LIMIT)  # the first to end leaves its part to the other

    def test_the_limit_of_a_group_above_counts_too(self):
        deeper = self.group / "deeper"
        deeper.mkdir()
        self.addCleanup(deeper.rmdir)
        self.assertLess(max(self.fill(2, 5 * MIB, deeper)), LIMIT)

    def test_allocations_that_do_not_fit_fail(self):
        result = self.bench("1G")
        self.assertNotEqual(result.returncode, 0, result)
        self.assertIn("control group", result.stderr, result)
        self.assertNotIn("SIGKILL", result.stderr, result)


if __name__ == "__main__":
    tests = unittest.main(exit=False).result
    skipped_all = tests.testsRun == len(tests.skipped)
    sys.exit(77 if skipped_all and tests.wasSuccessful() else not tests.wasSuccessful())
