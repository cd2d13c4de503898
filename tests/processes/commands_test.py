# SPDX-License-Identifier: Apache-2.0
"""tutti config, doctor, info, codec, bench and the parser: their output agrees with the library.

Timeout: 200
"""
import json
import os
import pathlib
import re
import subprocess
import unittest

BIN = pathlib.Path(os.environ.get("TEST_BIN", "build/bin"))
TUTTI = str(BIN / "tutti")
PATIENCE_S = 90


def tutti(*arguments, variables=None, **keywords):
    keywords.setdefault("timeout", PATIENCE_S)
    environment = {**os.environ, **(variables or {})}
    return subprocess.run([TUTTI, *arguments], capture_output=True, text=True, env=environment,
                          **keywords)


def refusal(variables):
    """Error of a job of one rank when tutti_init refuses its variables; '' where it does not."""
    result = tutti("run", "-q", "-n", "1", "--no-prefix", str(BIN / "hello"), variables=variables)
    return result.stderr if result.returncode != 0 else ""


def finding(check, variables):
    findings = json.loads(tutti("doctor", "--json", variables=variables).stdout)
    return next(item for item in findings if item["check"] == check)


class Values(unittest.TestCase):
    BAD = {
        "TUTTI_THREADS": "many",
        "TUTTI_RAILS": "0",
        "TUTTI_GROUPS": "-1",
        "TUTTI_ALGORITHM": "rign",
        "TUTTI_SEGMENT": "100",
        "TUTTI_RING": "3000",
        "TUTTI_TIMEOUT": "soon",
        "TUTTI_INTEGRITY": "md5",
        "TUTTI_CONTROL_TRANSPORT": "tcp",
        "TUTTI_TRANSPORT": "no-such-plugin",
        "TUTTI_ENGINE": "no-such-plugin",
        "TUTTI_SECRET": "abc",
        "TUTTI_CODEC": "int9",
        "TUTTI_CODEC_MIN": "small",
    }

    def test_doctor_and_config_refuse_the_values_that_tutti_init_refuses_with_the_same_text(self):
        for name, value in self.BAD.items():
            with self.subTest(name=name):
                found = finding("values", {name: value})
                self.assertEqual(found["verdict"], "fail")
                self.assertIn(name, found["finding"])
                self.assertEqual(tutti("doctor", variables={name: value}).returncode, 1)
                shown = tutti("config", "--set", variables={name: value})
                self.assertEqual(shown.returncode, 1)
                self.assertIn(found["finding"], shown.stderr)
                if name == "TUTTI_SECRET":  # whether a job needs it is known when its ranks join
                    continue
                words = refusal({name: value})
                self.assertNotEqual(words, "")
                if "plugin" not in value:
                    self.assertIn(found["finding"], words)

    def test_a_value_accepted_by_one_is_accepted_by_all(self):
        good = {"TUTTI_THREADS": "2", "TUTTI_GROUPS": "auto", "TUTTI_ALGORITHM": "ring",
                "TUTTI_SEGMENT": "64K", "TUTTI_RING": "64K", "TUTTI_TIMEOUT": "200ms"}
        self.assertEqual(finding("values", good)["verdict"], "ok")
        self.assertEqual(tutti("config", variables=good).returncode, 0)
        self.assertEqual(refusal(good), "")

    def test_every_bad_value_is_named_not_only_the_first(self):
        found = finding("values", {"TUTTI_THREADS": "many", "TUTTI_RING": "3000"})
        self.assertEqual(len(found["finding"].splitlines()), 2)

    def test_settings_that_contradict_each_other(self):
        pair = {"TUTTI_CONTROL": "plan", "TUTTI_GROUPS": "4"}
        found = finding("values", pair)
        self.assertEqual(found["verdict"], "fail")
        self.assertIn(found["finding"], refusal(pair))

    def test_files_that_are_missing(self):
        for name in "TUTTI_COSTS", "TUTTI_ORDER", "TUTTI_RULES":
            found = finding("values", {name: "/no/such/file"})
            self.assertEqual(found["verdict"], "fail")
            self.assertIn(f"{name}=/no/such/file", found["finding"])

    def test_interfaces_and_ports(self):
        found = finding("values", {"TUTTI_INTERFACE": "nope"})
        self.assertEqual(found["verdict"], "fail")
        self.assertRegex(found["finding"], r"TUTTI_INTERFACE .*\blo\b")
        found = finding("values", {"TUTTI_PORT_RANGE": "9-1"})
        self.assertEqual(found["verdict"], "fail")
        self.assertEqual(finding("values", {"TUTTI_INTERFACE": "=lo"})["verdict"], "ok")

    def test_config_lists_the_accepted_values_of_every_variable(self):
        text = tutti("config", "--all").stdout
        names = re.findall(r"^(TUTTI_\w+)=", text, re.M)
        self.assertGreater(len(names), 40)
        self.assertEqual(len(re.findall(r"^# accepted: .", text, re.M)), len(names))
        self.assertIn("# accepted: one of crc, none, aead\nTUTTI_INTEGRITY=crc\n", text)
        self.assertRegex(text, r"# accepted: one of .*\bring\b.*\nTUTTI_ALGORITHM=\n")


