# SPDX-License-Identifier: Apache-2.0
"""tutti simulate --sweep: pictures, progress on a terminal, and what an interrupt leaves.

Labels: asan
Needs: tutti_cli
Timeout: 200
"""
import json
import os
import pathlib
import pty
import signal
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

TUTTI = str(pathlib.Path(os.environ.get("TEST_BIN", "build/bin")) / "tutti")
GRID = ("--sweep", "ranks=2,4,8", "--sweep", "strategy=tutti,ddp")
CIRCLE = "{http://www.w3.org/2000/svg}circle"


def command(*arguments):
    return [TUTTI, "simulate", "-g", "vgg16", *map(str, arguments)]


class Sweep(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.picture = self.folder / "sweep.svg"

    def simulate(self, *arguments):
        return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120)

    def points(self):
        """Of the picture, which has each twice."""
        root = xml.etree.ElementTree.parse(self.picture).getroot()
        return len(list(root.iter(CIRCLE))) // 2

    def test_a_picture_has_all_points_and_the_same_bytes_again(self):
        result = self.simulate(*GRID, "--plot", self.picture)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.points(), 6)
        first = self.picture.read_bytes()
        self.assertIn(b"vgg16, ethernet-25g<", first)
        self.simulate(*GRID, "--plot", self.picture)
        self.assertEqual(self.picture.read_bytes(), first)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["sweep.svg"])

    def test_columns_are_as_wide_as_their_names(self):
        result = self.simulate("--sweep", "network.bandwidth_gbs=1,2")
        head, *rows = result.stdout.splitlines()
        self.assertEqual({head.index(" p5") + 3}, {row.index(row.split()[2]) + len(row.split()[2])
                                                   for row in rows})

    def test_a_picture_needs_a_sweep_and_a_place(self):
        result = self.simulate("--plot", self.picture)
        self.assertEqual(result.returncode, 1)
        self.assertIn("--plot: a picture shows a sweep; give --sweep", result.stderr)
        result = self.simulate(*GRID, "--plot", self.folder / "no" / "sweep.svg")
        self.assertEqual(result.returncode, 1)
        self.assertIn("No such file or directory", result.stderr)

    def test_what_is_no_plain_file_is_not_replaced(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        held = os.open(pipe, os.O_RDWR)  # two pictures fit into it
        result = self.simulate("--sweep", "ranks=1,2", "--plot", pipe)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(os.read(held, 1 << 20).count(b"</svg>"), 2)
        os.close(held)
        self.assertTrue(pipe.is_fifo())

    def test_an_interrupt_leaves_what_is_done(self):
        rows = self.folder / "rows.json"
        seeds = ",".join(str(seed) for seed in range(1000))
        process = subprocess.Popen(
            command("--sweep", f"seed={seeds}", "--steps", 2000, "--json", rows, "--plot",
                    self.picture), stdout=subprocess.PIPE, text=True)
        lines = [process.stdout.readline() for _ in range(6)]
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read().splitlines()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=60), -signal.SIGINT)
        done = [json.loads(line) for line in rows.read_text().splitlines()]
        self.assertTrue(all(line.endswith("\n") for line in lines))
        self.assertGreaterEqual(len(done), 4)  # a row is printed first
        self.assertLessEqual(abs(len(done) - len(lines) - len(rest) + 1), 1)
        self.assertGreaterEqual(self.points() + 1 + len(done) // 20, len(done))

    def test_a_terminal_shows_how_far_it_is(self):
        main, other = pty.openpty()
        result = subprocess.run(command(*GRID), stdout=subprocess.PIPE, stderr=other, text=True,
                                timeout=120)
        os.close(other)
        shown = os.read(main, 65536).decode()
        os.close(main)
        self.assertEqual(result.returncode, 0)
        self.assertIn("point 6 of 6\r\x1b[K", shown)
        self.assertEqual(result.stdout, self.simulate(*GRID).stdout)
        self.assertEqual(self.simulate(*GRID).stderr, "")

    def test_percentiles_enclose_most_steps(self):
        """Of a hundred steps, five are below p5 or at it, and the largest five above p95."""
        rows = self.folder / "rows.json"
        self.simulate("--sweep", "noise.spread_percent=0,2,10", "--steps", 100, "--json", rows)
        quiet, some, more = (json.loads(line)["us"] for line in rows.read_text().splitlines())
        self.assertAlmostEqual(quiet["p95"] - quiet["p5"], 0, delta=1)
        self.assertLess(some["p95"] - some["p5"], more["p95"] - more["p5"])
        for us in (some, more):
            self.assertLess(us["p5"], us["step"])
            self.assertLess(us["step"], us["p95"])


if __name__ == "__main__":
    unittest.main()
