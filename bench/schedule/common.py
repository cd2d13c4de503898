# SPDX-License-Identifier: Apache-2.0
"""Hosts, jobs, steps and verdicts for the sections of bench/schedule/run."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import secrets
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILT = ROOT / "build" / "bin"
TRACES = ROOT / "bench/schedule/traces"
ELEMENT_BYTES = 4
CORES = 8  # four ranks, and a thread each that drives the wire


def load_links():
    """bench/links/run has namespaces and jobs already."""
    loader = importlib.machinery.SourceFileLoader("links", str(ROOT / "bench/links/run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("links", loader))
    loader.exec_module(module)
    return module


links = load_links()


# ---- hosts ----

class Hosts(links.Hosts):
    """Namespaces whose kernels are scaled like their links.

    Sizes and bandwidth are divided by the same number, so that times stay what they are on a real
    network. What the kernel keeps below the socket must shrink with them: a burst of 64 KB is 50 us
    at 10 Gbit/s, and 1 ms at 500 Mbit/s.
    """

    congestion = None  # the kernel's default

    def __init__(self, count, folder, mbit, burst="32kb", gso=16384, below=16384):
        super().__init__(count, folder, rate=f"{mbit}mbit", burst=burst)
        self.mbit, self.gso, self.below = mbit, gso, below

    def make(self):
        super().make()
        for name in self.names:
            links.run("ip", "-n", name, "link", "set", "dev", "wire", "gso_max_size", str(self.gso))
            links.run("ip", "netns", "exec", name, "sysctl", "-q", "-w",
                      f"net.ipv4.tcp_limit_output_bytes={self.below}")
            if Hosts.congestion:
                links.run("ip", "netns", "exec", name, "sysctl", "-q", "-w",
                          f"net.ipv4.tcp_congestion_control={Hosts.congestion}")

    def shape_anew(self, mbit):
        """Another speed, while jobs run."""
        shape = list(self.shape)
        shape[shape.index("rate") + 1] = f"{mbit}mbit"
        for number, name in enumerate(self.names):
            links.run("tc", "-n", name, "qdisc", "replace", "dev", "wire", *shape)
            links.run("tc", "-n", self.switch, "qdisc", "replace", "dev", f"port{number}", *shape)
        self.mbit = mbit

    def counters(self):
        """What the shapers of all hosts have passed, dropped and held back so far."""
        total = {"bytes": 0, "packets": 0, "drops": 0, "overlimits": 0}
        for name in self.names:
            for row in json.loads(links.run("tc", "-n", name, "-s", "-j", "qdisc", "show", "dev",
                                            "wire").stdout):
                for key in total:
                    total[key] += row.get(key, 0)
        return total

    def payload_bytes_a_us(self):
        """What a link can carry beside the headers of Ethernet, IP and TCP."""
        return self.mbit / 8 * links.PAYLOAD_BYTES / links.FRAME_BYTES


class Machine:
    """How idle the cores were since this was made."""

    def __init__(self):
        self.begin = self.read()

    @staticmethod
    def read():
        words = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        numbers = [int(word) for word in words[1:9]]
        return numbers[3] + numbers[4], sum(numbers)

    def idle(self):
        idle, total = (now - then for now, then in zip(self.read(), self.begin))
        return idle / max(1, total)

    @classmethod
    def calm(cls, wanted=0.9, tries=60):
        """Wait until nothing else has the cores that a job needs, a minute at most. Where there are
        many, other runs of this bench may have some."""
        cores = len(os.sched_getaffinity(0))
        for _ in range(tries):
            machine = cls()
            time.sleep(1)
            if machine.idle() * cores >= min(wanted * cores, CORES):
                return


# ---- jobs ----

class Job(links.Job):
    """Ranks that obey lines; one rank a host, or several on this one."""

    def __init__(self, name, size, folder, program="bench-schedule-rank"):
        super().__init__(name, size, folder, 0)
        self.program = BUILT / program

    def begin(self, hosts=None, **settings):
        """Without hosts the ranks share this one's memory. Nothing has a name or a port that a job
        of another run could have: that one may be on this machine."""
        meeting = (f"tcp://{hosts.addresses[0]}:{links.free_port()}" if hosts else
                   f"file://{self.path.with_suffix('.meet')}")
        common = dict(TUTTI_SIZE=str(self.size), TUTTI_JOB_ID=f"{links.MARK}-{self.name}",
                      TUTTI_SECRET=secrets.token_hex(32), TUTTI_SPIN="no" if hosts else "yes",
                      TUTTI_RENDEZVOUS=meeting)
        for rank in range(self.size):
            place = ["ip", "netns", "exec", hosts.names[rank]] if hosts else []
            host = {"TUTTI_HOSTID": hosts.names[rank]} if hosts else {}
            self.start([*place, self.program], TUTTI_RANK=str(rank),
                       **{**common, **host, **settings})
        self.meet()
        return self

    def ask(self, line):
        """The ranks' answers to one line, as lists of numbers."""
        for rank in self.ranks:
            rank.write(line + "\n")
            rank.flush()
        answers = [rank.readline().split() for rank in self.ranks]
        if not all(answers):
            self.log.seek(0)
            raise SystemExit(f"schedule: {self.name} died at '{line}'\n{self.log.read()}")
        return [[float(word) for word in answer] for answer in answers]

    def slowest(self, line):
        """By call, the slowest rank's microseconds."""
        return [max(times) / 1e3 for times in zip(*self.ask(line))]


