# SPDX-License-Identifier: Apache-2.0
"""Three layers of 3, 6 and 3 units, forward and backward 2 units each: computed, then run."""
from . import common

UNIT_US = 20000.0
MBIT = 250


def run(bench):
    computed = common.model("golden")
    for form, wanted in (("server", (26, 18)), ("allreduce", (20, 17))):
        bench.verdicts.add(f"golden, {form}, computed",
                           f"{computed[form][0]:.1f} and {computed[form][1]:.1f} units",
                           f"{wanted[0]} and {wanted[1]}", tuple(computed[form]) == wanted)
    rounds = 3 if bench.quick else 7
    with common.Hosts(2, bench.folder, MBIT) as hosts:
        server(bench, hosts, rounds)
        allreduce(bench, hosts, rounds)


def report(bench, form, rows, wanted):
    fifo, ours = (common.median(rows[name]) for name in ("fifo", "ours"))
    for name, times in rows.items():
        bench.record(section="golden", form=form, order=name, unit_us=UNIT_US, rounds=len(times),
                     units=round(common.median(times), 3), least=round(min(times), 3),
                     most=round(max(times), 3))
    print(f"golden, {form}: FIFO {fifo:.2f} units, by first use {ours:.2f}")
    bench.verdicts.add(f"golden, {form}: by first use", f"{ours:.2f} units (FIFO {fifo:.2f})",
                       f"at most {wanted[1]} (FIFO {wanted[0]})", ours <= wanted[1])


def server(bench, hosts, rounds):
    """A worker pushes to a server that sums, and pulls."""
    job = common.Job("golden-server", 2, bench.folder, "bench-schedule-server")
    try:
        job.begin(hosts, TUTTI_SEGMENT="16K")
        sent = 5 * hosts.payload_bytes_a_us() * UNIT_US
        byte_us = common.median(job.slowest(f"rate {int(sent)} 3")) / sent
        unit_bytes = int(UNIT_US / byte_us) // 4 * 4
        rows = {"fifo": [], "ours": []}
        for _ in range(rounds):
            for name, chunked in (("fifo", 0), ("ours", 1)):
                times = job.slowest(f"golden {chunked} {unit_bytes} {UNIT_US} 1")
                rows[name] += [time / UNIT_US for time in times]
    finally:
        job.end()
    report(bench, "server", rows, (26, 18.9))


def allreduce(bench, hosts, rounds):
    """Two workers sum by all-reduce."""
    job = common.Job("golden-allreduce", 2, bench.folder)
    try:
        job.begin(hosts, TUTTI_SEGMENT="16K")
        sent = int(5 * hosts.payload_bytes_a_us() * UNIT_US) // 4 * 4
        byte_us = common.median(job.slowest(f"bulk {sent} 3")) / sent
        layers = [(3, 0, 6), (6, 2, 4), (3, 4, 2)]  # units, first use, ready after backward began
        step = common.Step(6 * UNIT_US, 6 * UNIT_US, [
            {"elements": int(units * UNIT_US / byte_us / 4), "use": use * UNIT_US,
             "ready": ready * UNIT_US} for units, use, ready in layers])
        job.ask(f"table {step.write(bench.folder / 'golden')}")
        rows = {"fifo": [], "ours": []}
        for _ in range(rounds):
            for name, flags in (("fifo", 2), ("ours", 3)):
                rows[name] += [time / UNIT_US
                               for time in job.slowest(f"steps {flags | 4} 0 1")]
    finally:
        job.end()
    report(bench, "allreduce", rows, (20, 17.9))
