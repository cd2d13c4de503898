# SPDX-License-Identifier: Apache-2.0
"""Real launchers, and the variables that others set: the same program joins under each.

A launcher that is not installed is skipped.
Timeout: 400
"""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import unittest

import ranks

VERBS = ["init", "describe", "steps:9:mixed:2000", "shutdown", "leaks"]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Launchers(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory(prefix="tutti-home-")
        self.addCleanup(self.home.cleanup)
        self.environment = {**ranks.clean_environment(), "HOME": self.home.name}

    def assert_joined(self, text, size, family):
        self.assertEqual(text.count("init 0 ok"), size, text)
        self.assertEqual(text.count("shutdown 0"), size, text)
        joined = f"joined by {family}" if family else "no launcher: a job of one rank"
        self.assertEqual(text.count(joined), size, text)
        for rank in range(size):
            self.assertIn(f"rank {rank} of {size}", text)

    def launch(self, program, *arguments, size=4, family):
        path = shutil.which(program)
        if path is None:
            self.skipTest(f"{program} is not installed")
        result = subprocess.run([path, *arguments, ranks.WORKER, *VERBS], env=self.environment,
                                capture_output=True, text=True, timeout=ranks.PATIENCE_S)
        self.assertEqual(result.returncode, 0, result)
        self.assert_joined(result.stdout, size, family)

    def test_mpich(self):
        self.launch("mpirun.mpich", "-n", "4", family="pmi")

    def test_mpich_carries_the_secret(self):
        self.environment = {**self.environment, "HOME": "/nonexistent", "XDG_CONFIG_HOME": ""}
        self.launch("mpirun.mpich", "-n", "4", family="pmi")

    def test_open_mpi(self):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        self.launch("mpirun.openmpi", *root, "--oversubscribe", "-n", "4", family="openmpi")

    def test_tutti_run(self):
        self.launch(str(ranks.BIN / "tutti"), "run", "-q", "-n", "4", family="tutti")

    def by_hand(self, size, variables, family):
        """Each rank gets the variables of `variables(rank)`, and none of ours."""
        job = [ranks.Rank([ranks.WORKER, *VERBS], {**self.environment, **variables(rank)})
               for rank in range(size)]
        try:
            self.assertEqual([rank.code() for rank in job], [0] * size,
                             [rank.story() for rank in job])
            self.assert_joined("\n".join(line for rank in job for line in rank.lines), size, family)
        finally:
            for rank in job:
                rank.end()

    def test_variables_of_torchrun(self):
        port = str(free_port())
        self.by_hand(4, lambda rank: {
            "RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "4",
            "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
            "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0"}, "torchrun")

    def test_torchrun_whose_store_holds_the_master_port(self):
        """torchrun's agent listens on MASTER_PORT itself: the ranks need another rendezvous."""
        with socket.create_server(("127.0.0.1", 0)) as store:
            port = str(store.getsockname()[1])
            self.by_hand(3, lambda rank: {
                "RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                "TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_USE_AGENT_STORE": "True"}, "torchrun")

    def test_tf_config(self):
        place = f"127.0.0.1:{free_port()}"
        cluster = {"chief": [place], "worker": ["127.0.0.1:1", "127.0.0.1:2"], "ps": ["d:1"]}
        self.by_hand(3, lambda rank: {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {
            "type": "worker" if rank else "chief", "index": max(rank - 1, 0)}})}, "tf_config")

    def test_plain_variables(self):
        port = str(free_port())
        self.by_hand(3, lambda rank: {
            "RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "localhost",
            "MASTER_PORT": port}, "plain")

    def test_own_variables_and_a_shared_file(self):
        meet = f"file://{self.home.name}/meet"
        self.by_hand(4, lambda rank: {
            "TUTTI_RANK": str(rank), "TUTTI_SIZE": "4", "TUTTI_RENDEZVOUS": meet,
            "TUTTI_JOB_ID": "a"}, "tutti")

    def test_two_jobs_of_one_user_at_once(self):
        jobs = []
        try:
            for name in ("a", "b"):
                meet = f"file://{self.home.name}/{name}"
                jobs.append([ranks.Rank([ranks.WORKER, *VERBS], {
                    **self.environment, "TUTTI_RANK": str(rank), "TUTTI_SIZE": "2",
                    "TUTTI_RENDEZVOUS": meet, "TUTTI_JOB_ID": name}) for rank in range(2)])
            for job in jobs:
                self.assertEqual([rank.code() for rank in job], [0, 0])
        finally:
            for rank in sum(jobs, []):
                rank.end()

    def test_alone(self):
        self.by_hand(1, lambda rank: {}, None)


if __name__ == "__main__":
    unittest.main()
