# SPDX-License-Identifier: Apache-2.0
"""Training steps, and what the schedule layer computes of them."""
from bench.common import tree

ELEMENT_BYTES = 4


class Step:
    """One training step: transfers with size, first use and readiness, in microseconds."""

    def __init__(self, forward_us, backward_us, rows):
        self.forward_us, self.backward_us, self.rows = forward_us, backward_us, rows

    @property
    def compute_us(self):
        return self.forward_us + self.backward_us

    def bytes(self):
        return sum(row["elements"] for row in self.rows) * ELEMENT_BYTES

    def scaled(self, compute_us, total_bytes):
        """The same step, stretched in time and shrunk in bytes."""
        time = compute_us / self.compute_us
        size = total_bytes / self.bytes()
        rows = [{"elements": max(1, round(row["elements"] * size)), "use": row["use"] * time,
                 "ready": row["ready"] * time} for row in self.rows]
        return Step(self.forward_us * time, self.backward_us * time, rows)

    def write(self, path):
        """As bench-schedule-rank reads it; places by first use."""
        order = sorted(range(len(self.rows)), key=lambda i: self.rows[i]["use"])
        place = {index: number for number, index in enumerate(order)}
        lines = [f"{self.forward_us:.3f} {self.backward_us:.3f}"]
        for index, row in enumerate(self.rows):
            lines.append(f"{row['elements']} {row['use']:.3f} {row['ready']:.3f} "
                         f"{row.get('place', place[index])} {int(row.get('in_forward', False))}")
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        return path


def model(*words):
    """{name: [numbers]} as bench-schedule-model prints them."""
    done = tree.run(tree.BIN / "bench-schedule-model", *words, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench-schedule-model: {done.stderr}")
    found = {}
    for line in done.stdout.splitlines():
        name, *numbers = line.split()
        found[name] = [float(number) for number in numbers]
    return found
