# SPDX-License-Identifier: Apache-2.0
"""tutti run as a user sees it: output, exit codes, signals, and no process left behind.

Timeout: 400
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TUTTI = str(pathlib.Path(os.environ.get("TEST_BIN", "build/bin")).resolve() / "tutti")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has it ignored
PATIENCE_S = 90  # for events that must happen; long, because the machine may be busy

# Waits without end but dies by any signal; prints its pid first, so that a test can await it.
SLEEPER = "echo pid $$; exec sleep 1000"


def tutti(*arguments, **keywords):
    keywords.setdefault("timeout", PATIENCE_S)
    return subprocess.run([TUTTI, *arguments], capture_output=True, text=True, **keywords)


def run(*arguments, **keywords):
    return tutti("run", "-q", *arguments, **keywords)


def is_alive(pid):
    """A zombie is not alive: its parent has merely not reaped it yet."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def await_true(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.01)


class Job:
    """A running tutti run whose output lines can be awaited."""

    def __init__(self, *arguments, **keywords):
        self.process = subprocess.Popen([TUTTI, "run", "-q", *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **keywords)

    def lines(self, count):
        return [self.process.stdout.readline().rstrip("\n") for _ in range(count)]

    def pids(self, count):
        return [int(re.search(r"pid (\d+)", line).group(1)) for line in self.lines(count)]

    def finish(self):
        stdout, stderr = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, stdout, stderr

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Output(unittest.TestCase):
    def test_every_line_carries_its_rank(self):
        result = run("-n", "3", "sh", "-c", "echo out; echo err >&2")
        self.assertEqual(sorted(result.stdout.splitlines()), ["[0] out", "[1] out", "[2] out"])
        self.assertEqual(sorted(result.stderr.splitlines()), ["[0] err", "[1] err", "[2] err"])

    def test_no_prefix_leaves_bytes_alone(self):
        result = run("-n", "1", "--no-prefix", "sh", "-c", "printf 'a\\nb'")
        self.assertEqual(result.stdout, "a\nb")

    def test_unfinished_last_line_is_shown(self):
        self.assertEqual(run("-n", "1", "printf", "end").stdout, "[0] end\n")

    def test_order_of_one_rank_is_kept_among_long_lines(self):
        code = ("import sys\n"
                "for i in range(200): print(str(i) + ' ' + 'x' * (i * 37 % 9000))")
        result = run("-n", "3", sys.executable, "-c", code)
        for rank in range(3):
            numbers = [int(line.split()[1]) for line in result.stdout.splitlines()
                       if line.startswith(f"[{rank}] ")]
            self.assertEqual(numbers, list(range(200)))

    def test_lines_are_never_mixed(self):
        code = "import sys\nfor i in range(300): sys.stdout.write(sys.argv[1] * 999 + '\\n')"
        result = run("-n", "2", "sh", "-c",
                     f'exec {sys.executable} -c "$0" $TUTTI_RANK', code)
        self.assertEqual(len(result.stdout.splitlines()), 600)
        for line in result.stdout.splitlines():
            self.assertRegex(line, r"^\[(\d)\] \1{999}$")

    def test_endless_line_is_cut_and_nothing_lost(self):
        result = run("-n", "1", sys.executable, "-c", "print('y' * 300000, end='')")
        lines = result.stdout.splitlines()
        self.assertGreater(len(lines), 1)
        self.assertEqual("".join(line[4:] for line in lines), "y" * 300000)

    def test_output_folder_holds_each_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            run("-n", "2", "--output-dir", folder, "sh", "-c", "echo $TUTTI_RANK; echo e >&2")
            self.assertEqual(pathlib.Path(folder, "rank.1", "stdout").read_text(), "1\n")
            self.assertEqual(pathlib.Path(folder, "rank.0", "stderr").read_text(), "e\n")

    def test_input_reaches_rank_0_only_and_only_if_asked(self):
        text = "line\n" * 50000
        result = run("-n", "2", "--stdin", "wc", "-l", input=text)
        self.assertEqual(sorted(result.stdout.splitlines()), ["[0] 50000", "[1] 0"])
        self.assertEqual(run("-n", "1", "wc", "-l", input=text).stdout, "[0] 0\n")

    def test_a_closed_output_pipe_ends_the_job(self):
        with Job("-n", "2", "yes") as job:
            job.lines(1)
            job.process.stdout.close()
            self.assertEqual(job.process.wait(PATIENCE_S), 128 + signal.SIGPIPE)


class Ending(unittest.TestCase):
    def test_success_of_all_is_success(self):
        self.assertEqual(run("-n", "4", "true").returncode, 0)

    def test_64_ranks(self):
        self.assertEqual(run("-n", "64", "true").returncode, 0)

    def test_exit_code_is_the_first_failing_one_and_the_rank_is_named(self):
        result = run("-n", "3", "sh", "-c", "[ $TUTTI_RANK != 1 ] || exit 7; exec sleep 1000")
        self.assertEqual(result.returncode, 7)
        self.assertRegex(result.stderr, r"rank 1 on host \S+ \(pid \d+\) exited with code 7")

    def test_signal_is_named(self):
        result = run("-n", "2", "sh", "-c", "[ $TUTTI_RANK = 1 ] && kill -SEGV $$; exec sleep 1000")
        self.assertEqual(result.returncode, 128 + signal.SIGSEGV)
        self.assertRegex(result.stderr, r"rank 1 .*killed by signal SIGSEGV \(11\)")

    def test_ranks_that_ignore_sigterm_are_killed(self):
        stubborn = "trap '' TERM; [ $TUTTI_RANK != 0 ] || exit 1; while :; do sleep 1000; done"
        self.assertEqual(run("-n", "3", "sh", "-c", stubborn).returncode, 1)

    def test_program_that_does_not_exist(self):
        result = run("-n", "2", "/no/such/program")
        self.assertEqual(result.returncode, 127)
        self.assertIn("cannot execute '/no/such/program'", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_program_that_may_not_be_executed(self):
        self.assertEqual(run("-n", "1", "/etc/passwd").returncode, 126)

    def test_leftovers_of_a_successful_rank_are_removed(self):
        result = run("-n", "1", "sh", "-c", "setsid sleep 1000 & echo pid $!")
        self.assertEqual(result.returncode, 0)
        pid = int(re.search(r"pid (\d+)", result.stdout).group(1))
        await_true(lambda: not is_alive(pid), "the leftover is gone")


class Death(unittest.TestCase):
    # Each rank: itself, a child in a session of its own, a grandchild whose parent has exited.
    FAMILY = ("echo pid $$; setsid sleep 1000 & echo pid $!; "
              "(setsid sh -c 'sleep 1000 & echo pid $!' &) ; wait; sleep 1000")

    def test_killed_launcher_leaves_nothing(self):
        with Job("-n", "2", "sh", "-c", self.FAMILY) as job:
            pids = job.pids(6)
            self.assertTrue(all(map(is_alive, pids)))
            job.process.kill()
            await_true(lambda: not any(map(is_alive, pids)), f"all of {pids} gone")

    def test_killed_supervisor_leaves_nothing(self):
        with Job("-n", "2", "sh", "-c", self.FAMILY) as job:
            pids = job.pids(6)
            stat = pathlib.Path(f"/proc/{pids[0]}/status").read_text()
            os.kill(int(re.search(r"PPid:\s+(\d+)", stat).group(1)), signal.SIGKILL)
            code, _, stderr = job.finish()
            self.assertEqual(code, 1)
            self.assertIn("lost the supervisor", stderr)
            await_true(lambda: not any(map(is_alive, pids)), f"all of {pids} gone")

    def test_supervisor_is_out_of_reach_of_the_terminal(self):
        with Job("-n", "1", "sh", "-c", SLEEPER) as job:
            pid = job.pids(1)[0]
            self.assertNotEqual(os.getsid(pid), os.getsid(job.process.pid))
            self.assertEqual(os.getpgid(pid), pid)


class Signals(unittest.TestCase):
    TRAP = "trap 'echo got' USR1 USR2; echo ready; while :; do sleep 0.05; done"

    def test_user_signals_reach_every_rank(self):
        with Job("-n", "2", "sh", "-c", self.TRAP) as job:
            job.lines(2)
            for number in (signal.SIGUSR1, signal.SIGUSR2):
                job.process.send_signal(number)
                self.assertEqual(sorted(job.lines(2)), ["[0] got", "[1] got"])

    def test_interrupt_ends_the_job_with_130(self):
        with Job("-n", "2", "sh", "-c", SLEEPER) as job:
            pids = job.pids(2)
            job.process.send_signal(signal.SIGINT)
            self.assertEqual(job.finish()[0], 128 + signal.SIGINT)
            self.assertFalse(any(map(is_alive, pids)))

    def test_ranks_may_finish_their_work_after_sigterm(self):
        saver = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
        with Job("-n", "2", "sh", "-c", saver) as job:
            job.lines(2)
            job.process.send_signal(signal.SIGTERM)
            code, stdout, _ = job.finish()
            self.assertEqual(code, 0)
            self.assertEqual(stdout.count("saved"), 2)

    def test_hangup_is_ignored_under_nohup(self):
        with Job("-n", "1", "sh", "-c", self.TRAP, restore_signals=False,
                 preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as job:
            job.lines(1)
            job.process.send_signal(signal.SIGHUP)
            job.process.send_signal(signal.SIGUSR1)
            self.assertEqual(job.lines(1), ["[0] got"])
            job.process.send_signal(signal.SIGTERM)
            self.assertEqual(job.finish()[0], 128 + signal.SIGTERM)

    def test_second_interrupt_kills(self):
        deaf = "trap 'echo got' INT; echo ready; while :; do sleep 0.05; done"
        with Job("-n", "2", "sh", "-c", deaf) as job:
            job.lines(2)
            job.process.send_signal(signal.SIGINT)
            self.assertEqual(sorted(job.lines(2)), ["[0] got", "[1] got"])
            job.process.send_signal(signal.SIGINT)
            self.assertEqual(job.finish()[0], 128 + signal.SIGINT)


class Hosts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.rsh = self.folder / "rsh"
        self.rsh.write_text('#!/bin/sh\necho "welcome to $1"\nshift\nexec sh -c "$*"\n')
        self.rsh.chmod(0o755)

    def test_two_hosts_through_a_remote_shell(self):
        result = run("-H", "east:2,west:1", "--rsh", str(self.rsh), "sh", "-c",
                     "echo $TUTTI_RANK/$TUTTI_SIZE $TUTTI_LOCAL_RANK/$TUTTI_LOCAL_SIZE "
                     "$TUTTI_CROSS_RANK/$TUTTI_CROSS_SIZE")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         ["[0] 0/3 0/2 0/2", "[1] 1/3 1/2 0/2", "[2] 2/3 0/1 1/2"])
        self.assertIn("welcome to east", result.stderr)

    def test_hosts_are_numbered_for_trainers(self):
        result = run("-H", "east:2,west:1", "--rsh", str(self.rsh), "sh", "-c",
                     "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
                     "$GROUP_RANK/$GROUP_WORLD_SIZE",
                     env={**os.environ, "GROUP_RANK": "7", "GROUP_WORLD_SIZE": "9"})
        self.assertEqual(sorted(result.stdout.splitlines()),
                         ["[0] 0/3 0/2 0/2", "[1] 1/3 1/2 0/2", "[2] 2/3 0/1 1/2"])

    def test_all_ranks_share_job_and_rendezvous(self):
        result = run("-H", "east:1,west:1", "--rsh", str(self.rsh), "--no-prefix", "sh", "-c",
                     "echo $TUTTI_JOB_ID $TUTTI_RENDEZVOUS")
        self.assertEqual(len(set(result.stdout.splitlines())), 1)
        self.assertRegex(result.stdout, r"^[0-9a-f]{16} tcp://\S+:\d+\n")

    def test_failure_on_one_host_stops_the_other(self):
        result = run("-H", "east:1,west:1", "--rsh", str(self.rsh), "sh", "-c",
                     "[ $TUTTI_RANK = 0 ] || exit 9; exec sleep 1000")
        self.assertEqual(result.returncode, 9)
        self.assertIn("rank 1 on host west", result.stderr)

    def test_unreachable_host_is_named(self):
        result = run("-H", "east:1,west:1", "--rsh", "false", "true")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "host (east|west): the remote shell ended")

    def test_silent_host_is_named_in_time(self):
        self.rsh.write_text("#!/bin/sh\nexec sleep 1000\n")
        result = run("-H", "east:1", "--rsh", str(self.rsh), "--timeout-start", "0.2", "true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("host east did not answer within 0.2 s", result.stderr)

    def test_something_else_than_a_supervisor_is_refused(self):
        self.rsh.write_text("#!/bin/sh\nprintf '\\n<tutti-supervisor 1>\\n'; yes\n")
        result = run("-H", "east:1", "--rsh", str(self.rsh), "true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("not Tutti's protocol", result.stderr)

    def test_killed_launcher_leaves_nothing_on_other_hosts(self):
        with Job("-H", "east:1,west:1", "--rsh", str(self.rsh), "sh", "-c", SLEEPER) as job:
            pids = job.pids(2)
            job.process.kill()
            await_true(lambda: not any(map(is_alive, pids)), f"all of {pids} gone")

    def test_hostfile_places_ranks(self):
        hostfile = self.folder / "hosts"
        hostfile.write_text("# two hosts\neast slots=1\nwest:2  # and a comment\n")
        result = run("--hostfile", str(hostfile), "--rsh", str(self.rsh), "sh", "-c",
                     "echo $TUTTI_CROSS_RANK")
        self.assertEqual(sorted(result.stdout.splitlines()), ["[0] 0", "[1] 1", "[2] 1"])

    def test_hostfile_errors_name_file_and_line(self):
        hostfile = self.folder / "hosts"
        for text, line in (("east\nwest slots=none\n", 2), ("-oProxyCommand=x\n", 1),
                           ("\n\neast cores=4\n", 3)):
            hostfile.write_text(text)
            result = run("--hostfile", str(hostfile), "true")
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"{hostfile}:{line}: ", result.stderr)

    def test_hostfile_of_open_mpi(self):
        hostfile = self.folder / "hosts"
        hostfile.write_text("east slots=1 max_slots=4\nwest slots=2 max-slots=2\n")
        result = run("--hostfile", str(hostfile), "--rsh", str(self.rsh), "sh", "-c",
                     "echo $TUTTI_CROSS_RANK")
        self.assertEqual(sorted(result.stdout.splitlines()), ["[0] 0", "[1] 1", "[2] 1"])

    def allocated(self, variables, *arguments):
        """Ranks by host, of a job inside a batch job."""
        result = tutti("run", *arguments, "--rsh", str(self.rsh), "sh", "-c",
                       "echo $TUTTI_CROSS_RANK", env={**os.environ, **variables})
        self.assertEqual(result.returncode, 0, result.stderr)
        hosts = [int(line.split()[1]) for line in sorted(result.stdout.splitlines())]
        return [hosts.count(host) for host in range(max(hosts) + 1)], result.stderr

    def test_nodes_of_a_batch_job_are_used(self):
        nodes = self.folder / "nodes"
        nodes.write_text("east\neast\nwest\n")
        slurm = {"SLURM_JOB_NODELIST": "node[1-2]", "SLURM_TASKS_PER_NODE": "2,1",
                 "SLURM_JOB_ID": "77"}
        ranks, words = self.allocated(slurm)
        self.assertEqual(ranks, [2, 1])
        self.assertIn("3 ranks on 2 of the 2 nodes of Slurm job 77", words)
        self.assertEqual(self.allocated({"PBS_NODEFILE": str(nodes)})[0], [2, 1])
        self.assertEqual(self.allocated({"LSB_MCPU_HOSTS": "east 2 west 1"})[0], [2, 1])
        self.assertEqual(self.allocated(slurm, "-n", "2")[0], [2])
        self.assertEqual(self.allocated(slurm, "-n", "6")[0], [3, 3])
        self.assertEqual(self.allocated(slurm, "--nproc-per-node", "4")[0], [4, 4])
        self.assertEqual(self.allocated(slurm, "-H", "localhost:4")[0], [4])
        self.assertEqual(self.allocated({**slurm, "SLURM_STEP_NUM_TASKS": "3"}, "-n", "2")[0], [2])

    def test_a_broken_list_of_nodes_is_named(self):
        result = run("true", env={**os.environ, "SLURM_JOB_NODELIST": "node[1-"})
        self.assertEqual(result.returncode, 2)
        self.assertIn("SLURM_JOB_NODELIST", result.stderr)

    def test_more_ranks_than_slots_is_refused(self):
        result = run("-n", "5", "-H", "east:2,west:2", "true")
        self.assertEqual(result.returncode, 2)
        self.assertIn("5 ranks do not fit the hosts' 4 slots", result.stderr)


class Environment(unittest.TestCase):
    PROBE = """
import os, socket, stat
secret_fd = int(os.environ['TUTTI_SECRET_FD'])
secret = os.read(secret_fd, 100)
assert len(secret) == 32, len(secret)
rank = int(os.environ['TUTTI_RANK'])
if rank == 0:
    listener = socket.socket(fileno=int(os.environ['TUTTI_LISTEN_FD']))
    host, port = listener.getsockname()
    assert os.environ['TUTTI_RENDEZVOUS'] == f'tcp://{host}:{port}'
    assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
else:
    assert 'TUTTI_LISTEN_FD' not in os.environ
for name in ('environ', 'cmdline'):
    for process in ('self', str(os.getppid())):
        text = open(f'/proc/{process}/{name}', 'rb').read()
        assert secret not in text and secret.hex().encode() not in text
print(secret.hex())
"""

    def test_secret_is_shared_but_not_visible(self):
        result = run("-n", "3", "--no-prefix", sys.executable, "-c", self.PROBE)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(set(result.stdout.split())), 1)

    def test_secret_differs_from_job_to_job(self):
        texts = {run("-n", "1", sys.executable, "-c", self.PROBE).stdout for _ in range(2)}
        self.assertEqual(len(texts), 2)

    def test_nested_job_has_its_own_ranks_and_rendezvous(self):
        result = run("-n", "1", TUTTI, "run", "-q", "-n", "2", "sh", "-c",
                     "echo $TUTTI_RANK/$TUTTI_SIZE ${TUTTI_LISTEN_FD:+listens}")
        self.assertEqual(sorted(result.stdout.splitlines()),
                         ["[0] [0] 0/2 listens", "[0] [1] 1/2"])

    def test_variables_are_set_and_passed(self):
        result = run("-n", "1", "--env", "COLOUR=blue=ish", "-x", "SHADE", "sh", "-c",
                     "echo $COLOUR $SHADE", env={**os.environ, "SHADE": "dark"})
        self.assertEqual(result.stdout, "[0] blue=ish dark\n")

    def test_ranks_work_in_the_folder_that_is_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder).resolve()
            (place / "below").mkdir()
            self.assertEqual(run("-n", "1", "--chdir", str(place), "pwd").stdout, f"[0] {place}\n")
            result = run("-n", "1", "--wdir", "below", "pwd", cwd=place)
            self.assertEqual(result.stdout, f"[0] {place}/below\n")
            result = run("-n", "1", "--chdir", "nowhere", "pwd", cwd=place)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"cannot enter folder {place}/nowhere", result.stderr)

    def test_threads_are_divided_among_ranks_and_reported_in_one_line(self):
        environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
        result = tutti("run", "-n", "2", "sh", "-c", "echo $OMP_NUM_THREADS", env=environment)
        threads = max(1, len(os.sched_getaffinity(0)) // 2)
        self.assertEqual({line[4:] for line in result.stdout.splitlines()}, {str(threads)})
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn(f"OMP_NUM_THREADS={threads}", result.stderr)

    TORCH = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT"

    def test_torchs_variables_are_set(self):
        result = tutti("run", "-q", "-n", "2", "sh", "-c", self.TORCH,
                       env={**os.environ, "RANK": "7", "WORLD_SIZE": "9"})
        lines = sorted(line[4:].split() for line in result.stdout.splitlines())
        self.assertEqual([line[:5] for line in lines],
                         [["0", "2", "0", "2", "127.0.0.1"], ["1", "2", "1", "2", "127.0.0.1"]])
        self.assertEqual(lines[0][5], lines[1][5])
        self.assertGreater(int(lines[0][5]), 1024)

    def test_torchs_variables_that_the_user_sets_stay(self):
        result = tutti("run", "-q", "-n", "1", "-x", "RANK=5", "sh", "-c", self.TORCH,
                       env={**os.environ, "MASTER_ADDR": "node7", "MASTER_PORT": "29500"})
        self.assertEqual(result.stdout.split(), ["[0]", "5", "1", "0", "1", "node7", "29500"])

    def test_threads_chosen_by_the_user_stay(self):
        result = tutti("run", "-n", "2", "sh", "-c", "echo $OMP_NUM_THREADS",
                       env={**os.environ, "OMP_NUM_THREADS": "7"})
        self.assertEqual({line[4:] for line in result.stdout.splitlines()}, {"7"})
        self.assertEqual(result.stderr, "")

    def test_bind_gives_each_rank_one_core(self):
        result = run("-n", "3", "--bind", "core", sys.executable, "-c",
                     "import os; print(os.environ['TUTTI_RANK'], *os.sched_getaffinity(0))")
        cores = sorted(os.sched_getaffinity(0))
        for line in result.stdout.splitlines():
            rank, core = map(int, line.split()[1:])
            self.assertEqual(core, cores[rank % len(cores)])

    def test_signals_are_as_without_a_launcher(self):
        look = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
        direct = subprocess.run(look, capture_output=True, text=True).stdout
        self.assertEqual(run("-n", "1", "--no-prefix", *look).stdout, direct)


class Scarcity(unittest.TestCase):
    """Few descriptors, no IPv4, no /proc."""
    HELLO = str(pathlib.Path(TUTTI).with_name("hello"))

    def shell(self, line, *wrapper):
        return subprocess.run([*wrapper, "sh", "-c", line, TUTTI, self.HELLO], text=True,
                              capture_output=True, timeout=PATIENCE_S)

    def isolated(self, option, line):
        if subprocess.run(["unshare", option, "true"], capture_output=True).returncode != 0:
            self.skipTest(f"unshare {option} is not allowed here")
        return self.shell(line, "unshare", option)

    def test_few_descriptors_are_enough_for_few_ranks(self):
        result = self.shell('ulimit -n 64; "$0" run -q -n 4 "$1"')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 4)

    def test_too_few_descriptors_are_named_with_the_cure(self):
        for limit, ranks in (64, 40), (16, 8), (8, 2), (5, 2):
            result = self.shell(f'ulimit -n {limit}; "$0" run -q -n {ranks} sleep 100')
            self.assertEqual(result.returncode, 1)
            self.assertIn("no descriptor left", result.stderr)
            self.assertIn("ulimit -n", result.stderr)
            self.assertNotIn("did not stop", result.stderr)

    def test_a_host_without_ipv4(self):
        result = self.isolated("-n",
                               'ip link set lo up && ip addr del 127.0.0.1/8 dev lo || exit 77;'
                               ' export TUTTI_TRANSPORT=tcp; "$0" run -q -n 2 "$1"')
        if result.returncode == 77:
            self.skipTest("lo cannot be changed here")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 2)

    def test_a_host_without_proc(self):
        hide = "mount -t tmpfs none /proc || exit 77; "
        result = self.isolated("-m", hide + '"$0" run -q -n 2 "$1"')
        if result.returncode == 77:
            self.skipTest("/proc cannot be hidden here")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 2)
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "script")
            script.write_text("cd $(dirname $0)\n"
                              "if [ $TUTTI_RANK = 0 ]; then\n"
                              "  while [ ! -e ready ]; do sleep 0.05; done; exit 3\nfi\n"
                              "trap : TERM; echo pid $$; touch ready; sleep 1000; sleep 1000\n")
            result = self.isolated("-m", hide + f'"$0" run -q -n 2 sh {script}')
        self.assertEqual(result.returncode, 3, result.stderr)
        pid = int(re.search(r"pid (\d+)", result.stdout).group(1))
        self.assertFalse(is_alive(pid))
        self.assertRegex(self.isolated("-m", hide + '"$0" doctor').stdout, "warn +/proc ")


