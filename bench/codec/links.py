# SPDX-License-Identifier: Apache-2.0
"""Coded sums between four hosts, beside Gloo through torch.

The bound of a sum is 2 (H - 1) / H * W / B: W bytes of the tensor as the codec sends it, B the
payload that a link carries, as in bench/links. The processors of all hosts are this machine's, so
coding sets a second bound: the time that all ranks spend encoding, adding and decoding, over the
number of cores. That time is by the clock, so it is too large where ranks wait for a core
meanwhile."""
import os
import pathlib
import statistics
import sys

from bench.common import environment, namespaces, tree
from bench.common.jobs import SHARED_CORES, Job
from bench.common.rounds import in_turn
from bench.common.units import MB, size_text
from bench.codec import torch_rank

HOSTS = 4
RATES = {100: {"rate": "100mbit", "burst": "64kb"}, 1000: {"rate": "1gbit", "burst": "256kb"}}
CODECS, CODECS_QUICK = ("none", "bf16", "int8", "sign"), ("none", "int8")
WAYS, WAYS_QUICK = tuple(torch_rank.WAYS), ("gloo", "gloo fp16")
ROUNDS = {100: 3, 1000: 7}
# Share of the bound, by Mbit/s and codec.
WANTED = {(100, "bf16"): 0.95, (100, "int8"): 0.95, (100, "sign"): 0.85,
          (1000, "bf16"): 0.80, (1000, "int8"): 0.80}
# Largest distance from the exact sum, of its length, in a first call; others: 1.
ERRORS = {"none": 1e-6, "bf16": 0.01, "int8": 0.03, "sign": 1.0, "gloo": 1e-6,
          "gloo fp16": 0.002, "gloo bf16": 0.02}
WIRE_SHARES = {"gloo": 1, "gloo fp16": 0.5, "gloo bf16": 0.5}


class Way:
    """A codec of Tutti's, or a cast around Gloo."""

    def __init__(self, job, name):
        self.job, self.name = job, name
        self.is_ours = name not in WIRE_SHARES
        self.times_us, self.idle, self.coding_us, self.wire_bytes = [], [], [], None

    def _ask(self, iterations):
        return self.job.ask(f"{self.name.replace(' ', '-')} {iterations}")

    def check(self):
        """Close to the exact sum, and the same bits on all ranks."""
        found = self._ask(0)
        most = ERRORS.get(self.name.split(":")[0], 1.0)
        worst = max(answer[3 if self.is_ours else 1] for answer in found)
        if not worst <= most:
            raise SystemExit(f"{self.name}: off by {worst:.2g} of the sum; at most {most}")
        if self.is_ours and len({answer[4] for answer in found}) > 1:
            raise SystemExit(f"{self.name}: ranks have different bits")

    def sample(self):
        idle, total = idle_ticks()
        found = self._ask(1)
        idle, total = (after - before for after, before in zip(idle_ticks(), (idle, total)))
        self.idle.append(idle / max(1, total))
        self.times_us.append(max(answer[0] for answer in found) / 1e3)
        if self.is_ours:
            self.coding_us.append(sum(answer[1] for answer in found) / 1e3)
            self.wire_bytes = found[0][2]


