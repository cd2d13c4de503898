#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: asserts.py counts all asserts, and fails where a folder has too few.

Method: small files in a temporary folder.
"""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TEST_SOURCE", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(ROOT / "tools"))
import asserts  # noqa: E402  (found through the line above)

CHECKED = "int tt_f(int a)\n{\n    TT_ASSERT(a > 0);\n    return a;\n}\n"
DEBUG = "static int g(int a)\n{\n    TT_DEBUG_ASSERT(a > 0);\n    return a;\n}\n"
BARE = "int tt_h(int a)\n{\n    /* TT_ASSERT(a) */\n    return a;\n}\n"
LIST = "static const int list[] = {1, 2};\n#define TT_ASSERT(a) (a)\nint tt_declared(int a);\n"


class AssertsTest(unittest.TestCase):
    def run_on(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                status = asserts.main(["asserts", folder])
        return status, out.getvalue().split("\n")[0].split()

    def test_both_kinds_count_and_comments_do_not(self):
        status, words = self.run_on({"src/codec/a.c": LIST + CHECKED + DEBUG + BARE})
        self.assertEqual(words, ["src/codec", "3", "functions", "2", "asserts", "0.67"])
        self.assertEqual(status, 0)  # no floor there

    def test_headers_and_folders_below_count_and_tests_do_not(self):
        _, words = self.run_on({"src/control/a.h": DEBUG, "src/control/below/b.c": CHECKED,
                                "src/control/b_test.c": BARE})
        self.assertEqual(words, ["src/control", "2", "functions", "2", "asserts", "1.00"])

    def test_too_few_fail(self):
        self.assertEqual(self.run_on({"src/control/a.c": CHECKED + BARE})[0], 1)
        self.assertEqual(self.run_on({"src/control/a.c": CHECKED + DEBUG + CHECKED + BARE})[0], 0)


if __name__ == "__main__":
    unittest.main()
