# SPDX-License-Identifier: Apache-2.0
"""tutti simulate: steps that add up, sweeps, files, and refusals in one line.

Labels: asan
Needs: tutti_cli
Timeout: 200
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

TUTTI = str(pathlib.Path(os.environ.get("TEST_BIN", "build/bin")) / "tutti")
PARTS = ("compute", "slowest", "exposed", "agreement", "overhead", "input")


def simulate(*arguments):
    return subprocess.run([TUTTI, "simulate", *map(str, arguments)], capture_output=True,
                          text=True, timeout=120)


class Simulate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rows(self, *arguments):
        path = self.folder / "rows.json"
        result = simulate(*arguments, "--json", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in path.read_text().splitlines()]

    def refused(self, *arguments, code=1):
        result = simulate(*arguments)
        self.assertEqual(result.returncode, code, result.stdout)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("tutti simulate: "), lines[0])
        return lines[0]

    def test_the_parts_of_a_step_add_up(self):
        for row in self.rows("-g", "resnet50", "--cluster", "ethernet-10g", "--sweep",
                             "ranks=1,4,16", "--sweep", "strategy=tutti,ddp,tf-distribute"):
            self.assertAlmostEqual(sum(row["us"][part] for part in PARTS), row["us"]["step"],
                                   delta=1)
            self.assertLessEqual(row["us"]["without_network"], row["us"]["step"] + 1)
            self.assertEqual(sum(row["exchange_sizes"].values()) > 0, True)
            if row["ranks"] == 1:
                self.assertEqual(row["levels"]["leaf"], {"bytes": 0, "messages": 0})

    def test_the_same_options_give_the_same_bytes(self):
        arguments = ("-g", "vgg16", "-n", 12, "--cluster", "summit", "--seed", 5)
        first = simulate(*arguments)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(first.stdout, simulate(*arguments).stdout)
        self.assertNotEqual(first.stdout, simulate(*arguments[:-1], 6).stdout)

    def test_more_bandwidth_makes_a_step_shorter(self):
        rows = self.rows("-g", "vgg16", "-n", 16, "--sweep", "network.bandwidth_gbs=0.5,1,2,4,8")
        steps = [row["us"]["step"] for row in rows]
        self.assertEqual(steps, sorted(steps, reverse=True))
        self.assertEqual([row["sweep"]["network.bandwidth_gbs"] for row in rows],
                         ["0.5", "1", "2", "4", "8"])

    def test_halves_send_half_the_bytes(self):
        arguments = ("-g", "resnet50", "-n", 8, "--strategy", "ddp", "--engine", "tutti")
        whole, = self.rows(*arguments)
        half, = self.rows(*arguments, "--dtype", "bf16")
        sent = [sum(level["bytes"] for level in row["levels"].values()) for row in (whole, half)]
        self.assertAlmostEqual(sent[1] / sent[0], 0.5, delta=0.02)

    def test_accumulated_gradients_are_exchanged_once(self):
        arguments = ("-g", "vgg16", "-n", 8, "--strategy", "ddp")
        once, = self.rows(*arguments)
        often, = self.rows(*arguments, "--accumulate", 4)
        self.assertEqual(once["levels"], often["levels"])
        self.assertAlmostEqual(often["us"]["without_network"] / once["us"]["without_network"], 4,
                               delta=0.01)
        self.assertAlmostEqual(often["us"]["exposed"], once["us"]["exposed"],
                               delta=0.05 * once["us"]["exposed"])
        self.assertGreater(often["samples_per_s"], once["samples_per_s"])

    def test_computation_and_gradients_are_scaled(self):
        arguments = ("-g", "vgg16", "-n", 8, "--strategy", "ddp")
        plain, = self.rows(*arguments)
        half, = self.rows(*arguments, "--dtype", "f16")
        scaled, = self.rows(*arguments, "--scale-bytes", 0.5, "--scale-time", 2)
        self.assertEqual(scaled["levels"], half["levels"])
        self.assertAlmostEqual(scaled["us"]["without_network"] / plain["us"]["without_network"],
                               2, delta=0.01)

    def test_27600_ranks_are_known_by_formula(self):
        rows = self.rows("-g", "resnet50", "-n", 27600, "--cluster", "summit", "--sweep",
                         "strategy=tutti,horovod,horovod-cached")
        self.assertEqual([row["depth"] for row in rows], ["closed"] * 3)
        self.assertEqual([row["engine"] for row in rows], ["tutti", "nccl", "nccl"])
        plan, original, cached = (row["us"]["agreement"] for row in rows)
        self.assertEqual(plan, 0)
        self.assertGreater(original, 100 * cached)

    def test_depths_agree(self):
        rows = self.rows("-g", "resnet50", "-n", 16, "--steps", 3, "--sweep",
                         "depth=machines,moves,closed")
        self.assertEqual([row["depth"] for row in rows], ["machines", "moves", "closed"])
        for row in rows[:2]:
            self.assertAlmostEqual(row["us"]["step"] / rows[2]["us"]["step"], 1, delta=0.05)

    def test_settings_of_strategies_are_swept(self):
        groups = self.rows("-g", "resnet50", "-n", 96, "--cluster", "summit", "--strategy",
                           "horovod-cached", "--sweep", "groups=1,5,161", "--sweep",
                           "engine=nccl,mpi")
        self.assertEqual([sum(row["exchange_sizes"].values()) for row in groups[:2]], [1, 1])
        self.assertEqual([row["engine"] for row in groups], ["nccl", "mpi"] * 3)
        servers = self.rows("-g", "vgg16", "-n", 32, "--strategy", "byteps", "--sweep",
                            "servers=0,4,8")
        exposed = [row["us"]["exposed"] for row in servers]
        self.assertEqual(exposed, sorted(exposed, reverse=True))
        cycles = self.rows("-g", "resnet50", "-n", 8, "--strategy", "horovod", "--sweep",
                           "cycle=1,10,100")
        counts = [sum(row["exchange_sizes"].values()) for row in cycles]
        self.assertEqual(counts, sorted(counts, reverse=True))

    def test_modes_of_control_are_told_apart(self):
        rows = self.rows("-g", "resnet50", "-n", 6000, "--cluster", "summit", "--sweep",
                         "control=plan,bitvector,coordinator,original")
        steps = [row["us"]["step"] for row in rows]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(rows[0]["us"]["agreement"], 0)
        self.assertLess(rows[2]["us"]["agreement"], 1000)
        self.assertGreater(rows[3]["us"]["agreement"], 1000000)

    def test_any_option_of_a_job_is_swept(self):
        rows = self.rows("--sweep", "graph=vgg16,resnet50", "--sweep", "accumulate=1,2", "-n", 4)
        self.assertEqual([row["graph"] for row in rows], ["vgg16"] * 2 + ["resnet50"] * 2)
        self.assertEqual(rows[:2], [{**row, "sweep": swept["sweep"]} for row, swept in zip(
            self.rows("-g", "vgg16", "--sweep", "accumulate=1,2", "-n", 4), rows)])
        plain, crossing = self.rows("-g", "vgg16", "--cluster", "ethernet-10g", "--sweep",
                                    "cross=false,true")
        self.assertLess(crossing["us"]["step"], plain["us"]["step"])
        for words, cause in (("rnks=1", '"rnks" cannot be swept; did you mean ranks'),
                             ("json=a", "cannot be swept"), ("slow=1", "cannot be swept"),
                             ("cross=1", '"1" is neither true nor false'),
                             ("ranks=0", "ranks: 0 is not between 1 and"),
                             ("zzz=1", "give an option of the job, or a field of clusters")):
            self.assertIn(cause, self.refused("-g", "vgg16", "--sweep", words))
        self.assertIn("there is no graph", self.refused("--sweep", "ranks=1"))

    def test_a_cluster_in_a_line(self):
        row, = self.rows("-g", "vgg16", "-n", 4, "--mbit", 10000, "--latency", 100)
        path = self.folder / "mbit-10000.json"
        path.write_text('{"network": {"bandwidth_gbs": 1.25, "latency_us": 100}}')
        self.assertEqual(row, *self.rows("-g", "vgg16", "-n", 4, "--cluster", path))
        slow, fast = self.rows("-g", "vgg16", "-n", 4, "--sweep", "mbit=1000,10000")
        self.assertLess(fast["us"]["step"], slow["us"]["step"])
        self.assertIn("--cluster excludes --mbit",
                      self.refused("-g", "vgg16", "--mbit", 10, "--cluster", "summit"))
        self.assertIn("--cluster excludes --mbit",
                      self.refused("-g", "vgg16", "--mbit", 10, "--sweep", "cluster=summit,dgx2"))
        self.assertIn("need --mbit", self.refused("-g", "vgg16", "--latency", 10))

    def test_a_slow_rank_is_waited_for(self):
        plain, = self.rows("-g", "resnet50", "-n", 16)
        slow, = self.rows("-g", "resnet50", "-n", 16, "--slow", "3=1.5")
        self.assertGreater(slow["us"]["slowest"], 0.3 * plain["us"]["compute"])

    def test_a_cluster_from_a_file(self):
        path = self.folder / "mine.json"
        path.write_text('{"base": "ethernet-25g", "hosts": {"count": 2, "ranks_per_host": 4}}')
        row, = self.rows("-g", "resnet50", "-n", 8, "--cluster", path)
        self.assertEqual(row["cluster"], "mine")
        text = self.refused("-g", "resnet50", "-n", 9, "--cluster", path)
        self.assertIn("9 ranks do not fit cluster mine of 2 hosts with 4 ranks each", text)

    def scenario(self, text):
        (self.folder / "scenario.json").write_text(text)
        return "--scenario", self.folder / "scenario.json"

    def test_a_scenario_is_a_command_line(self):
        (self.folder / "mine.json").write_text('{"base": "ethernet-10g"}')
        words = self.scenario('{"graph": "vgg16", "ranks": 4, "strategy": "ddp", "cross": false,'
                              ' "cluster": "mine.json", "chunk": "4M", "slow": {"1": 1.5},'
                              ' "sweep": {"ranks": [2, 4], "network.bandwidth_gbs": 2}}')
        plain = ("-g", "vgg16", "--strategy", "ddp", "--cluster", self.folder / "mine.json",
                 "--chunk", "4M", "--slow", "1=1.5", "--sweep", "ranks=2,4", "--sweep",
                 "network.bandwidth_gbs=2")
        self.assertEqual(self.rows(*words), self.rows(*plain))
        self.assertEqual(self.rows(*words, "--strategy", "tutti", "--sweep", "ranks=8"),
                         self.rows(*plain[:2], *plain[4:10], "--sweep", "ranks=8"))

    def test_errors_in_a_scenario_have_a_line(self):
        for text, cause in (
                ('{"graph": "vgg16",\n"strategy": "dpd"}', ":2: unknown strategy"),
                ('{"graph":\n"vgg61"}', ":1: vgg61: "),
                ('{"graph": "vgg16",\n\n"cluster": "sumit"}', ":3: sumit: neither a .json"),
                ('{"graph": "vgg16",\n"sweep": {"ranks": ["x"]}}',
                 ":2: ranks: 'x' is not a whole number"),
                ('{"graph": "vgg16",\n"slow": {"3": "x"}}', ":2: --slow"),
                ('{"graph": "vgg16",\n"rank": 5}', ":2: unknown field \"rank\"; did you mean "
                                                   "ranks"),
                ('{"graph": "vgg16",\n"json": "a"}', ":2: json has no place in a scenario"),
                ('{"graph": ', ":1: not JSON")):
            self.assertIn(f"scenario.json{cause}", self.refused(*self.scenario(text)))
        self.assertNotIn("scenario.json", self.refused(
            *self.scenario('{"graph": "vgg16", "strategy": "ddp"}'), "--strategy", "dpd"))

    def test_what_cannot_be_is_refused(self):
        graph = ("-g", "resnet50")
        self.assertIn("no graph; give --graph", self.refused(code=2))
        self.assertIn("did you mean ddp", self.refused(*graph, "--strategy", "dpd"))
        self.assertIn("did you mean summit", self.refused(*graph, "--cluster", "sumit"))
        self.assertIn("did you mean network.bandwidth_gbs",
                      self.refused(*graph, "--sweep", "network.bandwith_gbs=1"))
        self.assertIn("give NAME=VALUE", self.refused(*graph, "--sweep", "ranks"))
        self.assertIn("give RANK=FACTOR", self.refused(*graph, "--slow", "3"))
        self.assertIn("slow rank 9: the job has ranks 0 to 7",
                      self.refused(*graph, "--slow", "9=2"))
        self.assertIn("--cross has no effect on strategy ddp",
                      self.refused(*graph, "--strategy", "ddp", "--cross"))
        self.assertIn("a file has its own times; give --scale-time",
                      self.refused("-g", "a.tsv", "--samples-per-s", "5"))
        self.assertIn("--groups has no effect on strategy tutti with engine tutti",
                      self.refused(*graph, "--groups", 5))
        self.assertIn("--servers has no effect on strategy ddp",
                      self.refused(*graph, "--strategy", "ddp", "--servers", 1))
        self.assertIn("--algorithm has no effect on strategy ddp with engine nccl",
                      self.refused(*graph, "--strategy", "ddp", "--algorithm", "ring"))
        self.assertIn("strategy ps sums on servers; leave out --engine",
                      self.refused(*graph, "--strategy", "ps", "--engine", "mpi"))
        self.assertIn("strategy ddp runs on nccl here",
                      self.refused(*graph, "--strategy", "ddp", "--depth", "moves"))
        self.assertIn("depth machines does not know --cross; leave it out",
                      self.refused(*graph, "--depth", "machines", "--cross"))
        self.assertIn("cluster laptop has no accelerators for NCCL",
                      self.refused(*graph, "--cluster", "laptop", "--engine", "nccl"))
        self.assertIn("is not one of auto|tutti|nccl|mpi",
                      self.refused(*graph, "--sweep", "engine=gloo"))
        self.assertIn("is not one of auto|machines|moves|closed",
                      self.refused(*graph, "--sweep", "depth=deep"))
        self.assertIn("--control has no effect on strategy ddp",
                      self.refused(*graph, "--strategy", "ddp", "--control", "original"))
        self.assertIn("--cycle: 1e+09 ms; give at most 60000",
                      self.refused(*graph, "--strategy", "horovod", "--cycle", "1e9"))
        self.assertIn("is not a number greater than 0", self.refused(*graph, "--sweep", "cycle=0"))
        self.assertIn("bytes for 500000 ranks, and 2147483648 are allowed; depth closed fits",
                      self.refused("-g", "resnet50", "--cluster", "dgx2", "-n", 500000, "--depth",
                                   "moves"))
        self.assertIn("chunk: '1X' is not a size", self.refused(*graph, "--sweep", "chunk=1X"))
        self.assertIn("no such", self.refused("-g", "nothing.json").lower())


if __name__ == "__main__":
    unittest.main()
