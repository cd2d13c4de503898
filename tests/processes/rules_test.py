# SPDX-License-Identifier: Apache-2.0
"""TUTTI_RULES and TUTTI_CODEC where ranks were given different ones: rank 0's are used.

Labels: asan
Needs: tutti_cli tutti-worker
Timeout: 200
"""
import os
import pathlib
import shlex
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("TEST_BIN", "build/bin")).resolve()


def job(*variables):
    """One rank for each dictionary of variables; the result of the job."""
    cases = ""
    for rank, own in enumerate(variables):
        words = [f"export {name}={shlex.quote(str(value))};" for name, value in own.items()]
        cases += f"{rank}) {' '.join(words)} ;; "
    script = f'case $TUTTI_RANK in {cases}esac; exec "$0" init steps:1:allreduce:4 shutdown'
    return subprocess.run([BIN / "tutti", "run", "-n", str(len(variables)), "sh", "-c", script,
                           BIN / "tutti-worker"], capture_output=True, text=True, timeout=120)


class Rules(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_equal_ones_give_no_warning_of_differences(self):
        own = {"TUTTI_RULES": self.write("rules", "codec=int8\n"), "TUTTI_CODEC": "fp16"}
        result = job(own, own)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("differs", result.stderr)
        self.assertNotIn("warn", result.stderr)

    def test_rank_0_decides_and_others_warn(self):
        one, other = self.write("one", "codec=int8\n"), self.write("other", "codec=int4\n")
        result = job({"TUTTI_RULES": one, "TUTTI_CODEC": "fp16"},
                     {"TUTTI_RULES": other, "TUTTI_CODEC": "bf16", "TUTTI_CODEC_MIN": "1K"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"TUTTI_RULES={other} differs from rank 0's rules", result.stderr)
        self.assertIn("TUTTI_CODEC=bf16 differs from rank 0's 'fp16'", result.stderr)
        self.assertIn("TUTTI_CODEC_MIN=1024 differs from rank 0's 65536", result.stderr)

    def test_other_ranks_need_no_file(self):
        result = job({"TUTTI_RULES": self.write("one", "codec=int8\n")},
                     {"TUTTI_RULES": "/no/such/file"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("differs", result.stderr)

    def test_a_bad_rule_of_rank_0_is_refused_by_all(self):
        bad = self.write("bad", "# comment\nnmae=x codec=int8\n")
        result = job({"TUTTI_RULES": bad}, {"TUTTI_RULES": self.write("good", "codec=int8\n")})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(f"TUTTI_RULES={bad}: line 2: there is no key \"nmae\"; did you mean 'name'?",
                      result.stderr + result.stdout)

    def test_a_file_that_rank_0_lacks_is_refused_by_all(self):
        result = job({"TUTTI_RULES": "/no/such/file"},
                     {"TUTTI_RULES": self.write("good", "codec=int8\n")})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("TUTTI_RULES=/no/such/file: ", result.stderr + result.stdout)

    def test_ranks_of_which_one_has_none_do_not_join(self):
        result = job({"TUTTI_CODEC": "int8"}, {})
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr + result.stdout,
                         "rank 1 on .* runs with other settings than rank 0 in TUTTI_RULES, "
                         "TUTTI_CODEC; give all ranks the same")


if __name__ == "__main__":
    unittest.main()
