# SPDX-License-Identifier: Apache-2.0
"""The table of costs: measured by the first job, kept, read by the next; pinned by a file.

Timeout: 400
"""
import os
import pathlib
import subprocess
import tempfile
import unittest

TUTTI = str(pathlib.Path(os.environ.get("TEST_BIN", "build/bin")) / "tutti")
FEW = ["-b", "64K", "-e", "64K", "-i", "3", "-w", "1", "--model"]
PINNED = """tutti costs 1
allreduce shared shm 3 any 5000 5000
allreduce ring shm 3 any 7 0
allreduce shared shm-crowded 3 any 5000 5000
allreduce ring shm-crowded 3 any 7 0
"""


def tutti(cache, *arguments, **variables):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("TUTTI_")}
    environment.update(variables, XDG_CACHE_HOME=str(cache))
    return subprocess.run([TUTTI, *arguments], capture_output=True, text=True, timeout=100,
                          env=environment, check=False)


def bench(cache, **variables):
    return tutti(cache, "bench", "allreduce", "-n", "3", *FEW, **variables)


def row(result):
    return next(line for line in result.stdout.splitlines() if not line.startswith("#")).split()


class Costs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.cache = pathlib.Path(self.folder.name, "cache")
        self.addCleanup(self.folder.cleanup)

    def files(self):
        return list((self.cache / "tutti").glob("*"))

    def pin(self, text):
        path = pathlib.Path(self.folder.name, "pinned")
        path.write_text(text)
        return str(path)

    def test_the_first_job_measures_and_the_next_reads(self):
        first = bench(self.cache, TUTTI_LOG="info")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("costs of calls measured in", first.stderr)
        file, = self.files()
        before = file.read_bytes()
        self.assertTrue(before.startswith(b"tutti costs 1\n"))
        second = bench(self.cache, TUTTI_LOG="info")
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertNotIn("measured", second.stderr)
        self.assertEqual(file.read_bytes(), before)
        shown = tutti(self.cache, "info", "--costs").stdout
        self.assertIn(str(file), shown)
        self.assertIn(before.decode(), shown)

    def test_a_pinned_table_decides_and_nothing_is_measured(self):
        result = bench(self.cache, TUTTI_COSTS=self.pin(PINNED))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(row(result)[-3], "ring")
        self.assertEqual(self.files(), [])
        shown = tutti(self.cache, "info", "--costs", TUTTI_COSTS=self.pin(PINNED)).stdout
        self.assertIn("allreduce ring shm 3 any 7 0", shown)

    def test_a_forced_algorithm_overrides_the_table(self):
        result = bench(self.cache, TUTTI_COSTS=self.pin(PINNED), TUTTI_ALGORITHM="direct")
        self.assertEqual(row(result)[-3], "direct")

    def test_without_a_table_built_in_sizes_decide(self):
        result = bench(self.cache, TUTTI_COSTS="none")
        self.assertEqual(row(result)[-3:], ["shared", "-", "-"])
        self.assertEqual(self.files(), [])

    def test_the_wrong_line_of_a_pinned_table_is_named(self):
        result = bench(self.cache, TUTTI_COSTS=self.pin(PINNED + "allreduce ring\n"))
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"TUTTI_COSTS=\S*pinned: line 6: seven words")

    def test_a_corrupt_cache_is_reported_and_replaced(self):
        self.assertEqual(bench(self.cache).returncode, 0)
        file, = self.files()
        file.write_bytes(b"\0" * 100)
        result = bench(self.cache)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("is ignored and will be replaced: line 1", result.stderr)
        self.assertTrue(file.read_bytes().startswith(b"tutti costs 1\n"))

    def test_without_a_place_to_keep_it_nothing_is_measured(self):
        pathlib.Path(self.folder.name, "cache").write_text("a file where a folder should be")
        result = bench(self.cache, TUTTI_LOG="info")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("measured", result.stderr)


class Machine(unittest.TestCase):
    """Hosts of several nodes are made up in cli/nodes_test.c."""

    def test_nodes_of_memory_are_shown_as_the_kernel_has_them(self):
        folders = list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*"))
        if not folders:
            self.skipTest("this kernel does not tell of nodes")
        result = subprocess.run([TUTTI, "info"], capture_output=True, text=True, timeout=60,
                                check=False)
        self.assertRegex(result.stdout, rf"memory nodes +{len(folders)}, \d+ of them near")


if __name__ == "__main__":
    unittest.main()
