# SPDX-License-Identifier: Apache-2.0
"""Jobs with servers: ranks started one by one, as under mpirun, and by tutti run --servers.

Workers' collectives know nothing of servers, whatever happens to those; servers end with the last
worker; processes that disagree about who is a server are refused on every rank.

Labels: asan
Needs: tutti-worker tutti_cli
Timeout: 300
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import ranks

TUTTI = str(ranks.BIN / "tutti")
IDLE_S, TICKS_MAX = 2.0, 1


def job(workers, servers, verbs, variables=None, **keywords):
    """Workers that run `verbs`, and behind them servers."""
    return ranks.Ranks(workers + servers, lambda rank: verbs if rank < workers else
                       ["serve", "leaks"], {"TUTTI_SERVERS": str(servers), **(variables or {})},
                       **keywords)


def ticks(pid):
    """Processor time of a process, user and system, in ticks of the kernel."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


class World(unittest.TestCase):
    def test_workers_see_workers_only(self):
        hosts = {0: "1", 1: "1", 2: "2", 3: "1", 4: "3"}  # ranks 3 and 4 serve
        with job(3, 2, ["init", "describe", "steps:20:mixed:100", "sets:3", "shutdown", "leaks"],
                 per_rank=lambda rank: {"TUTTI_HOSTID": hosts[rank]}) as ours:
            self.assertEqual(ours.codes(), [0] * 5, [rank.story() for rank in ours])
            for rank, place in enumerate(("local 0 of 2, host 0 of 2", "local 1 of 2, host 0 of 2",
                                          "local 0 of 1, host 1 of 2")):
                self.assertIsNotNone(ours[rank].find(rf"rank {rank} of 3, {place};"),
                                     ours[rank].story())

    def test_one_worker_is_enough(self):
        with job(1, 2, ["init", "steps:5:mixed:10", "shutdown", "leaks"]) as ours:
            self.assertEqual(ours.codes(), [0, 0, 0], [rank.story() for rank in ours])

    def test_a_server_logs_one_line_at_its_start(self):
        with job(2, 1, ["init", "shutdown"], {"TUTTI_LOG": "info"}) as ours:
            ours[2].expect(r"tutti\[server 0/1\] info: ready for 2 workers; rank 2", of_log=True)
            self.assertEqual(ours.codes(), [0, 0, 0])


class Loss(unittest.TestCase):
    LOAD = ["init", "steps:50:mixed:300", "steps:4000:allreduce:20", "steps:50:mixed:20000",
            "sets:5", "steps:500:named:10", "shutdown", "leaks"]

    def survive(self, ours, workers):
        for rank in list(ours)[:workers]:
            self.assertEqual(rank.code(), 0, rank.story())
            self.assertEqual([line for line in rank.lines if "failed" in line], [])
            self.assertEqual([line for line in rank.log if "error" in line], [], rank.story())

    def test_a_killed_server_breaks_no_collective(self):
        """It is killed in the middle of the second verb; the others follow once all know it."""
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport), \
                    job(3, 2, [*self.LOAD[:3], "wait", *self.LOAD[3:]],
                        {"TUTTI_TRANSPORT": transport}) as ours:
                ours[0].expect("^steps 50$")
                ours[3].signal(signal.SIGKILL)
                for rank in range(3):
                    ours[rank].expect(r"warn: server 0 \(rank 3\) is gone", of_log=True)
                for rank in range(3):
                    ours[rank].say()
                self.survive(ours, 3)
                self.assertEqual(ours[4].code(), 0, ours[4].story())

    def test_all_servers_killed_before_the_first_call(self):
        with job(2, 2, ["init", "wait", *self.LOAD[1:]]) as ours:
            for worker in (ours[0], ours[1]):
                worker.expect("waiting")
            for server in (ours[2], ours[3]):
                server.signal(signal.SIGKILL)
                server.code()
            for worker in (ours[0], ours[1]):
                worker.say()
            self.survive(ours, 2)

    def test_a_stopped_server_holds_up_nobody(self):
        with job(2, 1, ["init", "wait", *self.LOAD[1:]]) as ours:
            for worker in (ours[0], ours[1]):
                worker.expect("waiting")
            ours[2].signal(signal.SIGSTOP)
            for worker in (ours[0], ours[1]):
                worker.say()
            for worker in (ours[0], ours[1]):
                worker.expect("^steps 500$")
            ours[2].signal(signal.SIGCONT)
            self.survive(ours, 2)
            self.assertEqual(ours[2].code(), 0, ours[2].story())

    def test_servers_end_after_workers_however_they_ended(self):
        with job(3, 2, ["init", "on:1", "wait", "steps:1:barrier:1", "shutdown"]) as ours:
            ours[1].expect("waiting")
            self.assertIsNone(ours[3].process.poll())
            ours[1].signal(signal.SIGKILL)
            self.assertEqual([ours[rank].code() for rank in (0, 2)], [5, 5])  # rank 1 is down
            for server in (ours[3], ours[4]):
                self.assertEqual(server.code(), 0, server.story())