class CommandLine(unittest.TestCase):
    def test_familiar_spellings(self):
        for spelling in (["-np", "2"], ["-n2"], ["--np=2"], ["--nproc-per-node", "2"],
                         ["--nproc_per_node=2"], ["-H", "localhost:2"]):
            self.assertEqual(len(run(*spelling, "echo").stdout.splitlines()), 2, spelling)

    def test_mistyped_option_gets_a_suggestion(self):
        result = run("--hostfil", "x", "true")
        self.assertEqual(result.returncode, 2)
        self.assertIn("did you mean '--hostfile'?", result.stderr)

    def test_mistyped_command_gets_a_suggestion(self):
        result = tutti("rnu")
        self.assertEqual(result.returncode, 2)
        self.assertIn("did you mean 'run'?", result.stderr)

    def test_options_of_the_program_are_passed_to_it(self):
        self.assertEqual(run("-n", "1", "echo", "-n2", "--help").stdout, "[0] -n2 --help\n")

    def test_every_command_has_help_and_a_page(self):
        names = re.findall(r"^  (\w+)", tutti("--help").stdout, re.M)
        self.assertIn("run", names)
        for name in names:
            self.assertIn(f"usage: tutti {name}", tutti(name, "--help").stdout)
            page = tutti("man", name).stdout
            for section in "DESCRIPTION", "ENVIRONMENT", "EXIT STATUS", "EXAMPLES", "SEE ALSO":
                self.assertRegex(page, rf"(?m)^\.SH {section}\n(?!\.SH)", name)
        self.assertGreater(len(re.findall(r"^\.B TUTTI_", tutti("man", "config").stdout, re.M)), 40)

    def test_every_example_of_a_page_parses(self):
        names = re.findall(r"^  (\w+)", tutti("--help").stdout, re.M)
        for name in names:
            lines = re.findall(r"^\.nf\n(.*)\n", tutti("man", name).stdout, re.M)
            self.assertTrue(lines, name)
            for line in lines:
                words = line.replace("\\-", "-")
                found = re.search(r"tutti (?:run [^|]*)?(?=%s)" % name, words)
                options = re.findall(r"(?:^| )(--?[a-z][a-z-]*)", words.split("tutti ")[-1])
                self.assertTrue(found, words)
                known = "".join(tutti(each, "--help").stdout for each in names)
                for option in options:
                    self.assertRegex(known + " -l", rf"(?m)[ ,]{option}\b", words)

    def test_bash_completes_options(self):
        script = tutti("completion", "bash").stdout
        script += 'COMP_WORDS=(tutti run --hostf); COMP_CWORD=2; _tutti; echo "${COMPREPLY[@]}"'
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        self.assertEqual(result.stdout.strip(), "--hostfile")

    def test_doctor_finds_a_misspelt_variable(self):
        result = tutti("doctor", "--json", env={**os.environ, "TUTTI_TRANPSORT": "shm"})
        self.assertIn("did you mean TUTTI_TRANSPORT?", result.stdout)

    def test_env_shows_which_launcher_decides(self):
        clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        alone = json.loads(tutti("env", "--json", env=clean).stdout)
        self.assertEqual((alone["launcher"], alone["rank"], alone["size"]), ("none", 0, 1))
        both = {**clean, "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "RANK": "0", "WORLD_SIZE": "2",
                "MASTER_ADDR": "h", "MASTER_PORT": "5",
                "TUTTI_RENDEZVOUS": "tcp://127.0.0.1:7777"}
        shown = json.loads(tutti("env", "--json", env=both).stdout)
        self.assertEqual((shown["launcher"], shown["rank"], shown["size"]), ("openmpi", 1, 4))
        self.assertEqual(shown["ignored"], ["plain"])
        broken = tutti("env", "--json", env={**clean, "RANK": "1"})
        self.assertEqual(broken.returncode, 1)
        self.assertIn("WORLD_SIZE", json.loads(broken.stdout)["error"])
        self.assertIn("torchrun", tutti("env", "--list", env=clean).stdout)

    def test_threads_of_the_ranks_are_set_and_reported(self):
        clean = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        result = tutti("run", "--no-prefix", "-n", "2", "sh", "-c", "echo $OMP_NUM_THREADS",
                       env=clean)
        self.assertIn("OMP_NUM_THREADS=", result.stderr)
        self.assertTrue(all(int(line) >= 1 for line in result.stdout.split()))
        given = tutti("run", "--no-prefix", "-n", "2", "sh", "-c", "echo $OMP_NUM_THREADS",
                      env={**clean, "OMP_NUM_THREADS": "7"})
        self.assertEqual(given.stdout.split(), ["7", "7"])


if __name__ == "__main__":
    unittest.main()
