# SPDX-License-Identifier: Apache-2.0
"""tools/run-tests: which failures are run a second time in CI, and which never are.

Timeout: 60
"""
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", "."))
ONCE = "test -f been-here || { touch been-here; echo a stall; exit 1; }"


def run(tests, again):
    """The exit code and the output for a folder of tests, given as shell lines by name."""
    environment = {**os.environ, "TEST_AGAIN": "1" if again else "0"}
    with tempfile.TemporaryDirectory() as folder:
        lines = [f'add_test({name} sh -c "{line}")' for name, line in tests.items()]
        pathlib.Path(folder, "CTestTestfile.cmake").write_text("\n".join(lines), encoding="utf-8")
        done = subprocess.run([str(SOURCE / "tools/run-tests"), folder], text=True, timeout=50,
                              env=environment, stdout=subprocess.PIPE, check=False)
    return done.returncode, done.stdout


class RunTests(unittest.TestCase):
    def test_a_test_that_passes_when_repeated_is_reported_as_unsteady(self):
        code, output = run({"steady": "true", "stalls": ONCE}, again=True)
        self.assertEqual(code, 0, output)
        self.assertIn("a stall", output)
        self.assertIn("UNSTEADY, failed in parallel and passed alone: stalls\n", output)

    def test_a_test_that_fails_twice_fails(self):
        code, output = run({"broken": "exit 1", "stalls": ONCE}, again=True)
        self.assertNotEqual(code, 0, output)
        self.assertNotIn("UNSTEADY", output)

    def test_outside_ci_one_failure_fails(self):
        self.assertNotEqual(run({"stalls": ONCE}, again=False)[0], 0)

    def test_a_sanitizer_finding_is_not_repeated(self):
        code, output = run({"races": "echo WARNING: ThreadSanitizer: data race; " + ONCE}, True)
        self.assertNotEqual(code, 0, output)
        self.assertNotIn("once more", output)

    def test_a_failed_assertion_is_not_repeated(self):
        code, output = run({"wrong": "echo a.c:7: assertion failed: x; " + ONCE}, again=True)
        self.assertNotEqual(code, 0, output)

    def test_a_crash_is_not_repeated(self):
        crash = "test -f been-here || { touch been-here; kill -SEGV $$; }".replace("$", "\\$")
        code, output = run({"crashes": crash}, again=True)
        self.assertNotEqual(code, 0, output)

    def test_many_failures_are_not_repeated(self):
        code, output = run({name: ONCE.replace("been", name) for name in "abcd"}, again=True)
        self.assertNotEqual(code, 0, output)

    def test_passing_tests_add_no_output(self):
        code, output = run({"steady": "true"}, again=True)
        self.assertEqual(code, 0, output)
        self.assertNotIn("UNSTEADY", output)


if __name__ == "__main__":
    unittest.main()
