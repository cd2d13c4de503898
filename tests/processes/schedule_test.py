# SPDX-License-Identifier: Apache-2.0
"""tutti schedule: its plans, the files it writes, and refusals in one line.

Labels: asan
Needs: tutti_cli example_proxies example_layers
Timeout: 400
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

TUTTI = str(pathlib.Path(os.environ.get("TEST_BIN", "build/bin")) / "tutti")
WORKER = str(pathlib.Path(TUTTI).with_name("tutti-worker"))
TRACE = ("# forward_us=6000 backward_us=6000\nname\telements\tfirst_use_us\tready_us\n"
         "l0\t750000\t0\t12000\nl1\t1500000\t2000\t10000\nl2\t750000\t4000\t8000\n")


def schedule(*arguments):
    return subprocess.run([TUTTI, "schedule", *map(str, arguments)], capture_output=True, text=True,
                          timeout=60)


def job(order, *verbs, **variables):
    """Two ranks under an order; returns their output and warnings."""
    return subprocess.run([TUTTI, "run", "-n", "2", WORKER, "init", *verbs, "shutdown"],
                          capture_output=True, text=True, timeout=120,
                          env={**os.environ, "TUTTI_ORDER": str(order), "TUTTI_TRANSPORT": "tcp",
                               **variables})


def policies():
    text = schedule("--list").stdout
    return re.findall(r"^  (\S+)", text.split("networks")[0], re.M)


class Schedule(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_with_one_wire_the_efficiency_is_alpha(self):
        figures = r"alpha (\S+), U \S+, E (\S+)\n"
        alpha, efficiency = re.search(figures, schedule("-g", "resnet50-v1").stdout).groups()
        self.assertEqual(alpha, efficiency)
        server = schedule("-g", "resnet50-v1", "--form", "server", "-p", "fifo").stdout
        alpha, efficiency = re.search(figures, server).groups()
        self.assertNotEqual(alpha, efficiency)

    def test_what_is_printed_is_written_as_json(self):
        path = self.folder / "rows.json"
        printed = schedule("-g", "vgg16", "--compare", "--json", path)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        rows = {row["policy"]: row for row in map(json.loads, path.read_text().splitlines())}
        for line in printed.stdout.splitlines():
            words = line.split()
            if words[0] in rows and len(words) == 8:
                row = rows[words[0]]
                self.assertAlmostEqual(float(words[1]), row["us"]["step"] / 1000, delta=0.001)
                self.assertAlmostEqual(float(words[3]), row["metrics"]["rho"], delta=0.001)
                self.assertEqual(int(words[7]), row["transfers"])
        self.assertEqual(list(rows), [name for name in policies() if name in rows])
        self.assertGreater(len(rows), 5)
        self.assertIsNone(rows["fifo"]["chunk_bytes"])  # tensors are not cut
        self.assertGreater(rows["priority"]["credit_bytes"], rows["priority"]["chunk_bytes"])
        self.assertEqual(schedule("-g", "vgg16", "-p", "tac", "--json", path).returncode, 0)
        self.assertEqual([json.loads(line)["policy"] for line in path.read_text().splitlines()],
                         ["fifo", "tac"])
        refused = schedule("-g", "vgg16", "--forward", "--json", path)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--forward and --json cannot be combined", refused.stderr)

    def test_every_policy_plans_a_network(self):
        for policy in policies():
            with self.subTest(policy=policy):
                order = self.folder / "order"
                result = schedule("-g", "inception-v1", "-p", policy, "-o", order)
                self.assertEqual(result.returncode, 0, result.stderr)
                for word in ("rho", "alpha", "order", "forward", "f(d) ="):
                    self.assertIn(word, result.stdout)
                lines = order.read_text().splitlines()
                self.assertEqual(lines[0], "tutti order 1")
                self.assertEqual(len({line.split("\t")[1] for line in lines[1:]}), 116)

    def test_exact_networks_have_the_rate_that_is_given(self):
        result = schedule("-g", "resnet50", "--batch", 256, "--samples-per-s", 1200)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("161 tensors, 97.49 MiB", result.stdout)
        self.assertIn("% of 213.33 ms of computation", result.stdout)
        self.assertRegex(schedule("--list").stdout, r"\n  bert-large +398 tensors, 1282.60 MiB, "
                                                    r"batch 32 x 128 tokens\n")

    def test_the_order_of_an_exact_network_has_the_names_of_the_framework(self):
        order = self.folder / "order"
        result = schedule("-g", "gpt2", "-o", order)
        self.assertEqual(result.returncode, 0, result.stderr)
        names = [line.split("\t")[1] for line in order.read_text().splitlines()[1:]]
        self.assertEqual(len(names), 148)
        self.assertEqual(names[0], "transformer.wte.weight")
        self.assertEqual(names[-1], "transformer.ln_f.bias")

    def test_the_figures_of_a_graph_are_printed(self):
        self.assertRegex(schedule("-g", "inception-v1").stdout,
                         r"116 tensors, \d+\.\d\d MiB\n +\d+ ops \(\d+ compute\), "
                         r"longest path \d+, "
                         r"\d\.\d\d direct dependencies \(at most \d+\), \d+\.\d\d ops in parallel")

    def test_a_layer_waits_for_its_own_pieces_behind_the_barrier(self):
        lines = subprocess.run([str(pathlib.Path(TUTTI).with_name("proxies"))], text=True,
                               capture_output=True, timeout=60, check=True).stdout.splitlines()
        second = lines[lines.index("barrier: every operator of this step has ended") + 1:]
        pieces = [line for line in lines if "wire: layer" in line]
        self.assertEqual(len(pieces), 2 * len(set(pieces)))
        for layer in range(4):
            forward = len(lines) - len(second) + second.index(f"forward of layer {layer}")
            last = f"  wire: layer {layer}, piece 3 of 3"
            self.assertLess(lines.index(last), forward)
            backward = lines.index(f"backward of layer {layer}", forward)
            self.assertNotIn(last, lines[lines.index(last) + 1:backward])

    def test_every_layer_of_the_next_forward_waits_for_its_own_sum(self):
        layers = str(pathlib.Path(TUTTI).with_name("layers"))
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                result = subprocess.run(
                    [TUTTI, "run", "-n", "3", layers], capture_output=True, text=True, timeout=60,
                    env={**os.environ, "TUTTI_TRANSPORT": transport})
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertRegex(result.stdout, r"20 steps; .* every layer is at 2\.66667")

    def test_the_golden_example_takes_26_and_18_units(self):
        trace = self.folder / "golden.tsv"
        trace.write_text(TRACE)
        unit = ["--form", "server", "--mbit", 8000, "--overhead", 0, "--latency", 0]
        result = schedule("-g", trace, *unit, "--chunk", 1000000, "--credit", 1000000)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("step        18.000 ms", result.stdout)
        whole = schedule("-g", trace, *unit, "--compare")
        self.assertRegex(whole.stdout, r"fifo\s+26\.000")

    def test_pictures_graphs_and_edges_are_well_formed(self):
        plot, save, edges = (self.folder / name for name in ("plot.svg", "graph.json", "edges"))
        result = schedule("-g", "resnet50-v1", "--ops", "cheapest", "--plot", plot, "--save", save,
                          "--edges", edges)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("standard deviation"), 11)  # of all, of those shown
        root = xml.etree.ElementTree.parse(plot).getroot()
        self.assertGreater(len(list(root.iter("{http://www.w3.org/2000/svg}rect"))), 50)
        graph = json.loads(save.read_text())
        ids = {op["id"] for op in graph["ops"]}
        for line in edges.read_text().splitlines():
            self.assertTrue(set(line.split("\t")) <= ids)
        again = schedule("-g", save, "--ops", "cheapest")
        steps = [re.search(r"step .*", text.stdout).group(0) for text in (result, again)]
        self.assertEqual(steps[0], steps[1])

    def test_measured_samples_make_the_line(self):
        samples = self.folder / "samples"
        samples.write_text("# bytes us\n" + "".join(
            f"{size} {100 + 0.002 * size}\n" for size in (1000, 10000, 100000, 1000000)))
        result = schedule("-g", "vgg16", "--samples", samples)
        self.assertIn("f(d) = 100 us + 2 ns/B * d", result.stdout)
        self.assertIn("fitted to 4 samples\n", result.stdout)

    def test_what_the_bench_measured_makes_the_line(self):
        times = self.folder / "times.json"
        bench = subprocess.run([TUTTI, "bench", "allreduce", "-n", "2", "-b", "16K", "-e", "1M",
                                "-i", "3", "--json", str(times)], capture_output=True, text=True,
                               timeout=120)
        self.assertEqual(bench.returncode, 0, bench.stderr)
        result = schedule("-g", "vgg16", "--samples", times)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("fitted to 7 samples of 2 ranks\n", result.stdout)
        for arguments, word in ((["-n", 4], "--ranks is 4"),
                                (["--form", "server"], "has times of all-reduce")):
            refused = schedule("-g", "vgg16", "--samples", times, *arguments)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(f"{times}: ", refused.stderr)
            self.assertIn(word, refused.stderr)

    def test_wrong_calls_are_refused_in_one_line(self):
        cyclic = self.folder / "cyclic.json"
        cyclic.write_text('{"tensors": [{"name": "w", "bytes": 1}], "ops": ['
                          '{"id": "a", "after": ["b"]}, {"id": "b", "after": ["a"]}]}')
        for arguments, code, word in (
                ([], 2, "no graph"), (["-g", "vgg17"], 1, "did you mean"),
                (["-g", "vgg16", "-p", "prioritty"], 2, "did you mean priority"),
                (["-g", cyclic], 1, "cycle"), (["-g", "missing.tsv"], 1, "cannot open"),
                (["-g", "vgg16", "-p", "dear", "--form", "server"], 1, "made for all-reduce"),
                (["-g", "vgg16", "--mbit", "0"], 2, "between"),
                (["-g", "resnet-50"], 1, "did you mean resnet50"),
                (["-g", "resnet50", "--samples-per-s", "0"], 2, "greater than 0"),
                (["-g", "resnet50", "--samples-per-s", "1e-300"], 1, "at most 1e+15 us"),
                (["-g", "missing.tsv", "--batch", "8"], 2, "a file has its own times"),
                (["-g", "vgg16", "--chunk", "1"], 1, "use larger ones"),
                (["-g", "vgg16", "--edges", self.folder / "e"], 2, "needs --ops")):
            with self.subTest(arguments=arguments):
                result = schedule(*arguments)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(word, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1)

    def test_a_refusal_names_the_file_at_fault(self):
        samples, order, graph = (self.folder / name for name in ("samples", "order", "graph.json"))
        graph.write_text(json.dumps({
            "tensors": [{"name": "a\nb", "bytes": 10}],
            "ops": [{"id": "recv", "kind": "recv", "tensor": "a\nb"},
                    {"id": "c\t1", "time_us": 5, "after": ["recv"]},
                    {"id": "d", "time_us": 5, "phase": "backward", "after": ["c\t1"]},
                    {"id": "send", "kind": "send", "tensor": "a\nb", "after": ["d"]}]}))
        samples.write_text("1000 x\n")
        for arguments, words in (
                (["-g", "vgg16", "--samples", samples], f"{samples}: "),
                (["-g", "vgg16", "--samples", "missing"], "missing: cannot open"),
                (["-g", graph, "-o", order], f'{order}: tensor "a\\x0ab" has control characters'),
                (["-g", graph, "--ops", "nearest", "--edges", order],
                 f'{order}: operator "c\\x091" has control characters')):
            with self.subTest(arguments=arguments):
                result = schedule(*arguments)
                self.assertEqual(result.returncode, 1)
                self.assertTrue(result.stderr.startswith("tutti schedule: " + words), result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1)
                self.assertNotIn("a\nb", result.stdout)
                self.assertFalse(order.exists())

    def test_a_written_order_controls_a_job(self):
        trace = self.folder / "golden.tsv"
        trace.write_text(TRACE)
        for policy, first, second in (("priority", "l2", "l0"), ("fifo", "l0", "l2")):
            with self.subTest(policy=policy):
                order = self.folder / policy
                self.assertEqual(schedule("-g", trace, "-p", policy, "-o", order).returncode, 0)
                result = job(order, f"pass:{first}:{second}", f"pass:l1:{second}")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout.count("passed"), 4, result.stdout)
                self.assertNotIn("TUTTI_ORDER", result.stderr)  # all names were used

    def test_names_of_an_order_that_no_call_has_are_reported_once(self):
        order = self.folder / "order"
        for text, verbs, variables, word in (
                ("5\tgone\n1\tlost\n2\tl0\n", ["pass:l0:l1"], {}, "2 of its 3 names to the end; "
                 "the first of them is lost"),
                ("5\tgone\n2\tl0\n", ["step", "pass:l0:l1", "step", "pass:l0:l1", "step"], {},
                 "1 of its 2 names in the first step; the first of them is gone"),
                ("", ["pass:l0:l1"], {}, "names no tensor"),
                ("1\tgone\n", ["pass:l0:l1"], {"TUTTI_SCHEDULE": "off"}, "has no effect")):
            with self.subTest(word=word):
                order.write_text("tutti order 1\n" + text)
                result = job(order, *verbs, **variables)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(word, result.stderr)
                self.assertEqual(result.stderr.count("TUTTI_ORDER"), 1, result.stderr)

    def test_times_that_no_step_can_have_are_refused(self):
        for forward, backward in (("1e308", "1e308"), ("1e307", "1e307"), ("inf", "1")):
            trace = self.folder / "long.tsv"
            trace.write_text(f"# forward_us={forward} backward_us={backward}\na\t1\t0\t1\n")
            result = schedule("-g", trace)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("a step has at most 1e+15 us", result.stderr)

    def test_times_outside_their_pass_are_moved_and_reported_once(self):
        trace = self.folder / "late.tsv"
        trace.write_text(TRACE.replace("\t12000", "\t12003.5").replace("\t8000", "\t5000"))
        result = schedule("-g", trace)
        self.assertEqual(result.returncode, 0)
        self.assertIn("2 times lie outside the pass, moved to its edge; the first: line 3, "
                      "ready at 12003.5 us, taken as 12000", result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)
        trace.write_text(TRACE)
        self.assertEqual(schedule("-g", trace).stderr, "")

    def test_options_without_effect_are_refused_by_name(self):
        file = self.folder / "file"
        forward, compare = ["--forward"], ["--compare"]
        for arguments, words in (
                (forward + ["--plot", file], ["--forward", "--plot"]),
                (forward + compare, ["--forward", "--compare"]),
                (forward + ["--ops", "nearest"], ["--forward", "--ops"]),
                (forward + ["--ops", "nearest", "--edges", file], ["--forward", "--ops"]),
                (forward + ["--edges", file], ["--forward", "--edges"]),
                (forward + ["--barrier"], ["--forward", "--barrier"]),
                (forward + ["-c", "1M"], ["--forward", "--chunk"]),
                (forward + ["--credit", "1M"], ["--forward", "--credit"]),
                (forward + ["-p", "caramel"], ["--forward", "--policy", "tic"]),
                (compare + ["-o", file], ["--compare", "--order"]),
                (compare + ["--plot", file], ["--compare", "--plot"]),
                (compare + ["-p", "tac"], ["--compare", "--policy"]),
                (compare + ["-v"], ["--compare", "--verbose"]),
                (["-p", "fifo", "-c", "1M"], ["--chunk", "--policy fifo"]),
                (["-p", "caramel", "-c", "1M"], ["--chunk", "--policy caramel"]),
                (["-p", "p3", "--credit", "1M"], ["--credit", "--policy p3"])):
            with self.subTest(arguments=arguments):
                result = schedule("-g", "vgg16", *arguments)
                self.assertEqual(result.returncode, 2, result.stdout)
                self.assertEqual(result.stderr.count("\n"), 1)
                for word in words:
                    self.assertIn(word, result.stderr)
                self.assertFalse(file.exists())

    def test_orders_of_receiving_are_shown_and_written(self):
        orders = {}
        for policy in ("priority", "tic", "tac"):
            file = self.folder / policy
            result = schedule("-g", "inception-v3", "--forward", "-p", policy, "-o", file)
            self.assertEqual(result.returncode, 0, result.stderr)
            lines = re.findall(r"^(?:first use|tic|tac) .* ms, E ", result.stdout, re.M)
            self.assertEqual(len(lines), 3)
            orders[policy] = file.read_text()
        self.assertNotEqual(orders["priority"], orders["tac"])

    def test_the_baseline_stays_whole_under_a_chunk(self):
        def fifo(*arguments):
            return re.search(r"fifo (\S+) ms", schedule("-g", "vgg16", *arguments).stdout).group(1)
        self.assertEqual(fifo(), fifo("-c", "1M"))
        self.assertEqual(fifo("--form", "server"), fifo("--form", "server", "-c", "64K"))
        sliced = schedule("-g", "vgg16", "-p", "slices", "-c", "1M")
        self.assertIn("32 transfers (0 in forward), 550 chunks; chunk 1 MiB", sliced.stdout)

    def test_chunk_0_lets_the_cost_model_choose(self):
        chosen = schedule("-g", "vgg16", "--chunk", 0)
        self.assertEqual(chosen.returncode, 0, chosen.stderr)
        self.assertEqual(chosen.stdout, schedule("-g", "vgg16").stdout)
        for form in ("allreduce", "server"):
            rows = [schedule("-g", "vgg16", "--form", form, "--compare", *more).stdout
                    for more in ([], ["--chunk", 0], ["--chunk", "1M"])]
            self.assertEqual(rows[0], rows[1])
            self.assertNotEqual(rows[0], rows[2])


if __name__ == "__main__":
    unittest.main()
