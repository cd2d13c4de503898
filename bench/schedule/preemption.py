# SPDX-License-Identifier: Apache-2.0
"""An urgent call of 64 KB behind 256 MB in flight; and what a shorter segment costs.

A row has the median of the calls (behind_us), which is what is judged, and for what a user may meet
beside it the 90th percentile (behind_p90_us: nine of ten calls took at most that) and the longest.

Two bounds are swept. TUTTI_BACKLOG is what the kernel may hold of a link, which nothing overtakes.
TUTTI_CREDIT is what may have begun; one call begins whole, so there the bytes in flight are many
calls of a segment each, as many as may be: little credit then leaves the wire idle, and credit
without end leaves all to what overtakes on the links.
"""
import math
import statistics

from bench.common.namespaces import ScaledHosts
from bench.schedule.ranks import Job

LARGE, SMALL = 256 << 20, 64 << 10
MBIT = 1000
HOPS = {2: 2, 4: 6}  # of an all-reduce by halves, or by a ring
SEGMENTS = ["16K", "32K", "64K", "128K", "256K", "512K"]
BACKLOGS = ["16K", "32K", "64K", "128K", "256K", "1G"]  # credit below the socket; 1G: no bound
SWEPT = "64K"
CREDITS = ["64K", "256K", "1M", "4M", "16M", "none"]  # bytes of calls that have begun
PIECE, PIECES = 64 << 10, 960  # at most 1,024 calls are in flight
ALONE = 32
JOBS = 6  # in shared memory
MEMORY = {"memory, arena": {"BENCH_DRIVES": "1", "BENCH_ARENA": "1"},
          "memory": {"BENCH_DRIVES": "1"},  # a waiting thread polls at first
          "memory, by event": {}}           # a waiting thread sleeps on the descriptor


def bytes_of(text):
    return int(text[:-1]) << 10


def run(bench):
    count = 8 if bench.quick else 16
    for ranks in () if bench.options.memory else (2,) if bench.quick else (2, 4):
        with ScaledHosts(ranks, bench.folder, MBIT, burst="256kb", gso=65536,
                         below=4194304) as hosts:
            for segment in ["64K"] if bench.quick else ["64K", "256K"] if ranks == 4 else SEGMENTS:
                over_tcp(bench, hosts, ranks, segment, count)
            for backlog in BACKLOGS if ranks == 2 and not bench.quick else ():
                over_tcp(bench, hosts, ranks, SWEPT, count, backlog)
            for credit in CREDITS if ranks == 2 and not bench.quick else ():
                under_credit(bench, hosts, credit, count)
    for where, settings in MEMORY.items():
        over_memory(bench, where, settings, count)


def p90(times):
    """The least that nine of ten are not above."""
    return sorted(times)[math.ceil(0.9 * len(times)) - 1]


def urgent(job, behind, count, gap_us, piece=""):
    """Of each urgent call, in microseconds: from when the last rank has started it to when the last
    one has its result; and how long after its instant that was, which is the timers' doing."""
    answers = job.ask(f"urgent {behind} {SMALL} {count} {gap_us} {piece}")
    found = []
    for call in range(count):
        starts = [rank[2 * call] / 1e3 for rank in answers]
        ends = [rank[2 * call + 1] / 1e3 for rank in answers]
        if min(starts) >= 0:  # else it came after the large one
            found.append((max(ends) - max(starts), max(starts)))
    return found


def alone_on_wire(job):
    """Calls one after the other: a shaper that was idle lets its bucket's worth pass at once, four
    such calls here, which no wire of this speed does."""
    times = job.slowest(f"bulk {SMALL} {2 * ALONE}")
    return [(time, 0) for time in times[ALONE:]]


def over_tcp(bench, hosts, ranks, segment, count, backlog=None):
    job = Job(f"preemption-{ranks}-{segment}-{backlog}", ranks, bench.folder)
    try:
        job.begin(hosts, TUTTI_SEGMENT=segment, TUTTI_BACKLOG=backlog or "0")
        sent = int(hosts.payload_bytes_a_us() * 100e3) // 4 * 4
        bulk_us = statistics.median(job.slowest(f"bulk {sent} 3"))
        alone = alone_on_wire(job)
        behind = urgent(job, LARGE, count, 60000)
    finally:
        job.end()
    chunk_us = bytes_of(segment) / hosts.payload_bytes_a_us()
    share = 2 * (ranks - 1) / ranks * sent / hosts.payload_bytes_a_us() / bulk_us
    note(bench, "tcp" if backlog is None else f"tcp, backlog {backlog}", ranks, segment,
         (alone, behind, chunk_us, share))


