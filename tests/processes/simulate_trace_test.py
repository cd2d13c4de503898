# SPDX-License-Identifier: Apache-2.0
"""tutti simulate --trace: JSON that viewers read, in which every moment of a rank is accounted for.

Labels: asan
Needs: tutti_cli
Timeout: 200
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

TUTTI = str(pathlib.Path(os.environ.get("TEST_BIN", "build/bin")) / "tutti")
JOB = ("-g", "resnet50", "-n", 16, "--cluster", "ethernet-10g")
SAME = 0.01  # us: times are whole nanoseconds


def simulate(*arguments):
    return subprocess.run([TUTTI, "simulate", *map(str, arguments)], capture_output=True,
                          text=True, timeout=120)


class Trace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bytes_of(self, *arguments):
        path = self.folder / "trace.json"
        result = simulate(*arguments, "--trace", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        return path.read_bytes()

    def bars(self, *arguments):
        """The bars of each process, by its name."""
        events = json.loads(self.bytes_of(*arguments))["traceEvents"]
        names = {event["pid"]: event["args"]["name"] for event in events
                 if event["ph"] == "M" and event["name"] == "process_name"}
        found = {name: [] for name in names.values()}
        for event in events:
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
                found[names[event["pid"]]].append(event)
        return found

    def check_tiles(self, bars):
        """One bar begins where the one before ends."""
        for before, after in zip(bars, bars[1:]):
            self.assertAlmostEqual(before["ts"] + before["dur"], after["ts"], delta=SAME)

    def test_every_moment_of_a_rank_is_in_one_bar(self):
        for more in ((), ("--cross",), ("--strategy", "ddp"), ("--accumulate", 3),
                     ("--strategy", "horovod"), ("--strategy", "byteps"), ("--strategy", "ps")):
            for name, bars in self.bars(*JOB, *more, "--trace-ranks", "0,5-7",
                                        "--trace-steps", 3).items():
                if name.startswith("rank"):
                    self.check_tiles(bars)
                    passes = [bar["name"] for bar in bars if bar["name"] == "backward"]
                    self.assertEqual(len(passes), 3)

    def test_exchanges_follow_each_other(self):
        bars = self.bars(*JOB)["exchanges of all ranks"]
        self.assertGreater(len(bars), 20)
        for before, after in zip(bars, bars[1:]):
            self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + SAME)
            self.assertGreaterEqual(after["args"]["arrived_us"], after["ts"] + after["dur"] - SAME)

    def test_only_the_slowest_rank_waits_for_nobody(self):
        bars = self.bars(*JOB, "--slow", "3=1.5", "--trace-ranks", "2-3")
        waits = {name: sum(bar["dur"] for bar in found if bar["name"].endswith("slowest rank"))
                 for name, found in bars.items()}
        self.assertEqual(waits["rank 3, host 0"], 0)
        self.assertGreater(waits["rank 2, host 0"], 1e5)
        self.assertEqual(set(self.bars(*JOB, "--slow", "3=1.5")),
                         {"exchanges of all ranks", "rank 0, host 0", "rank 3, host 0"})

    def test_waiting_for_samples_is_shown(self):
        result = simulate(*JOB, "--sweep", "input.samples_per_s=100", "--json",
                          self.folder / "row.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        step = json.loads((self.folder / "row.json").read_text())["us"]["step"]
        bars = self.bars(*JOB, "--sweep", "input.samples_per_s=100", "--trace-steps", 2)
        rank = bars["rank 0, host 0"]
        self.assertEqual(sum(bar["name"] == "wait for samples" for bar in rank), 2)
        self.check_tiles(rank)
        starts = [bar["ts"] for bar in rank if bar["name"] == "forward"]
        self.assertAlmostEqual((starts[1] - starts[0]) / step, 1, delta=0.1)

    def test_the_same_options_give_the_same_bytes(self):
        first = self.bytes_of(*JOB, "--trace-steps", 4)
        self.assertEqual(first, self.bytes_of(*JOB, "--trace-steps", 4))
        self.assertNotEqual(first, self.bytes_of(*JOB, "--trace-steps", 4, "--seed", 2))

    def test_a_trace_changes_no_figure(self):
        plain = simulate(*JOB)
        traced = simulate(*JOB, "--trace", self.folder / "trace.json")
        self.assertEqual(plain.stdout, traced.stdout)

    def test_what_cannot_be_is_refused(self):
        path = self.folder / "trace.json"
        for arguments, cause in (
                (("--trace-ranks", "16"), "the job has ranks 0 to 15; name some of them"),
                (("--trace-ranks", "1;2"), "give ranks and ranges"),
                (("--sweep", "ranks=2,4"), "a trace is of one job; leave out --sweep")):
            result = simulate(*JOB, "--trace", path, *arguments)
            self.assertEqual(result.returncode, 1)
            self.assertIn(cause, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1)
        result = simulate(*JOB, "--trace", self.folder / "no" / "trace.json")
        self.assertEqual(result.returncode, 1)
        self.assertIn("No such file or directory", result.stderr)


if __name__ == "__main__":
    unittest.main()
