# SPDX-License-Identifier: Apache-2.0
"""tutti simulate --validate: the rows of bench/validation are within their tolerances, the page in
docs is what they give, and a row that is outside, or wrong, is named.

Labels: asan
Needs: tutti_cli
Timeout: 300
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", ".")).resolve()
sys.path.insert(0, str(SOURCE))
from bench.simulate import validation  # noqa: E402

TUTTI = str(pathlib.Path(os.environ.get("TEST_BIN", "build/bin")).resolve() / "tutti")
ROW = {"name": "row", "figure": "us.step", "kind": "predicted", "source": "here",
       "scenario": {"graph": "vgg16", "strategy": "ddp", "cluster": "ethernet-10g"}}


def validate(*arguments, cwd=SOURCE):
    return subprocess.run([TUTTI, "simulate", "--validate", *map(str, arguments)], cwd=cwd,
                          capture_output=True, text=True, timeout=250)


class Tree(unittest.TestCase):
    def test_all_rows_are_within_and_the_page_shows_them(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            result = validate("--markdown", page)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertRegex(result.stdout, r"\n\d+ rows, 0 outside\n$")
            self.assertEqual(page.read_text(), (SOURCE / "docs" / "validation.md").read_text(),
                             "run: tutti simulate --validate --markdown docs/validation.md")

    def test_rows_of_measurements_are_those_of_the_results(self):
        for name, section in validation.SECTIONS.items():
            self.assertEqual((validation.FOLDER / name).read_text(), validation.text(section),
                             "run: bench/simulate/run --write-rows")


class Rows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def validate(self, *rows, **members):
        path = self.folder / "rows.json"
        path.write_text(json.dumps({"summary": "some", "rows": rows, **members}, indent=1))
        return validate(path)

    def step(self):
        output = self.folder / "step.json"
        subprocess.run([TUTTI, "simulate", "-g", "vgg16", "--strategy", "ddp", "--cluster",
                        "ethernet-10g", "--json", output], check=True, capture_output=True,
                       timeout=60)
        return json.loads(output.read_text())["us"]["step"]

    def test_errors_are_those_of_the_figure(self):
        step = self.step()
        near = {**ROW, "expected": step / 1.05, "tolerance_percent": 6}
        far = {**near, "name": "far away", "tolerance_percent": 4}
        result = self.validate(near)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("+5.0 %", result.stdout)
        result = self.validate(near, far)
        self.assertEqual(result.returncode, 1)
        self.assertIn("2 rows, 1 outside", result.stdout)
        outside, = (line for line in result.stdout.splitlines() if "OUTSIDE" in line)
        self.assertTrue(outside.startswith("far away"))
        self.assertEqual(self.validate(near, {**far, "tolerance_percent": "shown"}).returncode, 0)

    def test_a_median_may_be_too_large(self):
        row = {**ROW, "expected": self.step() / 1.05, "tolerance_percent": 6}
        self.assertEqual(self.validate(row, median_percent=5.1).returncode, 0)
        result = self.validate(row, median_percent=4.9)
        self.assertEqual(result.returncode, 1)
        self.assertIn("median error 5.0 % (at most 4.9 %: OUTSIDE)", result.stdout)

    def test_bounds_and_ratios(self):
        bound = {**ROW, "figure": "us.compute", "at_least": 1.9, "at_most": 2.1,
                 "against": {"scale-time": 0.5}}
        result = self.validate(bound)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("1.9 to 2.1", result.stdout)
        self.assertEqual(self.validate({**bound, "at_least": 2.1, "at_most": 9}).returncode, 1)
        shown = self.validate({**bound, "at_least": 2.1, "tolerance_percent": "shown"})
        self.assertEqual(shown.returncode, 0)
        self.assertIn("shown: not", shown.stdout)

    def test_what_is_wrong_is_named_with_its_line(self):
        good = {**ROW, "at_least": 0}
        for row, line, cause in (
                ({**good, "figure": "us.stpe"}, 9,
                 'unknown figure "us.stpe"; did you mean us.step'),
                ({**good, "figure": "levels.leaf.message"}, 9,
                 'unknown figure "levels.leaf.message"; did you mean levels.leaf.messages'),
                ({**good, "figure": "us"}, 9, "unknown figure"),
                ({**good, "scenario": {"graph": "vgg16", "rank": 2}}, 11,
                 'unknown field "rank"; did you mean ranks'),
                ({**good, "scenario": {"graph": "vgg16", "strategy": "dpd"}}, 9, "unknown strat"),
                ({**good, "scenario": {"ranks": 8}}, 9, "there is no graph"),
                ({**good, "scenario": {"graph": "vgg16", "sweep": {"ranks": [1, 2]}}}, 9,
                 "a row is one job"),
                ({**good, "scenario": {"graph": "vgg16", "json": "x"}}, 11, "json has no place")):
            result = self.validate(row)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn(f"rows.json:{line}: {cause}", result.stderr)

    def test_usage(self):
        self.assertIn("there is no bench/validation", validate(cwd=self.folder).stderr)
        result = subprocess.run([TUTTI, "simulate", "rows.json"], capture_output=True, text=True,
                                timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("files of rows need --validate", result.stderr)
        result = subprocess.run([TUTTI, "simulate", "-g", "vgg16", "--markdown", "x"],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main()
