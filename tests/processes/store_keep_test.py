# SPDX-License-Identifier: Apache-2.0
"""Stores that are saved, loaded and resharded, between real processes: bits are as without it, also
after the death of a server; and what is refused.

Labels: asan tsan sync
Needs: tutti-store_keep tutti-store_rank
Timeout: 300
"""
import functools
import os
import pathlib
import signal
import tempfile
import unittest

import ranks

Job = functools.partial(ranks.ServedRanks, "tutti-store_keep")
Counters = functools.partial(ranks.ServedRanks, "tutti-store_rank")
UPDATES = ("sgd:lr=0.1", "momentum:lr=0.1,momentum=0.9", "adam:lr=0.01")
COUNT = "40001"


class Kept(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = str(self.folder / "store.tutti")

    def train(self, workers, servers, *arguments):
        """The bits, which are the same on all workers."""
        with Job(workers, servers, arguments) as job:
            self.assertEqual(job.codes()[:workers], [0] * workers, job.stories())
            bits = {job[rank].expect("^bits (.*)$").group(1) for rank in range(workers)}
        self.assertEqual(len(bits), 1, bits)
        return bits.pop()


class Bits(Kept):
    def test_a_load_goes_on_where_the_save_was(self):
        for update in UPDATES:
            with self.subTest(update=update):
                whole = self.train(3, 2, "bulk", update, 12, COUNT, "rate=9:0.05")
                saved = self.train(3, 2, "bulk", update, 8, COUNT, "rate=9:0.05",
                                   f"save=8:{self.file}")
                self.assertNotEqual(saved, whole)
                self.assertEqual(os.listdir(self.folder), ["store.tutti"])
                for servers in (0, 1, 3):
                    self.assertEqual(self.train(3, servers, "bulk", update, 12, COUNT,
                                                f"load={self.file}"), whole)

    def test_a_save_disturbs_nothing(self):
        whole = self.train(2, 1, "bulk", "adam:lr=0.01", 9, COUNT)
        self.assertEqual(self.train(2, 1, "bulk", "adam:lr=0.01", 9, COUNT,
                                    f"save=0:{self.file}", f"save=4:{self.file}",
                                    f"save=9:{self.file}"), whole)

    def test_every_policy_saves_and_loads(self):
        """All workers end with one value, which is that of the file and of every load of it; bulk
        goes on from it with the same bits for any number of servers."""
        for policy, update in (("stale:2", UPDATES[1]), ("async", UPDATES[2]),
                               ("quorum:2", UPDATES[1])):
            with self.subTest(policy=policy):
                saved = self.train(3, 2, policy, update, 5, COUNT, f"save=5:{self.file}")
                for workers, servers, other in ((3, 2, policy), (2, 0, policy), (3, 1, "bulk")):
                    self.assertEqual(self.train(workers, servers, other, update, 5, COUNT,
                                                f"load={self.file}"), saved)
                onward = {self.train(3, servers, "bulk", update, 8, COUNT, f"load={self.file}")
                          for servers in (0, 3)}
                self.assertEqual(len(onward), 1, onward)
                self.assertNotIn(saved, onward)

    def test_sums_have_names_and_clocks(self):
        self.train(2, 1, "bulk", "sum", 5, COUNT, f"save=5:{self.file}")
        with Job(2, 2, ["bulk", "sum", 7, COUNT, f"load={self.file}"]) as job:
            self.assertEqual(job.codes()[:2], [0, 0], job.stories())
            job[0].expect("^loaded 5$")

    def test_a_store_moves_between_servers(self):
        for update in UPDATES[1:]:
            with self.subTest(update=update):
                whole = self.train(3, 3, "bulk", update, 12, COUNT, "rate=9:0.05")
                for moves in (["3:1"], ["3:0", "6:2"], ["0:2", "4:3", "5:9", "12:1"]):
                    words = [f"reshard={move}" for move in moves]
                    self.assertEqual(self.train(3, 3, "bulk", update, 12, COUNT, "rate=9:0.05",
                                                *words), whole)

    def test_stores_of_every_policy_move(self):
        """No push is lost or doubled: values are counters. With gradients, all workers end with one
        value, which is that of the file."""
        for policy, update in (("bulk", UPDATES[1]), ("stale:1", UPDATES[2]), ("async", UPDATES[1]),
                               ("quorum:1", UPDATES[2]), ("quorum:2", UPDATES[1])):
            for moves in (["3:0", "6:2"], ["0:2", "4:3", "5:9", "12:1"]):
                words = [f"reshard={move}" for move in moves]
                with self.subTest(policy=policy, moves=moves):
                    with Counters(3, 3, [policy, "add", 12, 20000, *words]) as job:
                        self.assertEqual(job.codes(), [0] * 6, job.stories())
                    moved = self.train(3, 3, policy, update, 12, COUNT, *words,
                                       f"save=12:{self.file}")
                    self.assertEqual(self.train(2, 1, policy, update, 12, COUNT,
                                                f"load={self.file}"), moved)


class Deaths(Kept):
    def test_the_last_save_goes_on_after_the_death_of_a_server(self):
        for update, servers, victim in ((UPDATES[0], 2, 0), (UPDATES[1], 1, 0),
                                        (UPDATES[2], 3, 2)):
            with self.subTest(update=update):
                whole = self.train(3, servers, "bulk", update, 12, COUNT)
                with Job(3, servers, ["bulk", update, 12, COUNT, f"save=6:{self.file}",
                                      f"survive={self.file}"]) as job:
                    job[0].expect("^saved 6$")
                    job[3 + victim].signal(signal.SIGKILL)
                    for rank in range(3):
                        self.assertEqual(job[rank].code(), 0, job.stories())
                        job[rank].expect("^loaded 6$")
                        self.assertEqual(job[rank].expect("^bits (.*)$").group(1), whole)

    def test_every_policy_loads_after_the_death_of_a_server(self):
        """Iterations end with the load, so the value is that of the file."""
        for policy, update, servers, victim in (("stale:2", UPDATES[1], 2, 0),
                                                ("async", UPDATES[2], 1, 0),
                                                ("quorum:2", UPDATES[1], 3, 2)):
            with self.subTest(policy=policy):
                with Job(3, servers, [policy, update, 6, COUNT, f"save=6:{self.file}",
                                      f"survive={self.file}"]) as job:
                    job[0].expect("^saved 6$")
                    job[3 + victim].signal(signal.SIGKILL)
                    for rank in range(3):
                        self.assertEqual(job[rank].code(), 0, job.stories())
                        job[rank].expect("^loaded 6$")
                    bits = {job[rank].expect("^bits (.*)$").group(1) for rank in range(3)}
                self.assertEqual(bits, {self.train(3, servers, policy, update, 6, COUNT,
                                                   f"load={self.file}")})

    def test_stale_goes_on_after_the_death_of_a_server(self):
        with Job(3, 2, ["stale:2", UPDATES[2], 12, COUNT, f"save=6:{self.file}",
                        f"survive={self.file}"]) as job:
            job[0].expect("^saved 6$")
            job[3].signal(signal.SIGKILL)
            self.assertEqual([job[rank].code() for rank in range(3)], [0] * 3, job.stories())
            bits = {job[rank].expect("^bits (.*)$").group(1) for rank in range(3)}
            self.assertEqual(len(bits), 1, bits)

    def test_servers_that_own_nothing_may_die(self):
        """Workers hold after 30 iterations until it has ended."""
        whole = self.train(2, 2, "bulk", UPDATES[2], 60, COUNT)
        with Job(2, 2, ["bulk", UPDATES[2], 60, COUNT, "reshard=3:1", "hold=30"]) as job:
            job[0].expect("^moved 3$")
            for rank in job.lose(3):
                self.assertEqual(rank.code(), 0, job.stories())
                self.assertEqual(rank.expect("^bits (.*)$").group(1), whole)


class Refused(Kept):
    def refuse(self, arguments, *words):
        with Job(2, 2, arguments) as job:
            for rank in range(2):
                self.assertEqual(job[rank].code(), 7, job[rank].story())
                line = job[rank].expect("^failed ").string
                for word in words:
                    self.assertIn(word, line)

    def test_files_that_do_not_fit(self):
        self.train(2, 1, "bulk", UPDATES[1], 3, COUNT, f"save=3:{self.file}")
        load = f"load={self.file}"
        self.refuse(["bulk", UPDATES[2], 5, COUNT, load], "update momentum", "adam")
        self.refuse(["bulk", UPDATES[1], 5, 5, load], "'w'", "40001 elements", "5 of f32")
        self.refuse(["bulk", UPDATES[1], 5, COUNT, f"load={self.file}2"], "cannot be read",
                    "No such file")

    def test_damaged_files(self):
        self.train(2, 1, "bulk", UPDATES[1], 3, COUNT, f"save=3:{self.file}")
        whole = pathlib.Path(self.file).read_bytes()
        for what, cut in (("length", whole[:-1]), ("begin as", whole[:10]), ("begin as", b""),
                          ("length", whole + b"x"),
                          ("values are damaged", whole[:-100] + b"0000" + whole[-96:]),
                          ("list is damaged", whole[:60] + b"0000" + whole[64:]),
                          ("version", whole[:8] + b"\xff" + whole[9:])):
            with self.subTest(what=what):
                pathlib.Path(self.file).write_bytes(cut)
                self.refuse(["bulk", UPDATES[1], 5, COUNT, f"load={self.file}"],
                            "saved completely", what)

    def test_places_that_cannot_be_written(self):
        self.refuse(["bulk", UPDATES[1], 5, COUNT, f"save=2:{self.folder}/none/x"], "none/x",
                    "cannot be written", "No such file")
        if os.path.exists("/dev/full"):
            os.symlink("/dev/full", self.file + ".tmp")
            self.refuse(["bulk", UPDATES[1], 5, COUNT, f"save=2:{self.file}"], "No space left")
            self.assertFalse(os.path.exists(self.file))

    def test_calls_that_do_not_agree(self):
        self.refuse(["bulk", UPDATES[1], 5, COUNT, "save=2:"], "path is NULL or empty on rank 0")
        self.refuse(["bulk", UPDATES[1], 5, COUNT, f"busy={self.file}"], "in flight on rank 1")


if __name__ == "__main__":
    unittest.main()