def under_credit(bench, hosts, credit, count):
    job = Job(f"preemption-credit-{credit}", 2, bench.folder)
    try:
        job.begin(hosts, TUTTI_SEGMENT=SWEPT, TUTTI_CREDIT="0" if credit == "none" else credit)
        sent = int(hosts.payload_bytes_a_us() * 100e3) // PIECE * PIECE
        bulk_us = statistics.median(job.slowest(f"bulk {sent} 3 {PIECE}"))
        alone = alone_on_wire(job)
        behind = urgent(job, PIECE * PIECES, count, 25000, PIECE)
    finally:
        job.end()
    chunk_us = bytes_of(SWEPT) / hosts.payload_bytes_a_us()
    share = sent / hosts.payload_bytes_a_us() / bulk_us
    note(bench, f"tcp, credit {credit}", 2, SWEPT, (alone, behind, chunk_us, share),
         {"behind_bytes": PIECE * PIECES, "piece_bytes": PIECE})


def over_memory(bench, where, settings, count):
    """Where the kernel puts two ranks' four threads differs from job to job: several, together."""
    bulk, alone, behind, jobs = [], [], [], []
    for turn in range(1 if bench.quick else JOBS):
        job = Job(f"preemption-{where.replace(', ', '-').replace(' ', '-')}-{turn}", 2,
                  bench.folder)
        try:
            job.begin(**settings)
            bulk += job.slowest(f"bulk {LARGE} 3")
            alone += urgent(job, 0, count, 1000)
            found = [call for _ in range(6) for call in urgent(job, LARGE, 6, 4000)]
        finally:
            job.end()
        behind += found
        jobs.append(round(statistics.median(time for time, _ in found), 1))
    chunk_us = statistics.median(bulk) * bytes_of("256K") / LARGE
    note(bench, where, 2, "256K", (alone, behind, chunk_us, None), {"jobs_us": jobs})


def note(bench, where, ranks, segment, found, more=None):
    alone, behind, chunk_us, share = found
    times = [time for time, _ in behind]
    row = {"section": "preemption", "where": where, "ranks": ranks, "segment": segment,
           "chunk_us": round(chunk_us, 1),
           "alone_us": round(statistics.median(time for time, _ in alone), 1),
           "behind_us": round(statistics.median(times), 1), "behind_p90_us": round(p90(times), 1),
           "behind_most_us": round(max(times), 1),
           "late_us": round(statistics.median(late for _, late in behind), 1),
           "samples": len(behind)}
    row |= more or {}
    if share:
        row["share"] = round(share, 4)
    bench.record(**row)
    print(f"preemption, {where}, {ranks} ranks, segment {segment}: alone {row['alone_us']:.0f} us, "
          f"behind {row.get('behind_bytes', LARGE) >> 20} MB {row['behind_us']:.0f} us (90 % "
          f"within {row['behind_p90_us']:.0f}, most {row['behind_most_us']:.0f}; timers "
          f"{row['late_us']:.0f} late), a chunk takes {chunk_us:.0f} us"
          + (f", {100 * share:.1f} % of the wire" if share else ""), flush=True)


def judge(bench, rows):
    for row in rows:
        if row["where"].startswith("tcp, "):
            continue  # of a sweep, which shows what a choice costs
        chunks = 2 * HOPS[row["ranks"]] if row["where"] == "tcp" else 3
        allowed = chunks * row["chunk_us"] + row["alone_us"]
        # Rows of earlier runs have no percentile.
        beside = f" (90 % within {row['behind_p90_us']:.0f})" if "behind_p90_us" in row else ""
        bench.verdicts.add(
            f"preemption, {row['where']}, {row['ranks']} ranks, {row['segment']}: urgent call",
            f"{row['behind_us']:.0f} us, median{beside}",
            f"at most {allowed:.0f}: {chunks} chunks and alone", row["behind_us"] <= allowed)