# ---- steps ----

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


def read_trace(name):
    """A trace; what has no time of its own is used with what stands before it."""
    forward = backward = None
    rows, last_use = [], 0.0
    for line in (TRACES / f"{name}.tsv").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            for word in line.split():
                key, _, value = word.partition("=")
                forward = float(value) if key == "forward_us" else forward
                backward = float(value) if key == "backward_us" else backward
        elif not line.startswith("name\t"):
            _, elements, use, ready = line.split("\t")
            last_use = min(float(use), forward) if use else last_use
            end = forward + backward
            ready = min(max(float(ready), forward), end) if ready else end
            rows.append({"elements": int(elements), "use": last_use, "ready": ready - forward})
    return Step(forward, backward, rows)


def batched(step, threshold):
    """Small tensors join, in order of readiness, until they are `threshold` bytes together."""
    rows, active = [], None
    for row in sorted(step.rows, key=lambda row: row["ready"]):
        if row["elements"] * ELEMENT_BYTES > threshold:
            rows.append(dict(row))
            continue
        if active is None:
            active = dict(row)
        else:
            active = {"elements": active["elements"] + row["elements"],
                      "use": min(active["use"], row["use"]),
                      "ready": max(active["ready"], row["ready"])}
        if active["elements"] * ELEMENT_BYTES >= threshold:
            rows.append(active)
            active = None
    return Step(step.forward_us, step.backward_us, rows + ([active] if active else []))


def model(*words):
    """{name: [numbers]} as bench-schedule-model prints them."""
    done = subprocess.run([str(BUILT / "bench-schedule-model"), *map(str, words)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"schedule: {done.stderr}")
    found = {}
    for line in done.stdout.splitlines():
        name, *numbers = line.split()
        found[name] = [float(number) for number in numbers]
    return found


# ---- verdicts ----

class Verdicts:
    """Figures that are wanted, beside those that were measured."""

    def __init__(self):
        self.lines = []

    def add(self, what, measured, wanted, reached):
        self.lines.append((what, measured, wanted, bool(reached)))

    def print(self):
        width = max((len(what) for what, *_ in self.lines), default=0)
        for what, measured, wanted, reached in self.lines:
            print(f"{'reached' if reached else 'MISSED':8}{what:{width + 2}}{measured}  "
                  f"(wanted: {wanted})")

    def records(self):
        for what, measured, wanted, reached in self.lines:
            yield {"verdict": what, "measured": measured, "wanted": wanted, "reached": reached}


median = statistics.median
