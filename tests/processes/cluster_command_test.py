# SPDX-License-Identifier: Apache-2.0
"""tutti cluster: known clusters, files that are checked, and refusals in one line.

Labels: asan
Needs: tutti_cli
Timeout: 200
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TUTTI = str(pathlib.Path(os.environ.get("TEST_BIN", "build/bin")) / "tutti")


def cluster(*arguments):
    return subprocess.run([TUTTI, "cluster", *map(str, arguments)], capture_output=True, text=True,
                          timeout=60)


def names():
    return re.findall(r"^(\S+)", cluster("--list").stdout, re.M)


class Cluster(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, text, name="mine.json"):
        path = self.folder / name
        path.write_text(text if isinstance(text, str) else json.dumps(text, indent=1))
        return path

    def refused(self, *arguments, code=1):
        result = cluster(*arguments)
        self.assertEqual(result.returncode, code, result.stdout)
        self.assertEqual(result.stdout, "")
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("tutti cluster: "), lines[0])
        return lines[0]

    def test_the_list_has_what_is_documented(self):
        self.assertEqual(names(), ["summit", "ethernet-10g", "ethernet-25g", "ethernet-100g",
                                   "dgx1-v100", "dgx2", "dgx-a100", "laptop"])

    def test_what_show_prints_is_a_file_that_check_accepts(self):
        for name in names():
            with self.subTest(name=name):
                first = cluster("--show", name)
                self.assertEqual(first.returncode, 0, first.stderr)
                path = self.folder / f"{name}.json"
                self.assertEqual(cluster("--show", name, "-o", path).stdout, "")
                self.assertEqual(path.read_text(), first.stdout)
                self.assertEqual(cluster("--show", path).stdout, first.stdout)
                result = cluster("--check", path)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertRegex(result.stdout, rf"^{name}: .*hosts? of \d+ rank.*; model: \w+\n$")

    def test_every_shown_field_is_explained(self):
        explained = set(re.findall(r"^  (\w+\.\w+) ", cluster("--fields").stdout, re.M))
        shown = {f"{group}.{field}" for group, fields in
                 json.loads(cluster("--show", "summit").stdout).items()
                 if isinstance(fields, dict) for field in fields if field != "source"}
        self.assertEqual(explained, shown)
        self.assertGreater(len(explained), 25)

    def test_a_changed_base_is_completed(self):
        path = self.write({"base": "ethernet-25g", "hosts": {"count": 16},
                           "network": {"source": "measured", "bandwidth_gbs": 2.5}})
        shown = json.loads(cluster("--show", path).stdout)
        base = json.loads(cluster("--show", "ethernet-25g").stdout)
        self.assertEqual(shown["network"], base["network"] | {"source": "measured",
                                                              "bandwidth_gbs": 2.5})
        self.assertEqual((shown["name"], shown["hosts"]["count"]), ("mine", 16))
        self.assertEqual(shown["noise"], base["noise"])

    def test_ranks_that_do_not_fit_are_refused(self):
        path = self.write({"base": "ethernet-25g", "hosts": {"count": 16}})
        self.assertEqual(cluster("--check", path, "--ranks", 64).returncode, 0)
        self.assertIn("65 ranks do not fit cluster mine of 16 hosts with 4 ranks each: give 1 to "
                      "64, or raise hosts.count", self.refused("--check", path, "-n", 65))

    def test_a_wrong_file_is_refused_with_its_line(self):
        path = self.write('{"base": "summit",\n "network": {\n  "bandwith_gbs": 12}}\n')
        self.assertIn(f"{path}:3: unknown field \"network.bandwith_gbs\"; did you mean "
                      "network.bandwidth_gbs", self.refused("--check", path))
        path = self.write('{"hosts": {"count": 4}}')
        self.assertIn(f"{path}:1: network.bandwidth_gbs is 0: hosts cannot reach each other; give",
                      self.refused("--check", path))
        self.assertIn("cannot open", self.refused("--check", self.folder / "none.json"))
        self.assertIn("did you mean dgx2", self.refused("--show", "dgx-2"))
        self.assertIn("cannot write", self.refused("--show", "dgx2", "-o", self.folder / "a/b"))

    def rows(self, name, op, ranks, hosts, times):
        """A file as tutti bench --json writes it."""
        lines = [{"op": op, "dtype": "f32", "bytes": length, "ranks": ranks, "hosts": hosts,
                  "transport": "auto", "buffers": "arena", "time_us": time, "wrong": 0,
                  "algorithm": "none"} for length, time in times]
        return self.write("".join(json.dumps(line) + "\n" for line in lines), name)

    def fitted(self, *arguments):
        path = self.folder / "fitted.json"
        result = cluster("--fit", *arguments, "-o", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(cluster("--check", path).returncode, 0)
        return json.loads(path.read_text()), result.stdout

    def test_a_known_line_is_recovered(self):
        sizes = [8 << i for i in range(22)]
        local = self.rows("local", "sendrecv", 2, 1, [(n, 0.8 + n / 12e3) for n in sizes])
        wire = self.rows("wire", "sendrecv", 4, 2, [(n, 21.0 + n / 1.15e3) for n in sizes])
        found, report = self.fitted(local, wire, "--base", "ethernet-10g")
        overhead = found["processor"]["overhead_us"]
        for group, start, rate in (("local", 0.8, 12), ("network", 21.0, 1.15)):
            self.assertEqual(found[group]["source"], "measured")
            self.assertAlmostEqual(found[group]["latency_us"] + 2 * overhead, start,
                                   delta=0.02 * start)
            self.assertAlmostEqual(found[group]["bandwidth_gbs"], rate, delta=0.02 * rate)
        self.assertEqual(found["name"], "fitted")
        self.assertEqual(found["hosts"]["ranks_per_host"], 4)
        self.assertRegex(report, r"processor.reduce_gbs +8 +not determined: measure allreduce")
        self.assertRegex(report, r"sendrecv of f32, 2 ranks, 1 host +22 +0\.0 % ")
        _, apart = self.fitted(local, "--fit", wire)
        self.assertIn("sendrecv of f32, 4 ranks, 2 hosts", apart)

    def test_this_machine_is_measured_and_fitted(self):
        files = []
        for op in "sendrecv", "barrier", "allreduce":
            files.append(self.folder / f"{op}.json")
            result = subprocess.run([TUTTI, "bench", op, "-n", "2", "-e", "1M", "-i", "5", "-w",
                                     "1", "--json", files[-1]], capture_output=True, text=True,
                                    timeout=100)
            self.assertEqual(result.returncode, 0, result.stderr)
        found, report = self.fitted(*files)
        self.assertEqual((found["hosts"]["count"], found["hosts"]["ranks_per_host"]), (1, 2))
        self.assertGreater(found["local"]["bandwidth_gbs"], 0)
        for line in "sendrecv of f32", "barrier of f32", "allreduce of f32":
            self.assertRegex(report, rf"  {line}, 2 ranks, 1 host +\d+ +[\d.]+ % ")

    def test_wrong_measurements_are_refused(self):
        good = self.rows("good", "sendrecv", 2, 1, [(8, 1.0), (1 << 20, 90.0)])
        output = ["-o", self.folder / "x.json"]
        self.assertIn("has no measurements", self.refused("--fit", self.write("", "a"), *output))
        bad = self.write(good.read_text() + "8 1.5\n", "bad")
        self.assertIn(f"{bad}:3: is not a line of tutti bench", self.refused(
            "--fit", good, bad, *output))
        sums = self.rows("sums", "allreduce", 2, 1, [(1 << 20, 90.0)])
        self.assertIn("local.bandwidth_gbs is 0", self.refused("--fit", sums, *output))
        self.assertFalse((self.folder / "x.json").exists())

    def test_contradictory_options_are_refused(self):
        for words, text in (([], "give --list"), (["--list", "--fields"], "exclude each other"),
                            (["--list", "-n", 4], "without --check"),
                            (["--list", "-o", "x"], "without --show"),
                            (["--list", "--base", "dgx2"], "without --fit"),
                            (["--list", "x"], "without --fit"),
                            (["--fit", "x"], "--fit needs --output")):
            self.assertIn(text, self.refused(*words, code=2))

    def test_page_and_completion_have_it(self):
        page = subprocess.run([TUTTI, "man", "cluster"], capture_output=True, text=True, timeout=60)
        self.assertIn("\\-\\-check", page.stdout)
        for shell in "bash", "zsh", "fish":
            text = subprocess.run([TUTTI, "completion", shell], capture_output=True, text=True,
                                  timeout=60).stdout
            self.assertIn("cluster", text)


if __name__ == "__main__":
    unittest.main()
