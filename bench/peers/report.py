# SPDX-License-Identifier: Apache-2.0
"""Tables, ratios and targets, from records alone: also from a file of an earlier run."""
import dataclasses

from bench.common.units import KB, MB, size_text


def time_text(us):
    if us < 100:
        return f"{us:.2f}" if us < 10 else f"{us:.1f}"
    return f"{us:.0f}"


@dataclasses.dataclass(frozen=True)
class Target:
    """`ours` is at least `factor` times faster than the others, or takes at most `factor` times
    as long, or reaches `factor` of the memory bound."""
    transport: str
    ranks: int
    collective: str
    bytes: int
    ours: str
    kind: str  # faster, within, bound
    factor: float
    against: str = ""  # a library; empty: the fastest peer


def make_targets():
    def shm(ranks, size, kind, factor, ours="tutti-arena", against="", collective="allreduce"):
        return Target("shm", ranks, collective, size, ours, kind, factor, against)
    foreign = "tutti-foreign"
    yield from (shm(2, size, "faster", factor) for size, factor in
                ((64 * KB, 3), (MB, 5), (16 * MB, 4), (64 * MB, 3)))
    yield shm(2, 256 * MB, "bound", 0.85)
    yield from (shm(2, size, "within", factor, foreign) for size, factor in
                ((64 * KB, 1.5), (MB, 1.1), (64 * MB, 1.1)))
    yield shm(2, 64 * MB, "faster", 1.5, foreign, "openmpi")
    yield from (shm(2, size, "within", 1.2) for size in (4, KB))
    for ranks in (4, 8):
        for size in (4, KB, 64 * KB, MB, 16 * MB, 64 * MB):
            yield shm(ranks, size, "faster", 3 if size in (MB, 64 * MB) else 1)
    for collective in ("broadcast", "allgather", "reducescatter", "alltoall"):
        for ranks in (2, 4):
            for size in (MB, 64 * MB):
                yield shm(ranks, size, "faster", 1.5, collective=collective)
    yield Target("tcp", 2, "allreduce", 4, "tutti-foreign", "within", 1.3, "openmpi")
    yield Target("tcp", 2, "allreduce", 64 * MB, "tutti-nocrc-foreign", "within", 1.0, "gloo")


TARGETS = tuple(make_targets())


class Records:
    """Figures by (transport, ranks, collective, touch, bytes), then by library."""

    def __init__(self, records):
        self.cells, self.memory = {}, {}
        for record in records:
            if "library" not in record:
                continue
            key = (record["transport"], record["ranks"], record["collective"], record["touch"])
            if record["library"] == "memory":
                self.memory[key + (record["beside_bytes"],)] = record["gbs"]
            else:
                cell = self.cells.setdefault(key + (record["bytes"],), {})
                cell[record["library"]] = (record["median_us"], record["is_peer"])

    def blocks(self):
        return sorted({key[:4] for key in self.cells})

    def cell(self, block, size):
        return self.cells.get(block + (size,), {})

    def fastest_peer(self, block, size):
        peers = [(us, name) for name, (us, is_peer) in self.cell(block, size).items() if is_peer]
        return min(peers, default=None)

    def bound_us(self, block, size):
        """2 P S / M, with M as measured beside this size, else beside the nearest one."""
        near = [(abs(key[4] - size), gbs) for key, gbs in self.memory.items() if key[:4] == block]
        return 2 * block[1] * size / min(near)[1] / 1000 if near else None


def block_title(block):
    transport, ranks, collective, touch = block
    return (f"{collective}, {ranks} ranks, {'shared memory' if transport == 'shm' else 'TCP'}, "
            f"buffers {'rewritten before each call' if touch else 'as the last call left them'}")


def table_rows(records, block):
    """Rows of a table: times in microseconds, then how often Tutti's best is faster."""
    sizes = sorted(key[4] for key in records.cells if key[:4] == block)
    names = {}
    for size in sizes:
        for name, (_, is_peer) in records.cell(block, size).items():
            names[name] = is_peer
    rows = [["us"] + [size_text(size) for size in sizes]]
    for name in sorted(names, key=lambda name: (names[name], name)):
        cells = [records.cell(block, size).get(name) for size in sizes]
        rows.append([name] + [time_text(cell[0]) if cell else "-" for cell in cells])
    for name in sorted(name for name, is_peer in names.items() if not is_peer):
        rows.append([f"{name}: faster by"] + [ratio_text(records, block, size, name)
                                              for size in sizes])
    if any(key[:4] == block for key in records.memory):
        rows.append(["memory bound 2PS/M"] +
                    [time_text(records.bound_us(block, size)) if size >= 16 * MB else "-"
                     for size in sizes])
    return rows


def ratio_text(records, block, size, name):
    fastest, own = records.fastest_peer(block, size), records.cell(block, size).get(name)
    return f"{fastest[0] / own[0]:.2f}" if fastest and own else "-"


def table_text(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(row, widths)))
                     for row in rows)


def target_text(records, target):
    """The sentence of one figure, and whether it was reached; None where it was not measured.
    Figures are of rewritten buffers: summing unchanged buffers is of no use to a program."""
    block = (target.transport, target.ranks, target.collective, True)
    own = records.cell(block, target.bytes).get(target.ours)
    if own is None:
        return None
    head = (f"P={target.ranks} {target.transport} {target.collective} {size_text(target.bytes)} "
            f"{target.ours}, rewritten: ")
    if target.kind == "bound":
        bound_us = records.bound_us(block, target.bytes)
        if bound_us is None:
            return None
        share = bound_us / own[0]
        is_reached = share >= target.factor
        text = f"{share:.0%} of the memory bound, wanted {target.factor:.0%}"
    else:
        other = records.cell(block, target.bytes).get(target.against)
        peer = (other[0], target.against) if other else (
            None if target.against else records.fastest_peer(block, target.bytes))
        if peer is None:
            return None
        ratio = peer[0] / own[0]
        name = peer[1] if target.against else f"the fastest peer ({peer[1]})"
        if target.kind == "faster":
            is_reached = ratio >= target.factor
            text = f"{ratio:.2f}x as fast as {name}, wanted {target.factor:g}x"
        else:
            is_reached = 1 / ratio <= target.factor
            text = f"{1 / ratio:.2f}x the time of {name}, wanted at most {target.factor:g}x"
    return f"{head}{text}: {'reached' if is_reached else 'MISSED'}", is_reached


def target_rows(records):
    rows = [target_text(records, target) for target in TARGETS]
    return [row for row in rows if row is not None]


def print_report(raw_records):
    records = Records(raw_records)
    for block in records.blocks():
        print(f"\n{block_title(block)}\n{table_text(table_rows(records, block))}")
    for key, gbs in sorted(records.memory.items()):
        print(f"\nM at {key[1]} ranks beside {size_text(key[4])}: {gbs:.1f} GB/s read and written",
              end="")
    rows = target_rows(records)
    if rows:
        count = sum(is_reached for _, is_reached in rows)
        print(f"\n\nFigures wanted: {count} of {len(rows)} measured are reached")
        for text, _ in rows:
            print(f"  {text}")