class Idle(unittest.TestCase):
    def test_an_idle_server_uses_no_processor(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport), \
                    job(2, 1, ["init", "wait", "steps:3000:mixed:100", "wait", "shutdown"],
                        {"TUTTI_TRANSPORT": transport}) as ours:
                workers, server = (ours[0], ours[1]), ours[2]
                for worker in workers:
                    worker.expect("waiting")
                time.sleep(0.2)  # it may be on its way to sleep
                before = ticks(server.pid)
                time.sleep(IDLE_S)
                self.assertLessEqual(ticks(server.pid) - before, TICKS_MAX)
                for worker in workers:
                    worker.say()
                for worker in workers:
                    worker.expect("^steps 3000$")
                self.assertLessEqual(ticks(server.pid) - before, TICKS_MAX, "woken by collectives")
                for worker in workers:
                    worker.say()
                self.assertEqual(ours.codes(), [0, 0, 0], [rank.story() for rank in ours])


class Disagreement(unittest.TestCase):
    def refusals(self, size, call, per_rank):
        """The error of every rank; `call` has the verb of each."""
        with ranks.Ranks(size, lambda rank: [call[rank]], per_rank=per_rank) as ours:
            self.assertEqual(ours.codes(), [3] * size, [rank.story() for rank in ours])
            return [rank.expect(r"^(init|serve) -\d+ (.*)$")[2] for rank in ours]

    def test_other_numbers_of_servers_are_named_on_every_rank(self):
        numbers = ["1", "1", "2"]
        for text in self.refusals(3, ["init", "init", "serve"],
                                  lambda rank: {"TUTTI_SERVERS": numbers[rank]}):
            self.assertRegex(text, r"^rank 0 on \S+ has TUTTI_SERVERS=1, rank 2 on \S+ has "
                                   r"TUTTI_SERVERS=2; set the same number")

    def test_a_server_without_the_variable_is_named_on_every_rank(self):
        for text in self.refusals(3, ["init", "init", "serve"], lambda rank: {
                "TUTTI_SERVERS": "1" if rank < 2 else None}):
            self.assertIn("has TUTTI_SERVERS=1, rank 2 on ", text)
            self.assertIn("has TUTTI_SERVERS=0;", text)

    def test_a_role_that_contradicts_the_rank(self):
        texts = self.refusals(3, ["init", "init", "serve"], lambda rank: {
            "TUTTI_SERVERS": "1", "TUTTI_ROLE": "server" if rank != 1 else "worker"})
        self.assertIn("TUTTI_ROLE=server, but rank 0 of 3 is a worker with TUTTI_SERVERS=1",
                      texts[0])
        for text in texts[1:]:
            self.assertIn("joins as a server, but with TUTTI_SERVERS=1 rank 0 of 3 is a worker",
                          text)

    def test_the_wrong_call_is_refused_with_the_right_one(self):
        variables = {"TUTTI_SERVERS": "1"}
        texts = self.refusals(3, ["init", "init", "init"], lambda rank: variables)
        self.assertEqual(texts[2], "this process is a server (rank 2 of 3, TUTTI_SERVERS=1): call "
                                   "tutti_server_run, or run `tutti server`")
        texts = self.refusals(3, ["init", "serve", "serve"], lambda rank: variables)
        self.assertIn("this process is a worker (rank 1 of 3, TUTTI_SERVERS=1): call tutti_init",
                      texts[1])

    def test_a_job_needs_a_worker(self):
        for size in (1, 2):
            for text in self.refusals(size, ["init"] * size, lambda rank: {"TUTTI_SERVERS": "2"}):
                self.assertIn("TUTTI_SERVERS=2 leaves no worker: the job has ", text)

    def test_an_engine_excludes_servers(self):
        for text in self.refusals(2, ["init", "serve"], lambda rank: {
                "TUTTI_SERVERS": "1", "TUTTI_ENGINE": "mpi"}):
            self.assertIn("TUTTI_ENGINE=mpi and TUTTI_SERVERS=1 exclude each other", text)