def idle_ticks():
    """(idle, all) ticks of all cores since the start of the machine."""
    numbers = [int(word) for word in
               pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n")[0].split()[1:9]]
    return numbers[3] + numbers[4], sum(numbers)


def run(options, folder, script):
    """Rows, one a rate and way."""
    if namespaces.why_not():
        print(f"bench/codec/run: links is left out: {namespaces.why_not()}", file=sys.stderr)
        return
    length = options.size or (8 * MB if options.quick else 64 * MB)
    for mbit in options.mbit or RATES:
        own = folder / f"links{mbit}"
        own.mkdir()
        yield from _at(options, own, script, mbit, length)


def _start_gloo(job, hosts, script):
    store = job.path.with_suffix(".store")
    for rank, (name, address) in enumerate(zip(hosts.names, hosts.addresses)):
        job.start([*namespaces.inside(name), sys.executable, script, "--as-rank", "gloo"],
                  BENCH_RANK=str(rank), BENCH_SIZE=str(len(hosts.names)), BENCH_STORE=str(store),
                  BENCH_ADDRESS=address, GLOO_SOCKET_IFNAME="wire", OMP_NUM_THREADS="1")


def _at(options, folder, script, mbit, length):
    codecs = options.codec or (CODECS_QUICK if options.quick else CODECS)
    with namespaces.Hosts(HOSTS, folder, congestion="cubic", **RATES[mbit]) as hosts:
        jobs, ways = [], []
        try:
            jobs.append(Job("tutti", HOSTS, folder, length))
            jobs[-1].start_tutti([tree.BIN / "bench-codec-rank", length], hosts, **SHARED_CORES)
            jobs[-1].meet()
            ways += [Way(jobs[-1], codec) for codec in codecs]
            if not environment.has_torch():
                print("bench/codec/run: Gloo is left out: no torch", file=sys.stderr)
            elif not options.quick or mbit == min(options.mbit or RATES):
                jobs.append(Job("gloo", HOSTS, folder, length))
                _start_gloo(jobs[-1], hosts, script)
                jobs[-1].meet()
                ways += [Way(jobs[-1], way) for way in (WAYS_QUICK if options.quick else WAYS)]
            for way in ways:
                way.check()
            for turn in range(options.rounds or (2 if options.quick else ROUNDS[mbit])):
                for way in in_turn(ways, turn):
                    way.sample()
        finally:
            for job in jobs:
                job.end()
    for way in ways:
        yield _row(way, mbit, length)


def bound_us(wire_bytes, mbit):
    bytes_per_us = mbit / 8 * namespaces.PAYLOAD_BYTES / namespaces.FRAME_BYTES
    return 2 * (HOSTS - 1) / HOSTS * wire_bytes / bytes_per_us


def _row(way, mbit, length):
    wire_bytes = way.wire_bytes if way.is_ours else WIRE_SHARES[way.name] * length
    median, bound = statistics.median(way.times_us), bound_us(wire_bytes, mbit)
    row = {"scene": "links", "mbit": mbit, "bytes": length, "way": way.name,
           "wire_bytes": round(wire_bytes), "rounds": len(way.times_us),
           "median_us": round(median), "least_us": round(min(way.times_us)),
           "most_us": round(max(way.times_us)), "bound_us": round(bound),
           "share": round(bound / median, 4), "idle": round(statistics.median(way.idle), 3)}
    if way.is_ours:
        row["coding_us"] = round(statistics.median(way.coding_us))
        row["coding_bound_us"] = round(row["coding_us"] / len(os.sched_getaffinity(0)))
    return row


def judge(found, verdicts):
    """Shares of the bound; then times over those of Gloo."""
    cell = {(row["mbit"], row["bytes"], row["way"]): row for row in found}
    for (mbit, length, way), row in cell.items():
        wanted = WANTED.get((mbit, way))
        if wanted:
            verdicts.add(f"{mbit} Mbit/s, {size_text(length)}, {way}: share of the bound",
                         f"{100 * row['share']:.1f} %", f"at least {100 * wanted:.0f} %",
                         row["share"] >= wanted)


def ratios(found):
    """Lines: times of Tutti's codecs over those of Gloo's casts."""
    cell = {(row["mbit"], row["bytes"], row["way"]): row["median_us"] for row in found}
    for (mbit, length, way), median in cell.items():
        if way not in WIRE_SHARES:
            others = [(other, cell[mbit, length, other]) for other in ("none", *WIRE_SHARES)
                      if other != way and (mbit, length, other) in cell]
            if others:
                yield (f"{mbit} Mbit/s, {size_text(length)}, {way}: time over " + ", ".join(
                    f"{other} {median / base:.3f}" for other, base in others))


def line(row):
    """A row for people."""
    text = (f"{row['mbit']:>4} Mbit/s  {size_text(row['bytes'])}  {row['way']:<10} "
            f"{row['median_us'] / 1e3:8.1f} ms ({row['least_us'] / 1e3:.1f} .. "
            f"{row['most_us'] / 1e3:.1f})  {100 * row['share']:5.1f} % of the bound "
            f"{row['bound_us'] / 1e3:.1f} ms, idle {100 * row['idle']:.0f} %")
    if row.get("coding_us"):
        text += (f", coding {row['coding_us'] / 1e3:.1f} ms of all ranks: bound "
                 f"{row['coding_bound_us'] / 1e3:.1f} ms")
    return text
