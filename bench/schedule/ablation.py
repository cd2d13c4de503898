# SPDX-License-Identifier: Apache-2.0
"""Four traces at seven link speeds, with and without priority and crossing, against the ideal.

A round of a variant is a warm-up step and `--steps N` timed ones (default 1; `steps` of a row);
what stands in times_us is their mean, by the slowest rank. With N above 1 a step also meets what
its predecessor left behind.

Computation is slept through, so that what the library does on the processor meanwhile, such as the
time in tutti_start, costs a step nothing here and would where computation needs the core. So a row
has it apart: cpu_us is the processor time of a timed step, all threads of all ranks together
(CLOCK_PROCESS_CPUTIME_ID of each, which has what the kernel did in their name), by variant, the
median of the rounds.

"auto" does what "both" does and leaves it to the library whether priorities hold, which is its
default. It is told of each step (tutti_step, behind backward), and decides there for the next one
by the time since it was told last. What comes first in a round is as long as the other variants'
turns, which looks like computation; the second step then goes the plain way, and its end is the
first that tells what a step is. So two steps must pass, and a third, that what decides has itself
been decided. auto_rho is what it saw in the last step, the mean of the ranks. (Waiting on a
descriptor it takes for computation: it sees no rho above 1.)
"""
import contextlib
import math
import statistics

from bench.common.namespaces import ScaledHosts
from bench.common.rounds import in_turn
from bench.common.steps import model
from bench.schedule.cores import Watch
from bench.schedule.ranks import Job
from bench.schedule.trace import read_trace

TRACES = ["vgg16", "resnet50", "bert-large", "transformer-base"]
RHOS = [0.1, 0.5, 0.75, 1, 1.5, 2, 5]
# What the ranks do, and the library: without priority it serves all in the order of submission,
# else also what is short before what is long, which is a priority of its own.
# Flags of bench-schedule-rank, TUTTI_SCHEDULE, and how many steps come before those that are timed:
# the second one is what all later ones are, but for auto.
VARIANTS = {"plain": (0, "off", 1), "priority only": (1, "priority", 1),
            "crossing only": (2, "off", 1), "both": (3, "priority", 1), "auto": (19, "auto", 3)}
SCHEDULES = ("off", "priority", "auto")
MBIT = 250
SEGMENT = "16K"
# Forward and backward together, at every link speed: the traces tell how it is spread over the
# tensors, published V100 systems how long it is. A trace of a faster card would only be stretched.
COMPUTE_US = {"vgg16": 328e3, "resnet50": 310e3, "transformer-base": 205e3, "bert-large": 750e3}
# The ranks leave 58 to 87 % of two cores idle, and one long sum has 98 % of the wire before a case.
# With less than this somebody else had the machine, and the case is run again, whatever came out;
# else its first run is what counts.
IDLE_MIN, SHARE_MIN, TRIES = 0.5, 0.96, 3


def run(bench):
    traces = bench.options.trace or (["resnet50"] if bench.quick else TRACES)
    rhos = bench.options.rho or ([1] if bench.quick else RHOS)
    segment = bench.options.segment or SEGMENT
    with ScaledHosts(4, bench.folder, MBIT, gso=int(segment[:-1]) << 10) as hosts:
        with contextlib.ExitStack() as stack:
            jobs = {schedule: begin(bench, hosts, stack, TUTTI_SEGMENT=segment,
                                    TUTTI_SCHEDULE=schedule) for schedule in SCHEDULES}
            for trace in traces:
                for rho in rhos:
                    for _ in range(1 if bench.quick else TRIES):
                        if not bench.quick:
                            Watch.calm()
                        row = case(bench, hosts, jobs, trace, rho)
                        if row["idle"] >= IDLE_MIN and row["wire_share"] >= SHARE_MIN:
                            break
                    bench.record(**row)


def begin(bench, hosts, stack, **settings):
    job = Job(f"ablation-{settings['TUTTI_SCHEDULE']}", 4, bench.folder)
    stack.callback(job.end)
    return job.begin(hosts, **settings)


def wire_byte_us(hosts, job):
    """What a byte of an all-reduce takes, all links busy: the rate the ideal schedule is given."""
    sent = int(hosts.payload_bytes_a_us() * 60e3) // 4 * 4
    return min(job.slowest(f"bulk {sent} 3")) / sent