class Words(unittest.TestCase):
    def test_surplus_arguments_are_reported(self):
        for command in ["info", "x"], ["doctor", "x"], ["config", "--set", "x"], ["env", "x"], \
                ["version", "x"], ["man", "run", "x"], ["completion", "bash", "x"], \
                ["schedule", "x"], ["bench", "allreduce", "x"], ["codec", "--list", "x"]:
            result = tutti(*command)
            self.assertEqual(result.returncode, 2, command)
            self.assertIn("unexpected argument 'x'", result.stderr)

    def test_a_variable_that_cannot_be_passed_on_is_reported(self):
        result = tutti("run", "-n", "1", "-x", "NO_SUCH_VARIABLE", "true")
        self.assertEqual(result.returncode, 0)
        self.assertIn("-x NO_SUCH_VARIABLE", result.stderr)
        self.assertNotIn("-x", tutti("run", "-n", "1", "-x", "HOME", "true").stderr)

    def test_an_empty_range_of_sizes_is_refused(self):
        result = tutti("bench", "-n", "2", "allreduce", "--min", "1M", "--max", "1K")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--min 1048576", result.stderr)

    def test_only_near_words_are_suggested(self):
        found = finding("variables", {"TUTTI_FOO": "1", "TUTTI_TRANPORT": "tcp"})
        self.assertIn("TUTTI_TRANPORT (did you mean TUTTI_TRANSPORT?)", found["finding"])
        self.assertNotIn("TUTTI_FOO (", found["finding"])
        self.assertIn("did you mean 'doctor'", tutti("docter").stderr)
        for strange in "xyzzy", "r", "start":
            self.assertNotIn("did you mean", tutti(strange).stderr)
        self.assertNotIn("did you mean", tutti("run", "--force", "true").stderr)

    def test_columns_of_info_line_up(self):
        lines = [line for line in tutti("info").stdout.splitlines() if line.startswith("TUTTI_")]
        self.assertGreater(len(lines), 20)
        starts = {re.match(r"\S+ +", line).end() for line in lines}
        self.assertEqual(len(starts), 1)


class Codec(unittest.TestCase):
    NAMES = ["none", "fp16", "bf16", "e4m3", "e5m2", "int8", "int4", "qsgd", "natural", "sign",
             "onebit", "int8sum", "terngrad", "majority"]

    def test_the_list_has_every_codec_with_bytes_guarantees_and_options(self):
        text = tutti("codec", "--list").stdout
        self.assertEqual(re.findall(r"^(\w+) +\S.*\n +[\d.]+ bytes an element; ", text, re.M),
                         self.NAMES)
        for name, words in {"none": "4.000 bytes an element; cast; options: none",
                            "int8": "1.008 bytes an element; contraction; options: block=512 ef=on",
                            "qsgd": "unbiased, contraction; options: block=512 bits=8 (or 4) ef",
                            "int8sum": "contraction, summable; options: block=512 ef=on",
                            "majority": "summable; options: block=512\n",
                            }.items():
            self.assertRegex(text, rf"(?m)^{name} .*\n.*{re.escape(words)}")

    def test_the_list_of_one(self):
        text = tutti("codec", "--list", "--codec", "qsgd:bits=4,block=16").stdout
        self.assertIn("0.750 bytes an element", text)
        self.assertNotIn("int8", text)

    def test_rates_are_measured(self):
        text = tutti("codec", "--bench", "--size", "1M").stdout
        self.assertRegex(text, r"(?m)^memcpy \d+\.\d+ GB/s$")
        rates = re.findall(r"^(\w+):\S+ +(\d+\.\d+) +(\d+\.\d+) +(\d+\.\d+) +(\d+\.\d+)$",
                           text, re.M)
        self.assertEqual([rate[0] for rate in rates], self.NAMES)
        for rate in rates:
            self.assertGreater(min(map(float, rate[1:])), 0, rate)

    def test_rates_of_some(self):
        text = tutti("codec", "--bench", "--size", "64K", "--codec", "int8:ef=off", "--codec",
                     "fp16").stdout
        self.assertEqual(re.findall(r"^(\w+:\S+)", text, re.M),
                         ["int8:block=512,ef=off", "fp16:ef=off"])

    def test_bad_input_is_refused_in_one_line(self):
        for words, said in ([], "give --list or --bench"), \
                (["--list", "--bench"], "exclude each other"), \
                (["--list", "--codec", "int9"], "did you mean 'int8'"), \
                (["--bench", "--codec", "int8:blok=4"], "block"), \
                (["--bench", "--size", "0"], "not between 4K and 16G"), \
                (["--bench", "--size", "1T"], "--size"), \
                (["--bench", "--size", "17G"], "not between 4K and 16G"):
            result = tutti("codec", *words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(said, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_page_and_completion_have_it(self):
        page = tutti("man", "codec").stdout
        self.assertIn("\\-\\-bench", page)
        for shell in "bash", "zsh", "fish":
            self.assertIn("codec", tutti("completion", shell).stdout)


if __name__ == "__main__":
    unittest.main()
