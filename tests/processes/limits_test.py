# SPDX-License-Identifier: Apache-2.0
"""Resources that are exhausted or forbidden: an error that names resource and cure, or the job
works without it. Never a crash, never a hang.

Timeout: 400
"""
import os
import pathlib
import socket
import tempfile
import unittest

import ranks

BAD_CONFIG, NO_MEMORY, NO_RESOURCE, REFUSED = -2, -1, -11, -12
WORK = ["steps:9:mixed:3000", "shutdown", "leaks"]
NO_INIT = 3


class Limits(unittest.TestCase):
    def works(self, size, verbs, **keywords):
        with ranks.Ranks(size, verbs, **keywords) as job:
            self.assertEqual(job.codes(), [0] * size, [rank.story() for rank in job])
            return [line for rank in job for line in rank.log]

    def refusals(self, job):
        """All ranks must end with a clean refusal of init; returns their texts."""
        texts = []
        for rank in job:
            self.assertEqual(rank.code(), NO_INIT, rank.story())
            match = rank.find(r"^init (-\d+) (.+)$")
            self.assertIsNotNone(match, rank.story())
            texts.append((int(match[1]), match[2]))
        return texts

    def test_descriptors_run_out_at_any_point_of_joining(self):
        """From too few for anything to just enough: init works, or its error has `ulimit -n`."""
        outcomes = set()
        for transport in ("shm", "tcp"):
            for limit in range(6, 34, 2):
                with self.subTest(transport=transport, limit=limit), \
                        ranks.Ranks(3, lambda rank: ([f"limit:nofile:{limit}"] if rank == 1 else [])
                                    + ["init", *WORK],
                                    variables={"TUTTI_TRANSPORT": transport}) as job:
                    code = job[1].code()
                    outcomes.add(code)
                    self.assertIn(code, (0, NO_INIT), job[1].story())
                    if code == NO_INIT:
                        match = job[1].find(r"^init (-\d+) (.+)$")
                        self.assertRegex(match[2], "(?i)descriptor|open files", job[1].story())
                        self.assertIn("ulimit -n", match[2])
                        for rank in (job[0], job[2]):
                            self.assertNotEqual(rank.code(), 0, rank.story())
                            self.assertIn(rank.process.returncode, (NO_INIT, 5), rank.story())
                            self.assertRegex("".join(rank.lines), r"rank 1\b", rank.story())
        self.assertEqual(outcomes, {0, NO_INIT})

    def test_address_space_runs_out_at_any_point_of_joining(self):
        for limit in (8, 12, 16, 24, 32, 48, 64, 96, 128, 256):
            with self.subTest(mebibytes=limit), \
                    ranks.Ranks(2, lambda rank: ([f"limit:as:{limit << 20}"] if rank == 1 else [])
                                + ["init", *WORK]) as job:
                code = job[1].code()
                self.assertIn(code, (0, NO_INIT, 5), job[1].story())
                if code == NO_INIT:
                    match = job[1].find(r"^init (-\d+) (.+)$")
                    self.assertRegex(match[2], "(?i)memory|address space", job[1].story())
                job[0].code()
                self.assertGreaterEqual(job[0].process.returncode, 0, job[0].story())

    def test_without_memfd_create_tcp_is_used_and_reported(self):
        log = self.works(3, ["deny:memfd_create", "init", *WORK])
        warnings = [line for line in log if "warn" in line and "TCP" in line]
        self.assertEqual(len(warnings), 3, log)
        self.assertRegex(warnings[0], "memfd_create")

    def test_one_rank_without_memfd_create(self):
        self.works(3, lambda rank: (["deny:memfd_create"] if rank == 1 else []) + ["init", *WORK])

    def test_shm_required_but_denied(self):
        with ranks.Ranks(2, ["deny:memfd_create", "init", *WORK],
                         variables={"TUTTI_TRANSPORT": "shm"}) as job:
            for _, text in self.refusals(job):
                self.assertRegex(text, "memfd_create.*TUTTI_TRANSPORT")

    def test_without_pidfd_open_deaths_are_still_detected(self):
        with ranks.Ranks(3, ["deny:pidfd_open", "init", "storm:allreduce:1000", "shutdown",
                             "leaks"], variables={"TUTTI_TRANSPORT": "shm"}) as job:
            job.expect("^going$")
            at_ns = ranks.kill(job[1].pid)
            for rank in (job[0], job[2]):
                match = rank.expect(r"^failed -6 (\d+) \d+ rank 1 ")
                self.assertLess(ranks.NAPS.seconds(at_ns, int(match[1])), 2.0)
                self.assertEqual(rank.code(), 0, rank.story())

    def test_a_rendezvous_by_a_plugin_that_cannot_be_loaded(self):
        """Empty files precede the plugins that this machine may have."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("mpi-openmpi", "mpi-mpich", "pmix"):
                pathlib.Path(folder, f"tutti-{name}.so").touch(0o600)
            for meeting in ("mpi", "pmix"):
                with ranks.Ranks(2, ["init"], variables={"TUTTI_RENDEZVOUS": meeting,
                                                         "TUTTI_PLUGIN_PATH": folder}) as job:
                    for status, text in self.refusals(job):
                        self.assertEqual(status, BAD_CONFIG, text)
                        self.assertRegex(text, f"engine {meeting}: .*tutti-{meeting}.*too short")

    def test_port_in_use(self):
        with socket.create_server(("0.0.0.0", 0)) as busy:
            port = busy.getsockname()[1]
            with ranks.Ranks(2, ["init", *WORK], variables={
                    "TUTTI_PORT_RANGE": f"{port}-{port}", "TUTTI_TRANSPORT": "tcp",
                    "TUTTI_START_TIMEOUT": "3"}) as job:
                texts = [text for _, text in self.refusals(job)]
                self.assertTrue(any(str(port) in text and "TUTTI_PORT_RANGE" in text
                                    for text in texts), texts)


class Secrets(unittest.TestCase):
    works, refusals = Limits.works, Limits.refusals

    def refused(self, variables, words, status=REFUSED):
        with ranks.Ranks(2, ["init", *WORK], variables={"TUTTI_START_TIMEOUT": "3",
                                                        **variables}) as job:
            for code, text in self.refusals(job):
                self.assertEqual(code, status, text)
                for word in words:
                    self.assertIn(word, text)

    def test_file_is_missing(self):
        self.refused({"TUTTI_SECRET_FILE": "/nowhere/key"}, ["TUTTI_SECRET_FILE", "/nowhere/key"])

    def test_file_is_open_to_others(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"a" * 64)
            file.flush()
            os.chmod(file.name, 0o644)
            self.refused({"TUTTI_SECRET_FILE": file.name}, [file.name, "600"])

    def test_file_is_a_folder_or_short(self):
        with tempfile.TemporaryDirectory() as folder:
            self.refused({"TUTTI_SECRET_FILE": folder}, [folder])
            short = pathlib.Path(folder, "short")
            short.touch(0o600)
            short.write_text("abc")
            self.refused({"TUTTI_SECRET_FILE": str(short)}, [str(short), "32"])

    def test_no_home_for_the_users_key(self):
        self.refused({"TUTTI_SECRET_FILE": None, "HOME": None, "XDG_CONFIG_HOME": None},
                     ["HOME", "TUTTI_SECRET_FILE"])

    def test_home_cannot_be_written(self):
        self.refused({"TUTTI_SECRET_FILE": None, "HOME": "/proc", "XDG_CONFIG_HOME": None},
                     ["/proc/.config"])

    def test_users_key_is_made_once(self):
        with tempfile.TemporaryDirectory() as home:
            self.works(4, ["init", *WORK], variables={
                "TUTTI_SECRET_FILE": None, "HOME": home, "XDG_CONFIG_HOME": None})
            key = pathlib.Path(home, ".config/tutti/key")
            self.assertEqual(key.stat().st_mode & 0o777, 0o600)
            key.chmod(0o644)
            self.refused({"TUTTI_SECRET_FILE": None, "HOME": home, "XDG_CONFIG_HOME": None},
                         [str(key)])

    def test_ranks_with_different_secrets_do_not_connect(self):
        with ranks.Ranks(2, ["init", *WORK], variables={
                "TUTTI_SECRET_FILE": None, "TUTTI_START_TIMEOUT": "4"},
                per_rank=lambda rank: {"TUTTI_SECRET": f"{rank + 10:064x}"}) as job:
            texts = [text for _, text in self.refusals(job)]
            self.assertTrue(any("secret" in text for text in texts), texts)


if __name__ == "__main__":
    unittest.main()
