# SPDX-License-Identifier: Apache-2.0
"""Chosen rows of a table beside the whole table: 4 workers push and pull in one round trip, with 2
servers. There is no target: owners add whole parts, and links carry the rows."""
import statistics

from bench.common import namespaces
from bench.common.rounds import in_turn
from bench.servers.ranks import Job

WORKERS, SERVERS, MBIT = 4, 2, 200
ROWS, LENGTH, CHOSEN = 100000, 64, 1000
ROW_BYTES, NUMBER_BYTES = 4 * LENGTH, 8


def run(bench):
    rounds = 2 if bench.quick else 5
    ways = {"whole": 0, "rows": CHOSEN}
    times = {name: [] for name in ways}
    with namespaces.Hosts(WORKERS + SERVERS, bench.folder, rate=f"{MBIT}mbit", burst="256kb",
                          congestion=bench.options.congestion) as hosts:
        job = Job("tables", WORKERS, SERVERS, bench.folder)
        try:
            job.begin(hosts)
            for turn in range(rounds):
                for name in in_turn(list(ways), turn):
                    job.ask("store bulk sum")  # the table before this one is gone
                    times[name] += job.slowest(f"rows {ROWS} {LENGTH} {ways[name]} 2")[1:]
        finally:
            job.end()
    median = {name: statistics.median(found) for name, found in times.items()}
    payload = {"whole": 2 * ROWS * ROW_BYTES, "rows": CHOSEN * (2 * ROW_BYTES + NUMBER_BYTES)}
    bench.record(section="rows", workers=WORKERS, servers=SERVERS, mbit=MBIT, rows=ROWS,
                 length=LENGTH, chosen=CHOSEN, rounds=rounds, payload_bytes=payload,
                 median_us={name: round(value) for name, value in median.items()},
                 times_us={name: [round(time) for time in found] for name, found in times.items()})
    print(f"rows, {CHOSEN} of {ROWS} x {LENGTH} f32, {WORKERS} workers, {SERVERS} servers: "
          f"{median['rows'] / 1e3:.1f} ms, the whole table {median['whole'] / 1e3:.1f}: "
          f"{median['whole'] / median['rows']:.1f} times; payload of a worker "
          f"{payload['whole'] / payload['rows']:.1f} times", flush=True)


def judge(bench, rows):
    """There is nothing to reach."""
