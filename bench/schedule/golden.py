# SPDX-License-Identifier: Apache-2.0
"""Three layers of 3, 6 and 3 units, forward and backward 2 units each: computed, then run."""
import statistics

from bench.common.namespaces import ScaledHosts
from bench.common.steps import Step, model
from bench.schedule.ranks import Job

UNIT_US = 40000.0
MBIT = 250
SEGMENT = "64K"


def run(bench):
    computed = model("golden")
    for form, (fifo, ours) in computed.items():
        for order, units in (("fifo", fifo), ("ours", ours)):
            bench.record(section="golden", form=form, order=order, by="computation", units=units)
    rounds = 2 if bench.quick else 7
    with ScaledHosts(2, bench.folder, MBIT) as hosts:
        server(bench, hosts, rounds)
        allreduce(bench, hosts, rounds)


def report(bench, form, rows):
    fifo, ours = (statistics.median(rows[name]) for name in ("fifo", "ours"))
    for name, times in rows.items():
        bench.record(section="golden", form=form, order=name, by="run", unit_us=UNIT_US,
                     rounds=len(times), units=round(statistics.median(times), 3),
                     least=round(min(times), 3), most=round(max(times), 3))
    print(f"golden, {form}: FIFO {fifo:.2f} units, by first use {ours:.2f}")


def server(bench, hosts, rounds):
    """A worker pushes to a server that sums, and pulls."""
    job = Job("golden-server", 2, bench.folder, "bench-schedule-server")
    try:
        job.begin(hosts, TUTTI_SEGMENT=SEGMENT)
        sent = 2 * hosts.payload_bytes_a_us() * UNIT_US
        byte_us = statistics.median(job.slowest(f"duplex {int(sent)} 3")) / sent
        unit_bytes = int(UNIT_US / byte_us) // 4 * 4
        rows = {"fifo": [], "ours": []}
        for _ in range(rounds):
            for name, chunked in (("fifo", 0), ("ours", 1)):
                times = job.slowest(f"golden {chunked} {unit_bytes} {UNIT_US} 1")
                rows[name] += [time / UNIT_US for time in times]
    finally:
        job.end()
    report(bench, "server", rows)


def allreduce(bench, hosts, rounds):
    """Two workers sum by all-reduce."""
    job = Job("golden-allreduce", 2, bench.folder)
    try:
        job.begin(hosts, TUTTI_SEGMENT=SEGMENT)
        sent = int(2 * hosts.payload_bytes_a_us() * UNIT_US) // 4 * 4
        byte_us = statistics.median(job.slowest(f"bulk {sent} 3")) / sent
        layers = [(3, 0, 6), (6, 2, 4), (3, 4, 2)]  # units, first use, ready after backward began
        step = Step(6 * UNIT_US, 6 * UNIT_US, [
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
    report(bench, "allreduce", rows)


def judge(bench, rows):
    units = {(row["by"], row["form"], row["order"]): row["units"] for row in rows}
    for form, fifo, least, wanted in (("server", 26, 18, 18.9), ("allreduce", 20, 17, 17.9)):
        found = [units["computation", form, order] for order in ("fifo", "ours")]
        bench.verdicts.add(f"golden, {form}, computed", f"{found[0]:.1f} and {found[1]:.1f} units",
                           f"{fifo} and {least}", found == [fifo, least])
        found = [units["run", form, order] for order in ("fifo", "ours")]
        bench.verdicts.add(f"golden, {form}: by first use",
                           f"{found[1]:.2f} units (FIFO {found[0]:.2f})",
                           f"at most {wanted} (FIFO {fifo})", found[1] <= wanted)
