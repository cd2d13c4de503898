# SPDX-License-Identifier: Apache-2.0
"""Sums by 4 workers and 0 to 4 extra hosts, beside all-reduces of the same job.

The bound of a sum is 2n(n-1)M / ((n² + kn - 2k) B), B what a link carries of payload: 1448 bytes of
every 1514. The ring has 2 (n-1)/n M / B; over it k hosts gain 1 + k (n-2) / n²."""
import contextlib
import statistics

from bench.common import namespaces
from bench.common.rounds import in_turn
from bench.common.units import MB, size_text
from bench.schedule.cores import Watch
from bench.servers.ranks import Job

WORKERS, MBIT = 4, 200
BURST = "256kb"  # longer than a packet of the kernel's: else the shaper cuts them, on our cores


def bound_us(servers, length):
    n, k = WORKERS, servers
    bytes_a_us = MBIT / 8 * namespaces.PAYLOAD_BYTES / namespaces.FRAME_BYTES
    return 2 * n * (n - 1) * length / ((n * n + k * n - 2 * k) * bytes_a_us)


def gain(servers):
    return 1 + servers * (WORKERS - 2) / WORKERS ** 2


def run(bench):
    counts = (0, 4) if bench.quick else range(WORKERS + 1)
    lengths = [8 * MB] if bench.quick else [32 * MB]
    for servers in counts:
        with namespaces.Hosts(WORKERS + servers, bench.folder, rate=f"{MBIT}mbit", burst=BURST,
                              congestion=bench.options.congestion) as hosts, \
                contextlib.ExitStack() as stack:
            ways = {}
            for name, setting in (("ring", {"TUTTI_ALGORITHM": "ring"}), ("chosen", {})):
                job = Job(f"split{servers}-{name}", WORKERS, servers, bench.folder)
                stack.callback(job.end)
                job.begin(hosts, **setting)
                ways[name] = (job, "allreduce")
            ways["store"] = (ways["chosen"][0], "sum")
            ways["chosen"][0].ask("store bulk sum")
            for length in lengths:
                bench.record(**case(bench, servers, ways, length))


def case(bench, servers, ways, length):
    rounds = 2 if bench.quick else 5
    if not bench.quick:
        Watch.calm()
    times, watch = {name: [] for name in ways}, Watch()
    for turn in range(rounds):
        for name in in_turn(list(ways), turn):
            job, verb = ways[name]
            times[name] += job.slowest(f"{verb} {length} 1")
    median = {name: statistics.median(found) for name, found in times.items()}
    bound = bound_us(servers, length)
    row = {"section": "split", "workers": WORKERS, "servers": servers, "mbit": MBIT,
           "bytes": length, "rounds": rounds, "bound_us": round(bound),
           "idle": round(watch.idle(), 3),
           "median_us": {name: round(value) for name, value in median.items()},
           "times_us": {name: [round(time) for time in found] for name, found in times.items()}}
    print(f"split, {WORKERS} workers, {servers} servers, {size_text(length)}: store "
          f"{median['store'] / 1e3:.1f} ms, bound {bound / 1e3:.1f}; ring "
          f"{median['ring'] / 1e3:.1f}, chosen {median['chosen'] / 1e3:.1f}; gain over the ring "
          f"{median['ring'] / median['store']:.3f} of {gain(servers):.3f}; "
          f"idle {row['idle']:.2f}", flush=True)
    return row


def judge(bench, rows):
    for row in rows:
        median, servers = row["median_us"], row["servers"]
        name = f"split, {servers} servers, {size_text(row['bytes'])}"
        over = median["store"] / row["bound_us"]
        bench.verdicts.add(f"{name}: time over the bound", f"{over:.3f}", "at most 1.05",
                           over <= 1.05)
        found, wanted = median["ring"] / median["store"], gain(servers)
        bench.verdicts.add(f"{name}: speed-up over the ring",
                           f"{found:.3f} (over the library's choice "
                           f"{median['chosen'] / median['store']:.3f})",
                           f"{wanted:.3f} within 5 %", found >= 0.95 * wanted)
