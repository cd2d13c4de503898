# SPDX-License-Identifier: Apache-2.0
"""Cases, rounds and samples: every library takes its turn in every round of a case.

A sample is the median over a few calls of the slowest rank's time. A figure is the median over
rounds. The order of libraries is turned by one place each round, so that none always follows the
same other."""
import dataclasses
import statistics
import time

from bench.peers import groups

ROUND_MIN = 7
PROBE_COUNT = 3
PROBE_AGAIN = 21
ITERATIONS_MAX = 4000
WARMUP_MAX = 50
CALL_TIMEOUT_S = 120
KEEP_BYTES = 4 << 30  # buffers of all groups together that may stay allocated between samples


@dataclasses.dataclass(frozen=True)
class Case:
    ranks: int
    collective: str
    bytes: int
    touches: bool
    place: str = "foreign"
    keeps: bool = True


@dataclasses.dataclass
class Entry:
    """One library with its buffers in one place, within one case."""
    name: str
    group: groups.Group
    case: Case
    is_peer: bool
    iteration_count: int = 0
    warmup_count: int = 1
    samples: list = dataclasses.field(default_factory=list)

    def probe(self, budget_ns):
        """Check the result once, and learn how many calls make a sample; False: no such call."""
        is_checked = self.group.library is not groups.MEMORY
        times = self.group.measure(self.case, 1, PROBE_COUNT, is_checked, CALL_TIMEOUT_S)
        if times is None:
            return False
        if min(times) * PROBE_AGAIN < budget_ns:  # the first calls prepare the later ones
            times = self.group.measure(self.case, 1, PROBE_AGAIN, False, CALL_TIMEOUT_S)
        call_ns = max(1.0, statistics.median(times))
        self.iteration_count = int(min(ITERATIONS_MAX, max(1, budget_ns / call_ns)))
        self.warmup_count = min(WARMUP_MAX, max(1, self.iteration_count // 4))
        return True

    def sample(self):
        times = self.group.measure(self.case, self.warmup_count, self.iteration_count, False,
                                   CALL_TIMEOUT_S)
        self.samples.append(statistics.median(times) / 1000)

    def record(self, transport):
        record = {"transport": transport, "ranks": self.case.ranks,
                  "collective": self.case.collective, "bytes": self.case.bytes,
                  "touch": self.case.touches, "library": self.name, "is_peer": self.is_peer,
                  "median_us": round(statistics.median(self.samples), 3),
                  "samples_us": [round(sample, 3) for sample in self.samples],
                  "iterations": self.iteration_count}
        if self.name == "memory":  # bytes of its own working set: read once, written once
            total = 2 * self.case.ranks * self.case.bytes
            record["gbs"] = round(total / record["median_us"] / 1000, 3)
        return record


class Measurement:
    def __init__(self, setting, transport, warn):
        self.setting, self.transport, self.warn = setting, transport, warn

    def entries_of(self, case, alive):
        keeps = case.ranks * case.bytes * 2 * (len(alive) + 1) <= KEEP_BYTES
        for name, group in alive.items():
            library = group.library
            if library is groups.MEMORY:
                if case.collective == "allreduce" and case.bytes >= self.setting.memory_from_bytes:
                    size = self.setting.memory_bytes(case.ranks)
                    own = dataclasses.replace(case, bytes=size, touches=False, place="arena")
                    yield Entry(name, group, own, False)
                continue
            for label, place in library.entries():
                own = dataclasses.replace(case, place=place, keeps=keeps)
                yield Entry(label, group, own, library.is_peer)

    def drop(self, entry, alive, error):
        self.warn(f"{entry.group.library.name} is left out from here on "
                  f"({entry.case.collective}, {entry.case.bytes} bytes): {error}")
        for process in entry.group.processes:
            entry.group.kill(process)
        alive.pop(entry.group.library.name, None)

    def guarded(self, entries, alive, action):
        """Those entries for which `action` went well."""
        kept = []
        for entry in entries:
            if entry.group.library.name not in alive:
                continue
            try:
                if action(entry) is not False:
                    kept.append(entry)
            except groups.GroupFailed as error:
                self.drop(entry, alive, error)
        return kept

    def run(self, case, alive):
        """Records of one case, one for each library that has the call."""
        budget_ns = self.setting.sample_ms * 1e6
        entries = self.guarded(list(self.entries_of(case, alive)), alive,
                               lambda entry: entry.probe(budget_ns))
        for turn in range(self.setting.round_count):
            shift = 1 if turn > 0 else 0
            entries = self.guarded(entries[shift:] + entries[:shift], alive, Entry.sample)
        records = []
        for entry in sorted(entries, key=lambda entry: (entry.is_peer, entry.name)):
            record = entry.record(self.transport)
            if entry.name == "memory":
                record.update(touch=case.touches, beside_bytes=case.bytes)
            records.append(record)
        return records

    def run_all(self, cases, chosen, emit):
        """All cases of one rank count, with all groups alive throughout."""
        rank_count = cases[0].ranks
        with groups.started(chosen, rank_count, self.setting, self.warn) as alive:
            for case in cases:
                start = time.monotonic()
                for record in self.run(case, alive):
                    emit(record)
                yield case, time.monotonic() - start
