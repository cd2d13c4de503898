# SPDX-License-Identifier: Apache-2.0
"""tools/check: the tests that the plan chooses; it works without git and in a shallow clone.

Timeout: 120
"""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(SOURCE / "tools"))
import check_plan  # noqa: E402
from check_plan import BUILD, Clock, Test  # noqa: E402

loader = importlib.machinery.SourceFileLoader("check", str(SOURCE / "tools/check"))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
loader.exec_module(check)

AREAS = check_plan.read_areas("""
# path     labels
src/mesh/  mesh processes
src/base/  *
docs/      -
tests/fuzz/ fuzz
""")


def tests(count, labels=(), kind="asan"):
    return [Test(kind, f"t{i:03}", frozenset(labels)) for i in range(count)]


def clock(seconds=10.0, builds=0.0, count=100):
    durations = {(kind, f"t{i:03}"): seconds for i in range(count) for kind in ("asan", "tsan")}
    return Clock({**durations, ("asan", BUILD): builds, ("tsan", BUILD): builds}, jobs=1)


class Touched(unittest.TestCase):
    def test_the_longest_prefix_counts(self):
        areas = {"src/": {"all"}, "src/mesh/": {"mesh"}}
        self.assertEqual(check_plan.touched_labels(["src/mesh/a.c"], areas), {"mesh"})

    def test_documents_touch_nothing_and_unknown_paths_everything(self):
        for paths, labels in ((["docs/x.md", "NEWS.md", "docs/pictures/a.svg"], set()),
                              (["src/new/a.c"], {"*"}), (None, {"*"}), ([], set()),
                              (["src/mesh/a.c"], {"mesh", "processes"}), (["src/base/x.h"], {"*"})):
            self.assertEqual(check_plan.touched_labels(paths, AREAS), labels, paths)

    def test_a_test_is_touched_by_its_own_file(self):
        for path, name in (("tests/fuzz/ring_fuzz.c", "fuzz.ring"),
                           ("tests/fuzz/corpus/ring/first", "fuzz.ring"),
                           ("tests/processes/ssh_test.py", "processes.ssh"),
                           ("src/mesh/mesh_test.c", "unit.mesh.mesh"),
                           ("src/control/named/cut_test.c", "unit.control.named.cut"),
                           ("cli/run/wire_test.c", "unit.cli.run.wire")):
            self.assertEqual(check_plan.touched_labels([path], AREAS), {name})
            self.assertTrue(check_plan.is_touched(Test("slow", name), {name}))

    def test_every_label_of_the_map_is_carried_and_every_layer_is_in_it(self):
        areas = check_plan.read_areas((SOURCE / "tools/check-areas.txt").read_text())
        for folder in (SOURCE / "src").iterdir():
            self.assertIn(f"src/{folder.name}/", areas)
        layers = {path.name for path in (SOURCE / "src").iterdir()}
        suites = {path.name for path in (SOURCE / "tests").iterdir()}
        said = {"*", "-", "arm", "cli", "examples", "plugin", "packages"}
        for labels in areas.values():
            self.assertEqual(labels - layers - suites - said, set())


