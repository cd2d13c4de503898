# SPDX-License-Identifier: Apache-2.0
"""Which slow tests `make check` runs: a function of changed paths, commit count and durations.

A path touches the labels that tools/check-areas.txt gives it; a test is touched when it has one of
them, or when the path is its own file. Of the other tests a share is run, another one at every
commit, so that each test is run regularly. Both stay within a budget; tests that do not fit are
left out, and are part of the result.
"""
import dataclasses
import math
import re

SHARES_MIN = 4  # the other tests are run once in this many commits, or more rarely if they are long
UNKNOWN_SECONDS = 10.0  # of a test that was never timed
BUILD = "(build)"  # the name under which building a kind is timed
EVERYTHING = "*"
NOTHING = "-"


@dataclasses.dataclass(frozen=True)
class Test:
    """A test of one kind of build."""
    kind: str
    name: str
    labels: frozenset = frozenset()
    is_serial: bool = False


@dataclasses.dataclass(frozen=True)
class Plan:
    """The tests to run, in order of importance within each kind, and those left out."""
    chosen: tuple
    left_out: tuple
    touched: frozenset  # those of both that are touched
    seconds: float
    share: int  # from 0
    shares: int


class Clock:
    """Expected duration of tests: wall-clock seconds with `jobs` in parallel."""

    def __init__(self, durations, jobs, slowness=1.0):
        self.durations = durations  # {(kind, name): seconds}
        self.jobs = jobs
        self.slowness = slowness

    def of_test(self, test):
        seconds = self.durations.get((test.kind, test.name), UNKNOWN_SECONDS) * self.slowness
        return seconds if test.is_serial else seconds / self.jobs

    def of_build(self, kind):
        return self.durations.get((kind, BUILD), 0.0) * self.slowness

    def of_all(self, tests):
        return (sum(map(self.of_test, tests)) +
                sum(map(self.of_build, {test.kind for test in tests})))


def read_areas(text):
    """{path prefix: labels} of a file like tools/check-areas.txt."""
    lines = [line.split("#")[0].split() for line in text.splitlines()]
    return {words[0]: frozenset(words[1:]) for words in lines if words}


def read_durations(text):
    """{(kind, name): seconds} of a file like tools/check-durations.txt."""
    lines = [line.split("#")[0].split() for line in text.splitlines()]
    return {(kind, name): float(seconds) for kind, name, seconds in filter(None, lines)}


def write_durations(durations):
    return "".join(f"{kind} {name} {seconds:.1f}\n"
                   for (kind, name), seconds in sorted(durations.items()))


def own_test(path):
    """The test that this file defines or gives inputs to; else None."""
    match = (re.fullmatch(r"tests/(fuzz)/corpus/(\w+)/.*", path) or
             re.fullmatch(r"tests/(fuzz)/(\w+)_fuzz\.c", path) or
             re.fullmatch(r"tests/(\w+)/(\w+)_test\.\w+", path))
    if match:
        return f"{match[1]}.{match[2]}"
    match = re.fullmatch(r"(?:src/)?(.*)_test\.c", path)
    return "unit." + match[1].replace("/", ".") if match else None


def touched_labels(paths, areas):
    """The labels and names of tests that these paths touch; EVERYTHING among them: all."""
    if paths is None:  # the changes are unknown
        return {EVERYTHING}
    touched = set()
    for path in paths:
        test = own_test(path)
        prefixes = [prefix for prefix in areas if path.startswith(prefix)]
        if test:
            touched.add(test)
        elif prefixes:
            touched |= areas[max(prefixes, key=len)]
        elif not path.endswith(".md"):
            touched.add(EVERYTHING)
    return touched - {NOTHING}


def is_touched(test, touched):
    name = test.name.removesuffix(".newest")  # one file, run with two versions of PyTorch
    return EVERYTHING in touched or name in touched or bool(test.labels & touched)


def share_of(tests, clock, shares):
    """[share of each test]: runs of about the same length, in the given order."""
    total = sum(map(clock.of_test, tests))
    before, answer = 0.0, []
    for test in tests:
        seconds = clock.of_test(test)
        middle = (before + seconds / 2) / total if total else 0.0
        answer.append(min(int(middle * shares), shares - 1))
        before += seconds
    return answer


def take(candidates, budget, clock, taken=()):
    """`taken`, and those of the candidates that still fit the budget, in their order."""
    answer = dict.fromkeys(taken)
    seconds = clock.of_all(answer)
    kinds = {test.kind for test in answer}
    for test in candidates:
        more = clock.of_test(test) + (0.0 if test.kind in kinds else clock.of_build(test.kind))
        if test not in answer and seconds + more <= budget:
            answer[test] = None
            kinds.add(test.kind)
            seconds += more
    return list(answer)


def plan(tests, touched, count, budget, clock):
    """The plan for the commit with this number; budget in seconds, None: everything is run."""
    tests = sorted(tests, key=lambda test: (test.kind, test.name))
    all_touched = frozenset(test for test in tests if is_touched(test, touched))
    if budget is None:
        return Plan(tuple(tests), (), all_touched, clock.of_all(tests), 0, 1)
    # A share takes at most a quarter of the budget, so that touched tests have room beside it.
    total = sum(map(clock.of_test, tests))
    shares = max(SHARES_MIN, math.ceil(total / (budget / 4)))
    share = count % shares
    numbers = share_of(tests, clock, shares)
    in_turn = sorted(range(len(tests)), key=lambda i: ((numbers[i] - share) % shares, i))
    due = [tests[i] for i in in_turn if numbers[i] == share]
    kept = take(due, budget / 2, clock)
    # If not all touched tests fit, those whose turn is next are run first, others at later commits.
    chosen = take([tests[i] for i in in_turn if tests[i] in all_touched], budget, clock, kept)
    left_out = set(tests).difference(chosen)
    return Plan(tuple(sorted(chosen, key=lambda test: test not in all_touched)),
                tuple(test for test in tests if test in left_out), all_touched,
                clock.of_all(chosen), share, shares)
