# SPDX-License-Identifier: Apache-2.0
"""A byte that is changed between two hosts: every call fails, and all ranks name the same rank.

Rank 2 reaches rank 0 through a relay, which changes one byte when the test arms it.
Labels: asan
Needs: tutti-worker
Timeout: 300
"""
import contextlib
import socket
import threading
import unittest

import ranks


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Relay:
    """Forwards bytes. After `arm` the next long piece in one direction has a changed byte."""

    def __init__(self, target):
        self.target, self.armed, self.changed = target, None, threading.Event()
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        self.ends = []
        threading.Thread(target=self.serve, daemon=True).start()

    def arm(self, from_dialler):
        self.armed = from_dialler

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.door.accept()
                far = self.dial()
                self.ends += [near, far]
                for source, target, from_dialler in ((near, far, True), (far, near, False)):
                    threading.Thread(target=self.copy, args=(source, target, from_dialler),
                                     daemon=True).start()

    def dial(self):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                return socket.create_connection(("127.0.0.1", self.target))

    def copy(self, source, target, from_dialler):
        with contextlib.suppress(OSError):
            while True:
                piece = bytearray(source.recv(1 << 16))
                if not piece:
                    break
                if self.armed == from_dialler and len(piece) > 4096 and not self.changed.is_set():
                    piece[len(piece) // 2] ^= 1
                    self.changed.set()
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def close(self):
        for each in [self.door, *self.ends]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class Corrupt(unittest.TestCase):
    def blamed(self, from_dialler, **variables):
        """The rank that each of the four ranks names in its error."""
        port = free_port()
        relay = Relay(port)
        self.addCleanup(relay.close)
        where = {2: f"tcp://127.0.0.1:{relay.port}"}
        with ranks.Ranks(4, ["init", "storm:allreduce:300000", "shutdown"], variables=variables,
                         per_rank=lambda rank: {
                             "TUTTI_HOSTID": str(rank // 2),
                             "TUTTI_RENDEZVOUS": where.get(rank, f"tcp://127.0.0.1:{port}")
                         }) as job:
            job.expect("^going$")
            relay.arm(from_dialler)
            found = [rank.expect(r"^failed -6 \d+ \d+ rank (\d) (is down|was excluded)")
                     for rank in job]
            self.assertTrue(relay.changed.is_set())
            return [int(each[1]) for each in found]

    def test_all_ranks_name_the_one_whose_frames_were_changed(self):
        for integrity, threads in (("aead", "1"), ("aead", "3"), ("crc", "1")):
            for sockets in ("1", "3"):
                with self.subTest(integrity=integrity, threads=threads, sockets=sockets):
                    variables = {"TUTTI_INTEGRITY": integrity, "TUTTI_THREADS": threads,
                                 "TUTTI_SOCKETS": sockets}
                    self.assertEqual(self.blamed(True, **variables), [2] * 4)
        self.assertEqual(self.blamed(False, TUTTI_INTEGRITY="aead"), [0] * 4)


if __name__ == "__main__":
    unittest.main()
