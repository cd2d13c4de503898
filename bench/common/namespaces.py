# SPDX-License-Identifier: Apache-2.0
"""Hosts on links of a known speed: network namespaces, joined by a bridge (needs root)."""
import json
import os
import secrets
import shutil

from bench.common.tree import run

MARK = f"tl{os.getpid()}{secrets.token_hex(2)}"  # of one run: several may go on at a time
FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448


def why_not():
    """What is missing here to make hosts; None if nothing is."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip") or not shutil.which("tc"):
        return "ip and tc are missing: apt-get install iproute2"
    return None


class Hosts:
    """`count` namespaces, each with one shaped link to a bridge."""

    def __init__(self, count, folder, rate="1gbit", burst="256kb", congestion=None):
        self.shape = ("root", "tbf", "rate", rate, "burst", burst, "latency", "50ms")
        self.congestion = congestion
        self.names = [f"{MARK}h{i + 1}" for i in range(count)]
        self.addresses = [f"10.78.0.{i + 1}" for i in range(count)]
        self.switch = f"{MARK}sw"
        self.shell = folder / "shell"
        self.shell.write_text(
            "#!/bin/sh\n# A remote shell: host, then the command.\n"
            'host=$1; shift; number=${host##*.}\n'
            f'exec ip netns exec {MARK}h$number unshare --uts sh -c '
            f'"hostname {MARK}h$number; $*"\n')
        self.shell.chmod(0o755)

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def make(self):
        run("ip", "netns", "add", self.switch)
        run("ip", "-n", self.switch, "link", "set", "lo", "up")
        run("ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self.switch, "address", "add", "10.78.0.250/24", "dev", "bridge")
        run("ip", "-n", self.switch, "link", "set", "bridge", "up")
        for number, (name, address) in enumerate(zip(self.names, self.addresses)):
            port = f"port{number}"
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "add", "wire", "type", "veth", "peer", "name", port,
                "netns", self.switch)
            run("ip", "-n", self.switch, "link", "set", port, "master", "bridge", "up")
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "wire")
            run("ip", "-n", name, "link", "set", "wire", "up")
            if self.congestion:
                run("ip", "-n", name, "route", "replace", "10.78.0.0/24", "dev", "wire",
                    "congctl", self.congestion)
            run("tc", "-n", name, "qdisc", "add", "dev", "wire", *self.shape)
            run("tc", "-n", self.switch, "qdisc", "add", "dev", port, *self.shape)

    def remove(self):
        for name in (*self.names, self.switch):
            run("ip", "netns", "del", name, check=False)


def inside(name):
    """The words before a command that run it on a host."""
    return ["ip", "netns", "exec", name]


class ScaledHosts(Hosts):
    """Namespaces whose kernels are scaled like their links.

    Sizes and bandwidth are divided by the same number, so that times stay what they are on a real
    network. What the kernel keeps below the socket must shrink with them: a burst of 64 KB is 50 us
    at 10 Gbit/s, and 1 ms at 500 Mbit/s.
    """

    kernel_congestion = None  # the kernel's default

    def __init__(self, count, folder, mbit, burst="32kb", gso=16384, below=16384):
        super().__init__(count, folder, rate=f"{mbit}mbit", burst=burst)
        self.mbit, self.gso, self.below = mbit, gso, below

    def make(self):
        super().make()
        for name in self.names:
            run("ip", "-n", name, "link", "set", "dev", "wire", "gso_max_size", self.gso)
            self.set(name, "tcp_limit_output_bytes", self.below)
            if self.kernel_congestion:
                self.set(name, "tcp_congestion_control", self.kernel_congestion)

    @staticmethod
    def set(name, key, value):
        run(*inside(name), "sysctl", "-q", "-w", f"net.ipv4.{key}={value}")

    def shape_anew(self, mbit):
        """Another speed, while jobs run."""
        shape = list(self.shape)
        shape[shape.index("rate") + 1] = f"{mbit}mbit"
        for number, name in enumerate(self.names):
            run("tc", "-n", name, "qdisc", "replace", "dev", "wire", *shape)
            run("tc", "-n", self.switch, "qdisc", "replace", "dev", f"port{number}", *shape)
        self.mbit = mbit

    def counters(self):
        """What the shapers of all hosts have passed, dropped and held back so far."""
        total = {"bytes": 0, "packets": 0, "drops": 0, "overlimits": 0}
        for name in self.names:
            for row in json.loads(run("tc", "-n", name, "-s", "-j", "qdisc", "show", "dev",
                                      "wire").stdout):
                for key in total:
                    total[key] += row.get(key, 0)
        return total

    def payload_bytes_a_us(self):
        """What a link can carry beside the headers of Ethernet, IP and TCP."""
        return self.mbit / 8 * PAYLOAD_BYTES / FRAME_BYTES