class Choice(unittest.TestCase):
    def test_the_rest_is_run_once_in_so_many_commits(self):
        seen = []
        for count in range(1000, 1000 + check_plan.SHARES_MIN):
            plan = check_plan.plan(tests(100), set(), count, 10000, clock())
            self.assertEqual(plan.shares, check_plan.SHARES_MIN)
            self.assertEqual(len(plan.chosen) + len(plan.left_out), 100)
            seen += [test.name for test in plan.chosen]
        self.assertEqual(sorted(seen), [test.name for test in tests(100)])

    def test_touched_tests_are_all_run_where_they_fit(self):
        some = tests(20, ["mesh"], "tsan")
        for count in range(5):
            plan = check_plan.plan(tests(80) + some, {"mesh"}, count, 10000, clock())
            self.assertLessEqual(set(some), set(plan.chosen))
            self.assertEqual(plan.touched, set(some))

    def test_the_budget_holds_and_tests_left_out_are_named(self):
        for budget in (35, 100, 400, 990):
            for count in range(12):
                some = tests(100) + tests(50, kind="tsan")
                plan = check_plan.plan(some, {"*"}, count, budget, clock(builds=20))
                self.assertLessEqual(plan.seconds, budget)
                self.assertEqual({*plan.chosen, *plan.left_out}, set(some))

    def test_a_large_touched_area_does_not_starve_the_rest(self):
        some = tests(90, ["mesh"], "asan") + tests(10, kind="tsan")
        seen = set()
        for count in range(200):
            plan = check_plan.plan(some, {"mesh"}, count, 200, clock())
            seen |= set(plan.chosen)
        self.assertEqual(seen, set(some))

    def test_building_a_kind_is_counted_once(self):
        one = check_plan.take(tests(10), 75, clock(builds=50))
        self.assertEqual(len(one), 2)

    def test_a_test_without_a_duration_is_not_free(self):
        self.assertEqual(Clock({}, jobs=2).of_test(Test("asan", "new")),
                         check_plan.UNKNOWN_SECONDS / 2)

    def test_serial_tests_have_no_other_beside_them(self):
        times = Clock({("slow", "a"): 8.0}, jobs=2)
        self.assertEqual([times.of_test(Test("slow", "a", is_serial=s)) for s in (False, True)],
                         [4.0, 8.0])

    def test_without_a_budget_everything_is_run(self):
        plan = check_plan.plan(tests(100), set(), 7, None, clock())
        self.assertEqual((len(plan.chosen), plan.left_out), (100, ()))

    def test_the_same_commit_gives_the_same_plan(self):
        some = tests(60, ["mesh"]) + tests(40, kind="tsan")
        plans = [check_plan.plan(order, {"mesh"}, 11, 200, clock()) for order in (some, some[::-1])]
        self.assertEqual(*plans)

    def test_durations_are_read_as_they_are_written(self):
        times = {("asan", "b"): 1.5, ("arm", "a"): 12.0}
        self.assertEqual(check_plan.read_durations(check_plan.write_durations(times)), times)
        check_plan.read_durations((SOURCE / "tools/check-durations.txt").read_text())


class SlowMachine(unittest.TestCase):
    def test_tests_that_no_longer_fit_are_left_out_by_name(self):
        with mock.patch.object(check, "BEGAN", check.time.monotonic() - 300):
            run = check.Run(1000, Clock(clock().durations, jobs=check.TEST_JOBS))
        run.planned = 100.0  # three times as slow as recorded
        fit = run.that_fit(tests(100))
        self.assertEqual(len(fit), 700 * check.TEST_JOBS // 30)
        self.assertEqual([*fit, *run.left_out], tests(100))


class Git(unittest.TestCase):
    """Where the history is short or missing, everything counts as touched."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name, "full")
        self.root.mkdir()
        for name, value in (("ROOT", self.root), ("COMMITS", 3)):
            patch = mock.patch.object(check, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        clean = {"GIT_CEILING_DIRECTORIES": folder.name, "GIT_CONFIG_GLOBAL": "/dev/null"}
        patch = mock.patch.dict(os.environ, clean)
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("CHECK_SINCE", None)

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True,
                       cwd=self.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def commit(self, name):
        (self.root / name).write_text(name)
        self.git("add", name)
        self.git("commit", "-q", "-m", name)

    def history(self):
        self.git("init", "-q", "-b", "main")
        for number in range(5):
            self.commit(f"file{number}")

    def test_the_last_commits_and_the_working_tree_count(self):
        self.history()
        (self.root / "fresh").write_text("")
        (self.root / "file0").write_text("other")
        paths, _ = check.changed_paths()
        self.assertEqual(sorted(paths), ["file0", "file2", "file3", "file4", "fresh"])
        self.assertEqual(check.commit_count(), 5)

    def test_a_branch_counts_since_it_left_the_main_one(self):
        self.history()
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.commit("mine")
        self.assertEqual(check.changed_paths()[0], ["mine"])
        with mock.patch.dict(os.environ, {"CHECK_SINCE": "HEAD~2"}):
            self.assertEqual(check.changed_paths()[0], ["file4", "mine"])

    def test_a_shallow_clone(self):
        self.history()
        shallow = self.root.parent / "shallow"
        self.git("clone", "-q", "--depth", "1", f"file://{self.root}", str(shallow))
        with mock.patch.object(check, "ROOT", shallow):
            self.assertIsNone(check.changed_paths()[0])
            self.assertGreater(check.commit_count(), 0)
            self.assertEqual(check.commit_count(), check.commit_count())

    def test_no_git(self):
        self.assertIsNone(check.changed_paths()[0])
        self.assertGreater(check.commit_count(), 0)
        with mock.patch.dict(os.environ, {"PATH": "/nonexistent"}):
            self.assertIsNone(check.changed_paths()[0])


if __name__ == "__main__":
    unittest.main()