def run(*arguments, **keywords):
    keywords.setdefault("env", ranks.clean_environment())
    return subprocess.run([TUTTI, "run", "-q", *arguments], capture_output=True, text=True,
                          timeout=ranks.PATIENCE_S, **keywords)


class OtherLauncher(unittest.TestCase):
    @unittest.skipUnless(shutil.which("mpiexec.hydra"), "MPICH is not installed")
    def test_two_programs_under_mpich(self):
        self.launch(["mpiexec.hydra", "-n", "2"], ["-n", "2"])

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "Open MPI is not installed")
    def test_two_programs_under_open_mpi(self):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        variable = ["-n", "2", "-x", "TUTTI_SERVERS=2"]
        self.launch(["mpirun.openmpi", *root, "--oversubscribe", *variable], variable,
                    TUTTI_SERVERS="")

    def launch(self, workers, servers, **variables):
        result = subprocess.run(
            [*workers, ranks.WORKER, "init", "describe", "steps:5:mixed:10", "shutdown", ":",
             *servers, TUTTI, "server"], capture_output=True, text=True,
            timeout=ranks.PATIENCE_S,
            env={**ranks.clean_environment(), "TUTTI_SERVERS": "2", **variables})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(re.findall("rank [01] of 2, local", result.stdout)), 2, result.stdout)


