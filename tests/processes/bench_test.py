# SPDX-License-Identifier: Apache-2.0
"""tutti bench starts itself as a job, checks every result, and writes its measurements.

Timeout: 400
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TUTTI = str(pathlib.Path(os.environ.get("TEST_BIN", "build/bin")) / "tutti")
KEYS = {"op", "dtype", "bytes", "ranks", "transport", "buffers", "touched", "iterations",
        "time_us", "algbw_gbs", "busbw_gbs", "wrong", "algorithm", "model_us", "hosts"}
FEW = ["-b", "12", "-e", "64K", "-f", "64", "-i", "3", "-w", "1"]


def bench(*arguments):
    return subprocess.run([TUTTI, "bench", *arguments], capture_output=True, text=True, timeout=100)


class Bench(unittest.TestCase):
    def test_no_collective_has_a_wrong_element(self):
        for collective in ("allreduce", "broadcast", "allgather", "reducescatter", "alltoall",
                           "sendrecv"):
            for buffers in ("--arena", "--foreign"):
                with self.subTest(collective=collective, buffers=buffers):
                    result = bench(collective, "-n", "3", buffers, "--touch", *FEW)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    rows = [line.split() for line in result.stdout.splitlines()
                            if not line.startswith("#")]
                    self.assertEqual(len(rows), 3)
                    self.assertEqual({row[-1] for row in rows}, {"0"})

    def test_header_and_footer_are_the_familiar_ones(self):
        lines = bench("allreduce", "-n", "2", *FEW).stdout.splitlines()
        self.assertRegex("\n".join(lines),
                         r"# +size +count +type +redop +root +time +algbw +busbw +#wrong\n")
        self.assertTrue(any(re.match(r"# Avg bus bandwidth    : [\d.e+-]+$", x) for x in lines))

    def test_json_lines_have_the_documented_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "out.json")
            result = bench("allreduce", "-n", "2", "-d", "f64", "--op", "max", "--transport", "tcp",
                           "--json", str(path), *FEW)
            self.assertEqual(result.returncode, 0, result.stderr)
            records = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual(len(records), 3)
        for record in records:
            self.assertLessEqual(KEYS, record.keys())
            self.assertEqual((record["op"], record["dtype"], record["ranks"], record["transport"],
                              record["buffers"], record["touched"], record["wrong"]),
                             ("allreduce", "f64", 2, "tcp", "arena", False, 0))

    def test_a_barrier_is_one_line_without_bytes(self):
        for ranks, transport in ((1, "auto"), (2, "auto"), (3, "tcp")):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "out.json")
                result = bench("barrier", "-n", str(ranks), "--transport", transport, "--json",
                               str(path), *FEW)
                self.assertEqual(result.returncode, 0, result.stderr)
                record, = [json.loads(line) for line in path.read_text().splitlines()]
                self.assertEqual(record.keys() & KEYS, KEYS)
                self.assertEqual((record["op"], record["bytes"], record["ranks"], record["hosts"]),
                                 ("barrier", 0, ranks, 1))
                self.assertGreater(record["time_us"], 0)

    def test_sendrecv_needs_two_ranks(self):
        result = bench("sendrecv", "-n", "1", *FEW)
        self.assertEqual(result.returncode, 2)
        self.assertIn("needs two ranks or more; give -n 2", result.stderr)

    def test_the_default_number_of_calls_takes_some_time(self):
        def iterations(size, *more):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "out.json")
                result = bench("allreduce", "-n", "2", "-b", size, "-e", size, "--json", str(path),
                               *more)
                self.assertEqual(result.returncode, 0, result.stderr)
                return json.loads(path.read_text())["iterations"]

        # A call beside other work may take long, so one good try of several is enough.
        self.assertTrue(any(20 < iterations("4") <= 5000 for _ in range(10)))
        self.assertEqual(iterations("128M"), 20)
        self.assertEqual(iterations("128M", "-w", "0"), 20)

    def test_it_joins_a_job_that_runs_already(self):
        result = subprocess.run([TUTTI, "run", "-q", "-n", "2", TUTTI, "bench", "broadcast", *FEW],
                                capture_output=True, text=True, timeout=100)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("broadcast: 2 ranks on 1 host", result.stdout)

    def test_meaningless_combinations_are_refused(self):
        for arguments, text in ((["scatter"], "give one of"), ([], "give one of"),
                                (["allreduce", "--op", "xor"], "xor is not defined for f32"),
                                (["allgather", "--in-place"], "no in-place form"),
                                (["sendrecv", "--in-place"], "no in-place form"),
                                (["allreduce", "--arena", "--foreign"], "exclude each other")):
            result = bench(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    unittest.main()
