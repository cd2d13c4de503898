# SPDX-License-Identifier: Apache-2.0
"""Hostile connections to a job that is still joining: refused, logged once per kind, and the job
starts as if they were not there. Once it has started, no rank listens any more.

Labels: asan
Needs: tutti-worker
Timeout: 400
"""
import contextlib
import itertools
import pathlib
import re
import secrets
import select
import selectors
import socket
import struct
import threading
import time
import unittest

import ranks

WORK = ["init", "steps:9:mixed:3000", "wait", "shutdown", "leaks"]
OPENING_BYTES, MESSAGE_BYTES = 32, 112
UP_S_MAX = 10  # of naps, from the last rank's start to a working job, whatever connects


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def knock(port, text=b""):
    connection = socket.create_connection(("127.0.0.1", port), timeout=ranks.PATIENCE_S)
    with contextlib.suppress(OSError):
        connection.sendall(text)
    return connection


def hear(connection):
    """What the peer sends until it closes the connection."""
    heard = b""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while True:
            piece = connection.recv(4096)
            if not piece:
                break
            heard += piece
    connection.close()
    return heard


def record_opening(port):
    """The first bytes of a genuine rank that connects to `port`, which is ours."""
    with socket.create_server(("127.0.0.1", port)) as door:
        door.settimeout(ranks.PATIENCE_S)
        connection, _ = door.accept()
        with connection:
            connection.settimeout(ranks.PATIENCE_S)
            heard = b""
            while len(heard) < OPENING_BYTES + MESSAGE_BYTES:
                piece = connection.recv(OPENING_BYTES + MESSAGE_BYTES - len(heard))
                assert piece, heard
                heard += piece
            return heard


def listening(pid):
    """Inodes of listening sockets that the process holds."""
    held = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            match = re.match(r"socket:\[(\d+)\]", str(link.readlink()))
            held.update([match[1]] if match else [])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            found.update([words[9]] if words[3] == "0A" else [])
    for line in pathlib.Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        found.update([words[6]] if int(words[3], 16) & 0x10000 else [])
    return held & found


def listening_ports(pids):
    """TCP ports on which the processes listen."""
    found = set()
    for pid in pids:
        inodes = listening(pid)
        for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            words = line.split()
            found.update([int(words[1].split(":")[1], 16)] if words[9] in inodes else [])
    return sorted(found)


class Swarm:
    """Silent sockets, each of which connects again as soon as it is closed; `ports` may change."""

    def __init__(self, count, ports):
        self.count, self.ports = count, ports
        self.full, self.ends = threading.Event(), threading.Event()
        self.selector = selectors.DefaultSelector()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def dial(self, port):
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", port))
        self.selector.register(connection, selectors.EVENT_READ)

    def hang_up(self, connection):
        self.selector.unregister(connection)
        connection.close()

    def run(self):
        numbers = itertools.count()
        while not self.ends.is_set():
            while len(self.selector.get_map()) < self.count:
                self.dial(self.ports[next(numbers) % len(self.ports)])
            self.full.set()
            for key, _ in self.selector.select(0.05):
                self.hang_up(key.fileobj)
        for key in list(self.selector.get_map().values()):
            self.hang_up(key.fileobj)
        self.selector.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