def case(bench, hosts, jobs, trace, rho):
    byte_us = wire_byte_us(hosts, jobs["priority"])
    compute_us = COMPUTE_US[trace]
    step = read_trace(trace).scaled(compute_us, rho * compute_us / byte_us)
    table = step.write(bench.folder / "table")
    for job in jobs.values():
        job.ask(f"table {table}")
    plain_us, ideal_us, crossing_us = model("step", table, byte_us)["step"]
    machine, before = Watch(), hosts.counters()
    times, spent = ({name: [] for name in VARIANTS} for _ in range(2))
    seen = []
    rounds, steps = bench.options.rounds or (2 if bench.quick else 7), bench.options.steps
    names = list(VARIANTS)
    for turn in range(rounds):
        for name in in_turn(names, turn):
            flags, schedule, warm = VARIANTS[name]
            found = jobs[schedule].slowest(f"steps {flags} {warm} {steps}")
            told = jobs[schedule].ask("spent")
            times[name].append(sum(found) / len(found))
            spent[name].append(sum(rank[0] for rank in told) / 1e3 / steps)
            seen += [sum(rank[1] for rank in told) / len(told)] if name == "auto" else []
    passed = {key: value - before[key] for key, value in hosts.counters().items()}
    row = {"section": "ablation", "trace": trace, "rho": rho, "mbit": MBIT,
           "segment": bench.options.segment or SEGMENT,
           "bytes": step.bytes(), "tensors": len(step.rows), "compute_us": round(compute_us),
           "shrunk": round(read_trace(trace).bytes() / step.bytes(), 1),
           "wire_share": round(1.5 / hosts.payload_bytes_a_us() / byte_us, 4),
           "computed_plain_us": plain_us, "computed_crossing_us": crossing_us,
           "ideal_us": ideal_us, "idle": round(machine.idle(), 3),
           "tc": passed, "rounds": rounds, "steps": steps,
           "times_us": {name: [round(time) for time in found] for name, found in times.items()},
           "median_us": {name: round(statistics.median(found)) for name, found in times.items()},
           "cpu_us": {name: round(statistics.median(found)) for name, found in spent.items()},
           "auto_rho": round(statistics.median(seen), 3)}
    line = "  ".join(f"{name} {row['median_us'][name] / ideal_us:.3f}" for name in VARIANTS)
    print(f"ablation, {trace:16} rho {rho:<4}: ideal {ideal_us / 1e3:.1f} ms; over it: {line}; "
          f"idle {row['idle']:.2f}; processor of a step (ms): "
          + ", ".join(f"{us / 1e3:.0f}" for us in row["cpu_us"].values()), flush=True)
    return row


def judge(bench, rows):
    for row in rows:
        median, ideal = row["median_us"], row["ideal_us"]
        name = f"{row['trace']}, rho {row['rho']:g}"
        plain, both = median["plain"], median["both"]
        bench.verdicts.add(f"{name}: step over ideal", f"{both / ideal:.3f}", "at most 1.03",
                           both <= 1.03 * ideal)
        gain, possible = plain / both - 1, row["computed_plain_us"] / ideal - 1
        if possible >= 0.1:
            for over, base in (("plain", gain), ("computed plain",
                                                 row["computed_plain_us"] / both - 1)):
                bench.verdicts.add(f"{name}: gain over {over}",
                                   f"{100 * base:.1f} % of {100 * possible:.1f} %",
                                   "at least 90 % of it", base >= 0.9 * possible)
        spread = max(row["times_us"]["plain"]) / min(row["times_us"]["plain"]) - 1
        for part in ("priority only", "crossing only"):
            computed = (row.get("computed_crossing_us", row["computed_plain_us"])
                        / row["computed_plain_us"] if part == "crossing only" else 1)
            bench.verdicts.add(f"{name}: {part} over plain",
                               f"{median[part] / plain:.3f}, quickest rounds "
                               f"{min(row['times_us'][part]) / min(row['times_us']['plain']):.3f}, "
                               f"computed {computed:.3f}, "
                               f"plain itself within {100 * spread:.1f} %",
                               "within 1 %", math.isclose(median[part], plain, rel_tol=0.01))
        if "auto" in median:  # not in rows of earlier runs
            judge_auto(bench, row, name)
        if row["rho"] == 0.1:
            bench.verdicts.add(f"{name}: both over plain", f"{both / plain:.3f}", "at most 1.01",
                               both <= 1.01 * plain)


def judge_auto(bench, row, name):
    median = row["median_us"]
    chosen = "plain" if row["rho"] == 0.1 or median["plain"] < median["both"] else "both"
    better = "plain" if row["rho"] == 0.1 else f"the better of plain and both, {chosen}"
    over = median["auto"] / median[chosen]
    bench.verdicts.add(f"{name}: auto over {better}",
                       f"{over:.3f}, rho as it saw it {row['auto_rho']:.2f}", "at most 1.01",
                       over <= 1.01)