class Launcher(unittest.TestCase):
    SHOW = ('echo "role=$TUTTI_ROLE rank=$TUTTI_RANK/$TUTTI_SIZE/$TUTTI_SERVERS '
            'torch=$RANK/$WORLD_SIZE local=$LOCAL_RANK/$LOCAL_WORLD_SIZE group=$GROUP_RANK/'
            '$GROUP_WORLD_SIZE"; exec ' + f"{ranks.WORKER} init shutdown")

    def test_servers_run_beside_the_ranks(self):
        result = run("-n", "3", "--servers", "2", "-x", "TUTTI_LOG=info", "sh", "-c", self.SHOW)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        for rank in range(3):
            self.assertIn(f"[{rank}] role=worker rank={rank}/5/2 torch={rank}/3 local={rank}/3 "
                          "group=0/1", lines)
        for server in range(2):
            self.assertRegex(result.stderr,
                             rf"(?m)^\[s{server}\] tutti\[server {server}/2\] info: ready for 3")
        self.assertNotIn("tutti run:", result.stderr)

    def test_servers_are_placed_on_the_hosts_in_turn_or_on_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            rsh = pathlib.Path(folder, "rsh")
            rsh.write_text('#!/bin/sh\necho "$1" >>"$(dirname "$0")/reached"\nshift\n'
                           'exec sh -c "$*"\n')
            rsh.chmod(0o755)
            for more, hosts in (([], ["east", "east", "west", "west"]),
                                (["--server-hosts", "north:2,south"],
                                 ["east", "north", "south", "west"])):
                reached = pathlib.Path(folder, "reached")
                reached.unlink(missing_ok=True)
                result = run("-H", "east:2,west:1", "--servers", "3", *more, "--rsh", str(rsh),
                             "sh", "-c", self.SHOW)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("[2] role=worker rank=2/6/3 torch=2/3 local=0/1 group=1/2",
                              result.stdout.splitlines())
                self.assertEqual(sorted(reached.read_text().split()), hosts)

    def test_a_dead_server_is_named_and_the_job_goes_on(self):
        process = subprocess.Popen(
            [TUTTI, "run", "-q", "-n", "2", "--servers", "2", "--stdin", ranks.WORKER, "init",
             "on:0", "wait", "steps:50:mixed:100", "shutdown"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=ranks.clean_environment())
        self.addCleanup(process.kill)
        while "waiting" not in process.stdout.readline():
            self.assertIsNone(process.poll())
        victim = next(pid for pid in server_processes(process.pid) if has_rank(pid, 3))
        os.kill(victim, signal.SIGKILL)
        stderr_line = process.stderr.readline()
        while "tutti run:" not in stderr_line:
            stderr_line = process.stderr.readline()
        self.assertRegex(stderr_line,
                         rf"server 1 on host \S+ \(pid {victim}\) was killed by signal SIGKILL")
        stdout, stderr = process.communicate("go\n", timeout=ranks.PATIENCE_S)
        self.assertEqual(process.returncode, 0, stderr)
        self.assertEqual(stdout.count("steps 50"), 2)

    def test_servers_of_a_program_that_never_joins_are_stopped(self):
        self.assertEqual(run("-n", "1", "--servers", "1", "true").returncode, 0)
        self.assertEqual(run("-n", "1", "--servers", "1", "false").returncode, 1)

    def test_output_folder_has_servers(self):
        with tempfile.TemporaryDirectory() as folder:
            run("-n", "1", "--servers", "1", "--output-dir", folder, "-x", "TUTTI_LOG=info",
                ranks.WORKER, "init", "shutdown")
            self.assertIn("ready for 1 worker;",
                          pathlib.Path(folder, "server.0", "stderr").read_text())

    def test_servers_of_the_shell_are_not_passed_on(self):
        shell = {**ranks.clean_environment(), "TUTTI_SERVERS": "2", "TUTTI_ROLE": "worker"}
        result = run("-n", "1", "sh", "-c", "echo [$TUTTI_SERVERS$TUTTI_ROLE]", env=shell)
        self.assertEqual(result.stdout, "[0] []\n")
        self.assertIn("start servers with --servers 2", result.stderr)

    def test_a_program_may_be_worker_and_server(self):
        result = run("-n", "3", "-x", "TUTTI_SERVERS=1", "sh", "-c",
                     f"exec {ranks.WORKER} $([ $TUTTI_RANK = 2 ] && echo serve || "
                     "echo init steps:5:allreduce:10 shutdown)")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("[2] serve 0 ok", result.stdout)
        self.assertEqual(result.stderr, "")

    def test_wrong_usage(self):
        for arguments in (["--server-hosts", "east"], ["--servers", "-1"], ["--servers", "few"]):
            self.assertEqual(run(*arguments, "true").returncode, 2, arguments)


def server_processes(launcher):
    """Processes below the launcher that run `tutti server`."""
    found = []
    children = [launcher]
    while children:
        pid = children.pop()
        try:
            listed = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        children += map(int, listed)
        if words[1:2] == ["server"]:
            found.append(pid)
    return found


def has_rank(pid, rank):
    return f"TUTTI_RANK={rank}" in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")


class KeepGoing(unittest.TestCase):
    # Of the rank that fails first, and of those that end after its supervisor has seen it.
    PROCEED = "echo $$ >pid.new; mv pid.new pid; "
    AFTER = "until [ -e pid ]; do sleep 0.01; done; while kill -0 $(cat pid); do sleep 0.01; done; "

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_the_others_go_on_and_the_job_succeeds(self):
        result = run("-n", "4", "--keep-going", "sh", "-c",
                     f"if [ $TUTTI_RANK = 1 ]; then {self.PROCEED} kill -9 $$; fi; {self.AFTER} "
                     "echo done", cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("done"), 3)
        self.assertRegex(result.stderr, r"rank 1 .* killed by signal SIGKILL \(9\); the others go")
        self.assertIn("1 of 4 ranks failed", result.stderr)

    def test_too_few_left_stop_the_job_with_the_first_code(self):
        result = run("-n", "4", "--keep-going=3", "sh", "-c",
                     f"if [ $TUTTI_RANK = 2 ]; then {self.PROCEED} exit 7; fi; "
                     f"if [ $TUTTI_RANK = 0 ]; then {self.AFTER} exit 9; fi; exec sleep 1000",
                     cwd=self.folder)
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertRegex(result.stderr, r"rank 2 .* exited with code 7; the others go on")
        self.assertRegex(result.stderr, r"rank 0 .* exited with code 9; stopping the others")
        self.assertIn("2 of 4 ranks failed; the others were stopped", result.stderr)

    def test_all_failed(self):
        result = run("-n", "3", "--keep-going", "sh", "-c", "exit 4")
        self.assertEqual(result.returncode, 4)
        self.assertIn("3 of 3 ranks failed", result.stderr)

    def test_more_than_there_are_is_wrong_usage(self):
        self.assertEqual(run("-n", "2", "--keep-going=3", "true").returncode, 2)
        self.assertEqual(run("-n", "2", "--keep-going=0", "true").returncode, 2)

    def test_a_lost_host_counts_as_its_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            rsh = pathlib.Path(folder, "rsh")
            rsh.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
            rsh.chmod(0o755)
            script = ('[ $TUTTI_RANK = 0 ] && kill -9 $(sed -n "s/PPid:\\s*//p" /proc/$$/status); '
                      '[ $TUTTI_RANK -lt 2 ] && exec sleep 1000; echo done')
            result = run("-H", "east:2,west:2", "--keep-going=2", "--rsh", str(rsh), "sh", "-c",
                         script)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("lost the supervisor of host east and its ranks 0 to 1", result.stderr)
            self.assertIn("2 of 4 ranks failed", result.stderr)
            self.assertEqual(sorted(result.stdout.splitlines()), ["[2] done", "[3] done"])


if __name__ == "__main__":
    unittest.main()