class Hostile(unittest.TestCase):
    def attack(self, trouble, causes, transport="tcp"):
        """`trouble(job, port)` happens while rank 2 is still missing."""
        port = free_port()
        variables = {"TUTTI_RENDEZVOUS": f"tcp://127.0.0.1:{port}", "TUTTI_TRANSPORT": transport}
        with ranks.Ranks(3, WORK, variables=variables, first=[0, 1]) as job, \
                contextlib.ExitStack() as later:
            self.await_door(port)
            later.callback(lambda lasting: [each.close() for each in lasting or []],
                           trouble(job, port))
            begin_ns = time.monotonic_ns()
            job.start(2)
            job.expect("^init 0 ok$")
            self.assertLess(ranks.NAPS.seconds(begin_ns, time.monotonic_ns()), UP_S_MAX)
            job.expect("^waiting$")
            for rank in job:
                self.assertEqual(listening(rank.pid), set(), rank.story())
                rank.say()
            self.assertEqual(job.codes(), [0] * 3, [rank.story() for rank in job])
            self.assertEqual([len(rank.log) for rank in job.ranks[1:]], [0, 0],
                             [rank.story() for rank in job])
            refused = [line for line in job[0].log if "refused a connection" in line]
            kinds = [re.sub(r"from \S+:\d+", "", line) for line in refused]
            self.assertEqual(len(kinds), len(set(kinds)), refused)
            for cause in causes:
                self.assertTrue(any(cause in line for line in refused), (cause, job[0].log))

    @staticmethod
    def await_door(port):
        deadline = time.monotonic() + ranks.PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def test_garbage_and_other_protocols(self):
        def trouble(_, port):
            texts = [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00" + b"\x01" * 600,
                     b"\0" * 4096, b"\xff" * 4096, b"SSH-2.0-x\r\n", b"x"]
            texts += [secrets.token_bytes(length) for length in (31, 32, 33, 144, 160, 256, 5000)]
            for connection in [knock(port, text) for text in texts * 5]:
                self.assertLessEqual(len(hear(connection)), 128)
        self.attack(trouble, ["does not use Tutti's protocol"])
        self.attack(trouble, ["does not use Tutti's protocol"], transport="shm")

    def test_two_hundred_silent_connections(self):
        def trouble(_, port):
            return [knock(port, b"T" * (number % 2)) for number in range(200)]
        self.attack(trouble, [])

    def test_slow_drip(self):
        def trouble(_, port):
            lasting = [knock(port) for _ in range(100)]

            def drip():
                for _ in range(40):
                    for connection in lasting:
                        with contextlib.suppress(OSError):
                            connection.send(b"\0")
                    time.sleep(0.05)
            threading.Thread(target=drip, daemon=True).start()
            return lasting
        self.attack(trouble, [])

    def stranger(self, job, rank, **variables):
        return ranks.Rank([ranks.WORKER, "init"],
                          job.environment(rank, TUTTI_START_TIMEOUT="20", **variables))

    def test_wrong_secret_and_wrong_job(self):
        def trouble(job, _):
            wrong = [self.stranger(job, 2, TUTTI_SECRET_FILE=None, TUTTI_SECRET="ab" * 32),
                     self.stranger(job, 2, TUTTI_JOB_ID="another"),
                     self.stranger(job, 3, TUTTI_SIZE="4")]
            for process in wrong:
                self.assertEqual(process.code(), 3, process.story())
                self.assertRegex(process.lines[0], "^init -(12|8) .*(secret|job|ranks)")
                process.end()
        self.attack(trouble, ["secret", "another job", "another number of ranks"])

    def test_a_rank_started_twice_is_reported_on_all_ranks(self):
        """It holds the secret: not an attack, but a job that was started wrongly."""
        port = free_port()
        with ranks.Ranks(3, WORK, variables={"TUTTI_RENDEZVOUS": f"tcp://127.0.0.1:{port}"},
                         first=[0, 1]) as job:
            self.await_door(port)
            job.start(1)
            for rank in job:
                self.assertEqual(rank.code(), 3, rank.story())
                self.assertIn("rank 1 joined twice", rank.lines[0])

    def test_replayed_and_skewed_openings(self):
        def trouble(job, port):
            decoy = free_port()
            genuine = self.stranger(job, 2, TUTTI_RENDEZVOUS=f"tcp://127.0.0.1:{decoy}")
            opening = record_opening(decoy)
            genuine.end()
            for connection in [knock(port, opening) for _ in range(20)]:
                self.assertLessEqual(len(hear(connection)), 128)
            low, high = struct.unpack_from("<HH", opening, 8)
            self.assertLessEqual(1, low)
            self.assertLessEqual(low, high)
            skewed = bytearray(opening)
            struct.pack_into("<HH", skewed, 8, high + 7, high + 9)
            for connection in [knock(port, bytes(skewed)) for _ in range(5)]:
                self.assertGreater(len(hear(connection)), 0)
            for place in range(0, len(opening), 7):
                flipped = bytearray(opening)
                flipped[place] ^= 1
                connection = knock(port, bytes(flipped))
                self.assertLessEqual(len(hear(connection)), 128)
        self.attack(trouble, ["no protocol version in common", "secret"])

    def test_a_flood_of_connections_while_all_join(self):
        def trouble(_, port):
            ends = threading.Event()

            def flood():
                while not ends.is_set():
                    with contextlib.suppress(OSError):
                        connection = knock(port, b"GET /")
                        select.select([connection], [], [], 0)
                        connection.close()

            class Flood:
                def __init__(self):
                    self.thread = threading.Thread(target=flood, daemon=True)
                    self.thread.start()

                def close(self):
                    ends.set()
                    self.thread.join()
            return [Flood(), Flood()]
        self.attack(trouble, [])

    def join_in_a_swarm(self, host_count):
        """Rank 3 starts last; by then every place of every listener is contested."""
        port = free_port()
        variables = {"TUTTI_RENDEZVOUS": f"tcp://127.0.0.1:{port}"}
        with ranks.Ranks(4, WORK, variables=variables, first=[0],
                         per_rank=lambda rank: {"TUTTI_HOSTID": str(rank % host_count)}) as job:
            self.await_door(port)
            with Swarm(1000, [port]) as swarm:
                self.assertTrue(swarm.full.wait(ranks.PATIENCE_S))
                job.start(1, 2)
                swarm.ports = listening_ports([rank.pid for rank in job])
                begin = time.monotonic()
                job.start(3)
                job.expect("^init 0 ok$")
                print(f"{host_count} hosts: joined in {time.monotonic() - begin:.2f} s")
            job.expect("^waiting$")
            for rank in job:
                rank.say()
            self.assertEqual(job.codes(), [0] * 4, [rank.story() for rank in job])

    def test_a_thousand_silent_sockets_that_reconnect_on_one_host(self):
        self.join_in_a_swarm(1)

    def test_a_thousand_silent_sockets_that_reconnect_on_two_hosts(self):
        self.join_in_a_swarm(2)


if __name__ == "__main__":
    unittest.main()
