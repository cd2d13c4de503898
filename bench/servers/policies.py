# SPDX-License-Identifier: Apache-2.0
"""Policies: 8 workers and 2 servers here, computation slept; every read is judged.

Elements of the tensor count the pushes of each worker, so a read shows what it contains. A rate is
that of the middle half of the iterations, mean of the workers. Staleness of a push is the number
of others that were applied between its read and itself."""
import contextlib
import os
import random
import signal
import statistics
import threading
import time

from bench.common.rounds import in_turn
from bench.schedule.cores import Watch
from bench.servers.ranks import Job

WORKERS, SERVERS = 8, 2
POLICIES = {"bulk": ("bulk", 0, 0), "stale": ("stale:3", 3, 0), "async": ("async", -1, 0),
            "quorum": ("quorum:7", 0, 7)}
# base, mean of the exponential part, slow rank, its time: microseconds
SCENES = {"varying": (20e3, 20e3, -1, 0, ("bulk", "stale", "async")),
          "slow": (20e3, 0, 7, 40e3, ("bulk", "stale", "quorum")),
          "equal": (20e3, 2e3, -1, 0, ("async",)),
          "stopped": (20e3, 0, -1, 0, ("bulk", "stale", "async", "quorum"))}
STOP_S, STOP_EVERY_S = 0.1, 0.25


class Stops:
    """Stops a random worker for 100 ms, four times a second."""

    def __init__(self, job, seed):
        self.processes, self.random = job.processes[:WORKERS], random.Random(seed)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.go)

    def go(self):
        while not self.over.is_set():
            chosen = self.random.choice(self.processes).pid
            os.kill(chosen, signal.SIGSTOP)
            time.sleep(STOP_S)
            os.kill(chosen, signal.SIGCONT)
            self.over.wait(STOP_EVERY_S - STOP_S)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def run(bench):
    steps, rounds = (40, 1) if bench.quick else (200, 3)
    with contextlib.ExitStack() as stack:
        jobs = {}
        for name, (policy, _, _) in POLICIES.items():
            jobs[name] = Job(f"policy-{name}", WORKERS, SERVERS, bench.folder)
            stack.callback(jobs[name].end)
            jobs[name].begin()
        idle(bench, jobs["bulk"])
        for scene, (base, exp, slow, slow_us, names) in SCENES.items():
            found = {name: [] for name in names}
            watch = Watch()
            for turn in range(rounds):
                for name in in_turn(list(names), turn):
                    policy, staleness, quorum = POLICIES[name]
                    jobs[name].ask(f"store {policy} add")
                    line = (f"policy {steps} {turn + 1} {base} {exp} {slow} {slow_us} "
                            f"{staleness} {quorum}")
                    with Stops(jobs[name], turn) if scene == "stopped" else \
                            contextlib.nullcontext():
                        found[name].append(jobs[name].ask(line))
            for name, answers in found.items():
                bench.record(**row_of(scene, name, steps, answers, watch.idle()))


def row_of(scene, name, steps, rounds, idle_share):
    rates = [statistics.mean(answer[0] for answer in answers)
             for answers in rounds]
    flat = [answer for answers in rounds for answer in answers]
    row = {"section": "policies", "scene": scene, "policy": POLICIES[name][0], "steps": steps,
           "rounds": len(rounds), "rate": round(statistics.median(rates), 3),
           "rates": [round(rate, 3) for rate in rates],
           "reads": int(sum(answer[1] for answer in flat)),
           "broken": int(sum(answer[2] for answer in flat)),
           "staleness": round(statistics.mean(answer[3] for answer in flat), 3),
           "behind": int(max(answer[4] for answer in flat)), "idle": round(idle_share, 3)}
    print(f"policies, {scene:8} {row['policy']:9} {row['rate']:7.2f} iterations/s, "
          f"{row['reads']} reads, {row['broken']} break the bound, staleness "
          f"{row['staleness']:.2f}, oldest push missing {row['behind']} iterations; "
          f"idle {row['idle']:.2f}", flush=True)
    return row


def ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


def idle(bench, job):
    """What servers use that have served, and have nothing to do."""
    job.ask("store bulk add")
    job.ask("policy 8 1 1000 0 -1 0 0 0")
    time.sleep(0.5)
    pids = [process.pid for process in job.processes[WORKERS:]]
    before, seconds = [ticks(pid) for pid in pids], 2 if bench.quick else 10
    time.sleep(seconds)
    used = sum(ticks(pid) for pid in pids) - sum(before)
    share = used / os.sysconf("SC_CLK_TCK") / seconds / len(pids)
    bench.record(section="policies", scene="idle", seconds=seconds, share=round(share, 5))
    print(f"policies, idle servers: {100 * share:.2f} % of a core", flush=True)


def judge(bench, rows):
    rate = {(row["scene"], row["policy"]): row["rate"] for row in rows if "rate" in row}
    for scene, policy, wanted in (("varying", "stale:3", 1.5), ("varying", "async", 1.7),
                                  ("slow", "quorum:7", 1.8)):
        found = rate[scene, policy] / rate[scene, "bulk"]
        bench.verdicts.add(f"policies, {scene}: {policy} over bulk", f"{found:.3f}",
                           f"at least {wanted}", found >= wanted)
    found = rate["slow", "stale:3"] / rate["slow", "bulk"]
    bench.verdicts.add("policies, slow: stale:3 over bulk", f"{found:.3f}", "within 3 %",
                       abs(found - 1) <= 0.03)
    for row in rows:
        if row["scene"] == "equal":
            bench.verdicts.add("policies, equal: mean staleness of async",
                               f"{row['staleness']:.2f}", f"{WORKERS - 1} within 10 %",
                               abs(row["staleness"] / (WORKERS - 1) - 1) <= 0.1)
        if row["scene"] == "stopped" and row["policy"] != "bulk":
            print(f"stopped: {row['policy']} over bulk "
                  f"{row['rate'] / rate['stopped', 'bulk']:.3f}")
        if row["scene"] == "idle":
            bench.verdicts.add("policies: an idle server's share of a core",
                               f"{100 * row['share']:.2f} %", "below 0.1 %",
                               row["share"] < 0.001)
    judged = [row for row in rows if "broken" in row]
    bench.verdicts.add("policies: reads that break the bound",
                       f"{sum(row['broken'] for row in judged)} of "
                       f"{sum(row['reads'] for row in judged)}", "none",
                       not any(row["broken"] for row in judged))
