# SPDX-License-Identifier: Apache-2.0
"""The calls that bench/calls measures, made by real ranks: rotations, declared calls, steps.

The figures are not judged, only that every case ran. Under a sanitizer this is the check that
recipes, ops kept for them and their reuse hold across ranks and threads.

Labels: asan tsan control
Needs: tutti_cli bench_calls-rank
Timeout: 300
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("TEST_BIN", "build/bin")).resolve()
PASSES, BLOCK_US = 3, 300


def figures(ranks):
    """Case to microseconds, of a job of so many ranks; and the traces that it wrote."""
    with tempfile.TemporaryDirectory(prefix="calls-") as folder:
        done = subprocess.run([BIN / "tutti", "run", "-q", "--no-prefix", "-n", str(ranks),
                               BIN / "bench-calls-rank", str(PASSES), str(BLOCK_US),
                               f"{folder}/trace"],
                              capture_output=True, text=True, timeout=280)
        if done.returncode != 0:
            raise AssertionError(f"exit {done.returncode}:\n{done.stdout}\n{done.stderr}")
        traces = [path.read_text() for path in sorted(pathlib.Path(folder).iterdir())]
    return json.loads(done.stdout.strip().splitlines()[-1]), traces


class Calls(unittest.TestCase):
    def check(self, ranks):
        found, traces = figures(ranks)
        for case in ("short, 1", "short, 64", "declared, 1", "declared, 64", "short 64 KB, 4",
                     "declared 64 KB, 4", "step, declared", "step, started"):
            self.assertGreater(found[case], 0, case)
        self.assertGreater(found["step, declared, traced"], 0)
        self.assertEqual(len(traces), ranks)
        for trace in traces:
            self.assertGreater(len(json.loads(trace)), 0)

    def test_two_ranks(self):
        self.check(2)

    def test_more_ranks_than_a_pair(self):
        self.check(3)


if __name__ == "__main__":
    unittest.main()
