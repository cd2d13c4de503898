# SPDX-License-Identifier: Apache-2.0
"""bench/: every topic is where its name says, is listed, and can be asked what it does."""
import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", pathlib.Path(__file__).parents[2])).resolve()
BENCH = SOURCE / "bench"
TOPICS = sorted(path.name for path in BENCH.iterdir()
                if path.is_dir() and path.name not in ("common", "traces", "validation",
                                                       "__pycache__"))
DRIVERS = sorted(BENCH.glob("*/run"))


def said(*words):
    """From a folder that has folders named like packages of Python."""
    done = subprocess.run(words, cwd=BENCH, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


class Topics(unittest.TestCase):
    def test_every_topic_has_a_driver_or_a_program(self):
        self.assertIn("peers", TOPICS)
        for topic in TOPICS:
            self.assertTrue((BENCH / topic / "run").exists() or any((BENCH / topic).glob("*.c")),
                            topic)

    def test_every_topic_has_a_line_in_the_index(self):
        index = re.findall(r"^\| \[?`(\w+)", (BENCH / "README.md").read_text(encoding="utf-8"),
                           re.MULTILINE)
        self.assertEqual(sorted(index), TOPICS)

    def test_results_are_in_the_folder_of_their_topic(self):
        for path in set(BENCH.rglob("*.json")) - set((BENCH / "validation").rglob("*.json")):
            self.assertRegex(path.relative_to(BENCH).as_posix(),
                             r"^\w+/results/\d+cores[\w-]*\.json$")


class Drivers(unittest.TestCase):
    def test_every_driver_says_how_it_is_used(self):
        for driver in DRIVERS:
            text = said(str(driver), "--help")
            for word in (f"bench/{driver.parent.name}/run", "--quick", "--json"):
                self.assertIn(word, text)

    def test_a_misspelt_option_is_refused(self):
        for driver in DRIVERS:
            done = subprocess.run([str(driver), "--quik"], capture_output=True, check=False,
                                  timeout=60)
            self.assertEqual(done.returncode, 2, driver)


class List(unittest.TestCase):
    def test_the_list_has_every_topic_and_every_program(self):
        listed = re.findall(r"^  (\S+) +\S", said(str(SOURCE / "tools/bench")), re.MULTILINE)
        programs = [path.stem for path in BENCH.glob("*/*.c")]
        self.assertEqual(sorted(listed), sorted([path.parent.name for path in DRIVERS] + programs))

    def test_a_topic_is_run_by_its_name(self):
        self.assertEqual(said(str(SOURCE / "tools/bench"), "model", "--help"),
                         said(str(BENCH / "model/run"), "--help"))

    def test_what_does_not_exist_is_refused(self):
        done = subprocess.run([str(SOURCE / "tools/bench"), "nothing"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no 'nothing'", done.stderr)


if __name__ == "__main__":
    unittest.main()
