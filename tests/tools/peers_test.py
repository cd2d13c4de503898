# SPDX-License-Identifier: Apache-2.0
"""bench/peers/run: its driver measures Tutti alone and the memory bound; its report judges figures.

Timeout: 400
"""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", "."))
PEERS = str(SOURCE / "bench/peers/run")
sys.path.insert(0, str(SOURCE))
from bench.peers import report  # noqa: E402


def peers(*arguments):
    return subprocess.run([PEERS, "--no-install", *arguments], capture_output=True, text=True,
                          timeout=100, check=False)


def record(library, median_us, **changes):
    return {"transport": "shm", "ranks": 2, "collective": "allreduce", "bytes": report.MB,
            "touch": True, "library": library, "is_peer": not library.startswith("tutti"),
            "median_us": median_us, **changes}


def sentences(*records):
    return [text for text, _ in report.target_rows(report.Records(records))]


class Driver(unittest.TestCase):
    def test_it_measures_every_collective_in_both_places(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "out.json"))
            result = peers("--peers", "none", "--ranks", "3", "--sizes", "1K,48K",
                           "--touch", "both", "--sample-ms", "1", "--json", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            again = peers("--report", path)
            lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
            machine, *records = map(json.loads, lines)
        self.assertIn("processor", machine["machine"])
        self.assertEqual(len(records), 5 * 2 * 2 * 2)
        self.assertEqual({item["library"] for item in records}, {"tutti-arena", "tutti-foreign"})
        self.assertTrue(all(len(item["samples_us"]) >= 7 and item["median_us"] > 0
                            for item in records))
        self.assertEqual(again.stdout, result.stdout)

    def test_it_runs_over_tcp(self):
        result = peers("--peers", "none", "--ranks", "2", "--sizes", "4", "--transport", "tcp",
                       "--collectives", "allreduce", "--touch", "no", "--sample-ms", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("allreduce, 2 ranks, TCP", result.stdout)

    def test_an_unknown_size_or_peer_is_refused(self):
        for arguments, text in ((("--sizes", "4Q"), "no size"), (("--peers", "nccl"), "none of")):
            result = peers(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(text, result.stderr)


class Report(unittest.TestCase):
    def test_a_figure_is_compared_with_the_fastest_peer(self):
        self.assertEqual(sentences(record("tutti-arena", 10.0), record("gloo", 54.0),
                                   record("mpich", 60.0)),
                         ["P=2 shm allreduce 1 MB tutti-arena, rewritten: 5.40x as fast as the "
                          "fastest peer (gloo), wanted 5x: reached"])

    def test_a_missed_figure_is_reported_as_missed(self):
        text, = sentences(record("tutti-arena", 10.0), record("gloo", 49.0))
        self.assertTrue(text.endswith("wanted 5x: MISSED"), text)

    def test_cases_that_were_not_measured_are_not_reported(self):
        self.assertEqual(sentences(record("tutti-arena", 10.0)), [])
        self.assertEqual(sentences(record("gloo", 10.0)), [])

    def test_only_buffers_that_are_rewritten_are_judged(self):
        self.assertEqual(sentences(record("tutti-arena", 10.0, touch=False),
                                   record("gloo", 54.0, touch=False)), [])

    def test_the_bound_is_two_passes_over_all_buffers(self):
        size = 256 * report.MB
        memory = record("memory", 1.0, beside_bytes=size, gbs=40.0)
        bound_us = 2 * 2 * size / 40.0e3
        text, = sentences(memory, record("tutti-arena", bound_us / 0.9, bytes=size))
        self.assertIn("90% of the memory bound, wanted 85%: reached", text)

    def test_a_table_has_a_row_for_each_library_and_a_ratio(self):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            report.print_report([record("tutti-arena", 10.0), record("gloo", 25.0)])
        self.assertRegex(text.getvalue(), r"tutti-arena +10\.0\ngloo +25\.0\n"
                                          r"tutti-arena: faster by +2\.50")


if __name__ == "__main__":
    unittest.main()
