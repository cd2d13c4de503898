# SPDX-License-Identifier: Apache-2.0
"""Collectives by real MPIs: `mpirun -n 4 prog` with TUTTI_ENGINE=mpi and nothing else set.

Each test runs under Open MPI and under MPICH, where they and their plugins exist. Conformance
and the faults that all engines share are in engines_test.py.
Labels: check plugin
Timeout: 600
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import ranks

BUILD = pathlib.Path(os.environ.get("TEST_BUILD", "build")).resolve()
SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", ".")).resolve()
ENGINE = str(ranks.BIN / "tutti-conformance")
TUTTI = str(ranks.BIN / "tutti")
ROOT = ["--allow-run-as-root"] if os.geteuid() == 0 else []
MPIS = {"openmpi": ["mpirun.openmpi", *ROOT, "--oversubscribe"], "mpich": ["mpirun.mpich"]}

# A program with MPI calls of its own; the test fills in the calls before tutti_init.
PROGRAM = """
#include <mpi.h>
#include <stdio.h>
#include "tutti/tutti.h"
int main(void)
{
    tutti_context *context = NULL;
    float one = 1.0f, theirs = 1.0f, all = 0.0f;
    int level = 0, is_over = 0;
    (void)level;
    %s
    const tutti_status status = tutti_init(NULL, &context);
    if (status != TUTTI_OK) {
        printf("refused %%d %%s\\n", (int)status, tutti_last_error(NULL));
        return 0;
    }
    tutti_allreduce(context, &one, &one, 1, TUTTI_F32, TUTTI_SUM);
    MPI_Allreduce(&theirs, &all, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    printf("sums %%g %%g\\n", one, all);
    tutti_shutdown(context);
    MPI_Finalized(&is_over);
    if (!is_over) {
        MPI_Finalize();
    }
    return 0;
}
"""

# Rank 2 dies while MPI runs the call; its buffers must be neither reused nor unmapped.
PINNED = """
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "tutti/tutti.h"
enum { COUNT = 1 << 22 };
int main(void)
{
    tutti_context *context = NULL;
    tutti_handle *handle = NULL;
    tutti_counters counters = TUTTI_COUNTERS_INIT;
    tutti_call call = TUTTI_CALL_INIT;
    if (tutti_init(NULL, &context) != TUTTI_OK) {
        printf("%s\\n", tutti_last_error(NULL));
        return 1;
    }
    volatile char *given = tutti_alloc(context, COUNT * sizeof(float));
    call.input = call.output = (void *)given;
    call.count = COUNT;
    call.dtype = TUTTI_F32;
    if (tutti_start(context, &call, &handle) != TUTTI_OK) {
        return 1;
    }
    while (tutti_rank(context) == 2) {
        tutti_count(context, TUTTI_WORLD, &counters);
        if (counters.launched > 0) {
            raise(SIGKILL);
        }
    }
    printf("sum %d\\n", (int)tutti_wait(handle, -1.0));
    tutti_handle_free(handle);
    tutti_free(context, (void *)given);
    const int is_used_again = tutti_alloc(context, COUNT * sizeof(float)) == (void *)given;
    tutti_count(context, TUTTI_WORLD, &counters);
    printf("launched %d, used again %d\\n", (int)counters.launched, is_used_again);
    const int status = (int)tutti_shutdown(context);
    for (size_t i = 0; i < COUNT * sizeof(float); i += 4096) {
        given[i] = 1;
    }
    printf("shutdown %d, pinned\\n", status);
    return 0;
}
"""


# MPI's two functions for a sum, counted: the plugin's calls resolve to these, as the program is
# first in symbol lookup.
COUNTED = """
#include <mpi.h>
#include <stdio.h>
#include "tutti/tutti.h"
enum { COUNT = 1000, CALLS = 50 };
static int blocking, started;
int MPI_Allreduce(const void *input, void *output, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    blocking++;
    return PMPI_Allreduce(input, output, count, type, op, comm);
}
int MPI_Iallreduce(const void *input, void *output, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    started++;
    return PMPI_Iallreduce(input, output, count, type, op, comm, request);
}
int main(void)
{
    static float data[COUNT];
    tutti_context *context = NULL;
    if (tutti_init(NULL, &context) != TUTTI_OK) {
        printf("%s\\n", tutti_last_error(NULL));
        return 1;
    }
    blocking = started = 0; /* drops the engine's own calls while it opened */
    for (int i = 0; i < CALLS; i++) {
        if (tutti_allreduce(context, data, data, COUNT, TUTTI_F32, TUTTI_SUM) != TUTTI_OK) {
            return 1;
        }
    }
    printf("called %d %d\\n", blocking, started);
    tutti_shutdown(context);
    return 0;
}
"""


class Mpi(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory(prefix="tutti-home-")
        self.addCleanup(self.home.cleanup)
        self.environment = {**ranks.clean_environment(), "HOME": self.home.name,
                            "TUTTI_ENGINE": "mpi"}
        self.mpis = [name for name, words in MPIS.items() if shutil.which(words[0])
                     and (BUILD / "plugins" / f"tutti-mpi-{name}.so").exists()]
        if not self.mpis:
            self.skipTest("no MPI here: install libopenmpi-dev or libmpich-dev, and build again")

    def mpirun(self, mpi, count, *words, **variables):
        return subprocess.run([*MPIS[mpi], "-n", str(count), *words],
                              env={**self.environment, **variables}, capture_output=True,
                              text=True, timeout=120, check=False)

    def assert_ok(self, ended, size, mpi):
        self.assertEqual(ended.returncode, 0, ended)
        for rank in range(size):
            self.assertIn(f"rank {rank} of {size}: ok", ended.stdout)
        self.assertEqual(ended.stdout.count(f"engine mpi-{mpi}: "), size, ended)

    def test_every_collective_conforms_with_four(self):
        for mpi in self.mpis:
            self.assert_ok(self.mpirun(mpi, 4, ENGINE), 4, mpi)

    def test_one_rank(self):
        for mpi in self.mpis:
            self.assert_ok(self.mpirun(mpi, 1, ENGINE), 1, mpi)

    def test_over_tcp(self):
        for mpi in self.mpis:
            self.assert_ok(self.mpirun(mpi, 2, ENGINE, TUTTI_TRANSPORT="tcp"), 2, mpi)

    def test_over_ucx(self):
        """MPI does the collectives, UCX carries the control messages."""
        if not (BUILD / "plugins" / "tutti-ucx.so").exists():
            self.skipTest("the ucx plugin is not built: install libucx-dev, and build again")
        for mpi in self.mpis:
            ended = self.mpirun(mpi, 2, ENGINE, "together", "sets", "named", "mismatch",
                                TUTTI_TRANSPORT="ucx")
            self.assert_ok(ended, 2, mpi)
            self.assertEqual(ended.stdout.count("memory of this host is not shared"), 2, ended)

    def test_the_bench_measures_an_engine(self):
        for mpi in self.mpis:
            ended = subprocess.run(
                [TUTTI, "bench", "allreduce", "--engine", f"mpi-{mpi}", "-n", "2", "-b", "4",
                 "-e", "64K", "-f", "128", "-i", "3", "-w", "1"],
                env={**self.environment, "TUTTI_ENGINE": ""}, capture_output=True, text=True,
                timeout=60, check=False)
            self.assertEqual(ended.returncode, 0, ended)
            rows = [line.split() for line in ended.stdout.splitlines() if line[:1] not in ("#", "")]
            self.assertEqual([row[0] for row in rows], ["4", "512", "65536"], ended)
            self.assertEqual({row[-1] for row in rows}, {"0"}, ended)

    def test_mpi_carries_address_and_secret(self):
        """No variable of ours is set, there is no home, and hosts share no memory: MPI to join."""
        apart = ["sh", "-c", 'export TUTTI_HOSTID=$$; exec "$0" "$@"']
        for mpi in self.mpis:
            ended = self.mpirun(mpi, 3, *apart, ENGINE, "together", TUTTI_RENDEZVOUS="mpi",
                                HOME="/nonexistent", XDG_CONFIG_HOME="")
            self.assert_ok(ended, 3, mpi)
            self.assertIn("joined by engine", ended.stdout)

    def test_mpi_to_join_our_transports_to_move(self):
        for mpi in self.mpis:
            ended = self.mpirun(mpi, 3, ENGINE, "together", TUTTI_RENDEZVOUS="mpi",
                                TUTTI_ENGINE="")
            self.assert_ok(ended, 3, mpi)

    def test_control_messages_over_mpi(self):
        for mpi in self.mpis:
            ended = self.mpirun(mpi, 3, ENGINE, TUTTI_CONTROL_TRANSPORT="mpi")
            self.assert_ok(ended, 3, mpi)
            ended = self.mpirun(mpi, 3, ranks.WORKER, "init", "steps:20:mixed:300000", "shutdown",
                                TUTTI_CONTROL_TRANSPORT="mpi")
            self.assertEqual(ended.stdout.count("shutdown 0"), 3, ended)

    def test_control_messages_over_mpi_need_the_engine(self):
        """Refused at once: a rank that waited for the others would wait for the join timeout."""
        for mpi in self.mpis:
            ended = self.mpirun(mpi, 2, ranks.WORKER, "init", TUTTI_CONTROL_TRANSPORT="mpi",
                                TUTTI_ENGINE="", TUTTI_START_TIMEOUT="100")
            self.assertIn("TUTTI_CONTROL_TRANSPORT=mpi needs TUTTI_ENGINE=mpi", ended.stdout)

    def test_waiting_over_mpi_uses_a_twentieth_of_a_core_at_most(self):
        """Rank 1 calls two seconds late: rank 0, which waits, polls ever less often. Other
        processes make each poll slower, never faster: the best of a few tries counts."""
        for mpi in self.mpis:
            for _ in range(4):
                ended = self.mpirun(mpi, 2, ranks.WORKER, "init", "steps:3:mixed:1000",
                                    "sleep:300", "cpu", "on:1", "sleep:2000",
                                    "steps:1:barrier:1", "cpu", "shutdown",
                                    TUTTI_CONTROL_TRANSPORT="mpi")
                used = [float(text) for text in re.findall(r"cpu (\d+\.\d+)", ended.stdout)]
                self.assertEqual(len(used), 4, ended)  # the first two are those before the wait
                if max(used[2:]) < 0.05 * 2.0:
                    break
            self.assertLess(max(used[2:]), 0.05 * 2.0, ended)

    def test_pmix_to_join(self):
        """Open MPI's mpirun is a PMIx launcher; without its own variables only PMIx is left."""
        if "openmpi" not in self.mpis or not (BUILD / "plugins" / "tutti-pmix.so").exists():
            self.skipTest("Open MPI or the pmix plugin is not there (libpmix-dev)")
        nowhere = {"TUTTI_ENGINE": "", "HOME": "/nonexistent", "XDG_CONFIG_HOME": ""}
        bare = ["env", "-u", "OMPI_COMM_WORLD_RANK", "-u", "OMPI_COMM_WORLD_SIZE"]
        for words, more in (([], {"TUTTI_RENDEZVOUS": "pmix"}), (bare, {})):
            ended = self.mpirun("openmpi", 3, *words, ranks.WORKER, "init", "describe",
                                "steps:9:mixed:2000", "shutdown", **nowhere, **more)
            self.assertEqual(ended.returncode, 0, ended)
            self.assertEqual(ended.stdout.count("shutdown 0"), 3, ended)
            self.assertEqual(ended.stdout.count("joined by engine (pmix)"), 3, ended)

    def test_a_blocking_call_uses_mpi_s_blocking_function(self):
        """But not where a rank may die and the others live on: they would wait for ever."""
        for mpi in self.mpis:
            program = self.compile(mpi, COUNTED)
            for recovery in ({}, {"HYDRA_AUTO_CLEANUP": "0", "OMPI_MCA_orte_enable_recovery": "1"}):
                ended = self.mpirun(mpi, 2, program, **recovery)
                self.assertEqual(ended.returncode, 0, ended)
                called = re.findall(r"called (\d+) (\d+)", ended.stdout)
                self.assertEqual(len(called), 2, ended)
                for blocking, started in called:
                    self.assertEqual(int(blocking) + int(started), 50, ended)
                    if recovery:
                        self.assertEqual(int(blocking), 0, ended)
                    elif len(os.sched_getaffinity(0)) > 1:
                        self.assertGreaterEqual(int(blocking), 25, ended)

    def test_ranks_without_a_core_each_do_not_wait_inside_mpich(self):
        """It does not yield: a rank that waits in its blocking function keeps the others off the
        core."""
        if "mpich" not in self.mpis:
            self.skipTest("MPICH is not installed")
        core = str(min(os.sched_getaffinity(0)))
        ended = subprocess.run(
            ["taskset", "-c", core, *MPIS["mpich"], "-n", "2", self.compile("mpich", COUNTED)],
            env=self.environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(ended.returncode, 0, ended)
        self.assertEqual(ended.stdout.count("called 0 50"), 2, ended)

    # ---- refusals ----

    def build(self, mpi, prologue):
        return self.compile(mpi, PROGRAM % prologue)

    def compile(self, mpi, text):
        folder = pathlib.Path(self.home.name)
        (folder / "own.c").write_text(text)
        wrapper = shutil.which(f"mpicc.{mpi}")
        if wrapper is None:
            self.skipTest(f"mpicc.{mpi} is not installed (package lib{mpi}-dev)")
        subprocess.run([wrapper, folder / "own.c", "-o", folder / "own", f"-I{SOURCE}/include",
                        f"-L{BUILD}", "-ltutti", f"-Wl,-rpath,{BUILD}", "-rdynamic"],
                       check=True)
        return str(folder / "own")

    def test_a_program_with_mpi_calls_of_its_own(self):
        init = "MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);"
        for mpi in self.mpis:
            ended = self.mpirun(mpi, 3, self.build(mpi, init))
            self.assertEqual(ended.stdout.count("sums 3 3"), 3, ended)
            self.assertEqual(ended.returncode, 0, ended)

    def test_too_low_a_thread_level_is_refused(self):
        for mpi in self.mpis:
            for init in ("MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);",
                         "MPI_Init(NULL, NULL);"):
                ended = self.mpirun(mpi, 2, self.build(mpi, init))
                # The first that ends may take the others with it: MPI was not finalised.
                self.assertIn("refused -13", ended.stdout)
                self.assertIn("MPI_THREAD_SERIALIZED", ended.stdout)

    def test_the_plugin_of_another_mpi_is_refused(self):
        """Its calls would go to the program's MPI, with handles of the other kind."""
        if len(self.mpis) < 2:
            self.skipTest("one MPI is not installed")
        for mpi, other, said in (("mpich", "openmpi", r"has MPICH.* is for Open MPI"),
                                 ("openmpi", "mpich", r"has Open MPI v\d.* is for MPICH")):
            program = self.build(mpi, "")
            ended = self.mpirun(mpi, 2, program, TUTTI_ENGINE=f"mpi-{other}")
            self.assertRegex(ended.stdout, f"refused -.*{said}.*TUTTI_ENGINE=mpi,", ended)

    def test_a_program_s_mpi_is_never_replaced_by_another(self):
        """Without a launcher, and without the plugin of the MPI that the program has."""
        if len(self.mpis) < 2:
            self.skipTest("one MPI is not installed")
        folder = pathlib.Path(self.home.name)
        program = self.build("mpich", "")
        shutil.copy(BUILD / "plugins" / "tutti-mpi-openmpi.so", folder)
        for library in BUILD.glob("libtutti.so*"):  # away from the folder of all plugins
            shutil.copy(library, folder, follow_symlinks=False)
        ended = subprocess.run(
            [program], text=True, capture_output=True, timeout=60, check=False,
            env={**self.environment, "TUTTI_PLUGIN_PATH": str(folder),
                 "LD_LIBRARY_PATH": str(folder)})
        self.assertRegex(ended.stdout, "refused -.*no plugin tutti-mpi-mpich.so", ended)

    def test_a_finalized_mpi_is_refused(self):
        for mpi in self.mpis:
            ended = self.mpirun(mpi, 2, self.build(mpi, "MPI_Init(NULL, NULL); MPI_Finalize();"))
            self.assertEqual(ended.stdout.count("already finalised"), 2, ended)

    def test_another_launcher_is_refused(self):
        ended = subprocess.run([TUTTI, "run", "-n", "2", ENGINE], env=self.environment, text=True,
                               capture_output=True, timeout=60, check=False)
        self.assertNotEqual(ended.returncode, 0, ended)
        self.assertIn("start the job with mpirun", ended.stdout + ended.stderr)

    def test_half_the_ranks_without_the_engine_are_refused_by_name(self):
        """Where ranks can join before MPI starts."""
        if "openmpi" not in self.mpis:
            self.skipTest("Open MPI is not installed")
        half = ["sh", "-c", '[ "$OMPI_COMM_WORLD_RANK" -lt 2 ] || unset TUTTI_ENGINE; exec "$0"']
        ended = self.mpirun("openmpi", 4, *half, ENGINE)
        self.assertNotEqual(ended.returncode, 0, ended)
        self.assertRegex(ended.stderr,
                         r"rank 0 uses engine openmpi, rank [23] on \S+ uses no engine")

    def test_half_the_ranks_without_the_engine_are_refused_under_hydra(self):
        """MPICH's MPI_Init would wait for them: the launcher's store shows it before MPI starts."""
        if "mpich" not in self.mpis:
            self.skipTest("MPICH is not installed")
        for engine, root, other in (("$PMI_RANK -ge 2", "no engine", "engine mpich"),
                                    ("$PMI_RANK -lt 2", "engine mpich", "no engine")):
            half = ["sh", "-c", f'[ {engine} ] || unset TUTTI_ENGINE; exec "$0"']
            for _ in range(5):
                ended = self.mpirun("mpich", 4, *half, ENGINE)
                self.assertNotEqual(ended.returncode, 0, ended)
                if "process manager error" not in ended.stderr:
                    break  # else mpiexec failed with the ranks that ended, and lost their output
            self.assertRegex(ended.stdout + ended.stderr,
                             rf"rank 0 uses {root}, rank [123] on \S+ uses {other}")

    def test_a_missing_plugin_names_the_package(self):
        for mpi, package in (("openmpi", "libopenmpi3"), ("mpich", "libmpich12")):
            alone = shutil.copy(ENGINE, self.home.name)
            ended = subprocess.run([alone], capture_output=True, text=True, timeout=60, check=False,
                                   env={**self.environment, "TUTTI_ENGINE": f"mpi-{mpi}"})
            self.assertNotEqual(ended.returncode, 0, ended)
            self.assertIn(package, ended.stderr)
            self.assertIn("tutti plugin build mpi", ended.stderr)

    # ---- ranks that die ----

    VERBS = ["init", "steps:3:mixed:1000", "on:2", "die:kill", "storm:allreduce:1000", "shutdown"]

    def test_a_killed_rank_ends_the_job_and_is_named(self):
        """mpirun may end the others before they print a line: then once more. Now and then MPICH's
        loses the dead rank's status and ends with 0: our line remains."""
        for mpi in self.mpis:
            for _ in range(10):
                ended = self.mpirun(mpi, 3, ranks.WORKER, *self.VERBS)
                if mpi != "mpich":
                    self.assertNotEqual(ended.returncode, 0, ended)
                if "rank 2 is down" in ended.stdout + ended.stderr:
                    break
            self.assertIn("rank 2 is down", ended.stdout + ended.stderr)

    def test_with_recovery_calls_return_the_error(self):
        if "openmpi" not in self.mpis:
            self.skipTest("Open MPI is not installed")
        ended = self.mpirun("openmpi", 3, ranks.WORKER, *self.VERBS,
                            OMPI_MCA_orte_enable_recovery="1")
        self.assertEqual(ended.stdout.count('rank 2 is down'), 2, ended)

    def test_with_recovery_memory_that_mpi_uses_stays_mapped(self):
        """The rank dies while all are inside a call; MPI continues to write whatever we do."""
        if "openmpi" not in self.mpis:
            self.skipTest("Open MPI is not installed")
        program = self.compile("openmpi", PINNED)
        for transport in ("shm", "tcp"):
            for _ in range(5):
                ended = self.mpirun("openmpi", 3, program, OMPI_MCA_orte_enable_recovery="1",
                                    TUTTI_TRANSPORT=transport)
                self.assertEqual(ended.stdout.count("sum -6"), 2, ended)
                self.assertEqual(ended.stdout.count("shutdown 0, pinned"), 2, ended)
                self.assertNotIn("launched 1, used again 1", ended.stdout)
                if "launched 1" in ended.stdout:
                    break  # else the rank was dead before its frames reached the others
            self.assertIn("launched 1, used again 0", ended.stdout)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    nothing = program.result.wasSuccessful() and program.result.testsRun == len(
        program.result.skipped)
    sys.exit(77 if nothing else not program.result.wasSuccessful())
