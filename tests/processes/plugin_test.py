# SPDX-License-Identifier: Apache-2.0
"""Plugins as outsiders write them: the example conforms; wrong files are refused with their fault.

Labels: check plugin
Timeout: 400
"""
import os
import pathlib
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

# Sums of 1000 never end. At the end of the process it prints when it was last polled for them.
STUCK = r"""
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "tutti/plugin.h"

struct tutti_engine {
    long long asked_ns;
};
static tutti_engine only;

static int open_it(const tutti_plugin_host *host, tutti_engine **engine_out, char *why)
{
    (void)host, (void)why;
    *engine_out = &only;
    return TUTTI_OK;
}

static void close_it(tutti_engine *engine)
{
    (void)engine;
}

static void describe(const tutti_engine *engine, char *text)
{
    (void)engine;
    text[0] = 0;
}

static int supports(const tutti_engine *engine, const tutti_engine_op *op)
{
    (void)engine;
    return op->collective == TUTTI_ALLREDUCE && op->count == 1000 && op->set == 0;
}

static int launch(tutti_engine *engine, const tutti_engine_op *op, uint64_t token)
{
    (void)engine, (void)op, (void)token;
    (void)!write(1, "launched\n", 9);
    return TUTTI_IN_PROGRESS;
}

static int test(tutti_engine *engine, uint64_t *tokens, int *statuses, int capacity)
{
    struct timespec now;
    (void)tokens, (void)statuses, (void)capacity;
    clock_gettime(CLOCK_MONOTONIC, &now);
    engine->asked_ns = now.tv_sec * 1000000000LL + now.tv_nsec;
    return 0;
}

__attribute__((destructor)) static void tell(void)
{
    char line[64];
    const int bytes = snprintf(line, sizeof(line), "asked %lld\n", only.asked_ns);
    (void)!write(1, line, (size_t)bytes);
}

static const tutti_engine_ops ops = {
    .struct_bytes = sizeof(ops), .thread_level = TUTTI_THREAD_SERIALIZED, .open = open_it,
    .close = close_it, .describe = describe, .supports = supports, .launch = launch, .test = test};

TUTTI_PLUGIN_DEFINE = {.abi = TUTTI_PLUGIN_ABI, .struct_bytes = sizeof(tutti_plugin),
                       .name = "stuck", .tag = {'s'}, .engine = &ops};
"""


class Plugins(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="tutti-plugin-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.environment = {**ranks.clean_environment(), "HOME": str(self.folder),
                            "TUTTI_PLUGIN_PATH": str(self.folder),
                            "ZMQ_ENGINE_ADDRESS": f"ipc://{self.folder}/sums"}

    def run_words(self, *words, **variables):
        return subprocess.run(words, env={**self.environment, **variables}, capture_output=True,
                              text=True, timeout=120, check=False)

    def compile(self, name, text, *more):
        source = self.folder / f"{name}.c"
        source.write_text(text)
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-shared", "-fPIC",
                        f"-I{SOURCE}/include", source, *more, "-o",
                        self.folder / f"tutti-{name}.so"], check=True)

    def refused(self, name, pattern):
        ended = self.run_words(ENGINE, TUTTI_ENGINE=name)
        self.assertNotEqual(ended.returncode, 0, ended)
        self.assertRegex(ended.stderr, pattern)

    def test_the_example_conforms(self):
        if not (BUILD / "plugins" / "tutti-zmq.so").exists():
            self.skipTest("the example is not built: install libzmq3-dev, and build again")
        for size in (1, 2, 4):
            ended = self.run_words(TUTTI, "run", "-n", str(size), ENGINE, TUTTI_ENGINE="zmq")
            self.assertEqual(ended.returncode, 0, ended)
            self.assertEqual(ended.stdout.count(": ok"), size, ended)
            self.assertIn("engine zmq: ZeroMQ", ended.stdout)

    def test_another_version_is_refused(self):
        self.compile("old", '#include "tutti/plugin.h"\n'
                     'TUTTI_PLUGIN_DEFINE = {.abi = 99, .name = "old"};\n')
        self.refused("old", "plugin version 99")

    def compile_engine(self, name, members):
        """A plugin whose table has these members and no others."""
        self.compile(name, '#include "tutti/plugin.h"\nstatic const tutti_engine_ops ops = {'
                     f'{members}}};\nTUTTI_PLUGIN_DEFINE = {{.abi = TUTTI_PLUGIN_ABI, '
                     f'.struct_bytes = sizeof(tutti_plugin), .name = "{name}", .engine = &ops}};\n')

    def test_an_engine_that_needs_one_thread_is_refused(self):
        for level in ("", ".thread_level = TUTTI_THREAD_PINNED"):
            self.compile_engine("pinned", f".struct_bytes = sizeof(ops), {level}")
            self.refused("pinned", "one thread of its own.*does not provide.*SERIALIZED or more")

    def test_incomplete_tables_are_refused(self):
        """Size, flags and functions are checked before one of them is called."""
        threads = ".thread_level = TUTTI_THREAD_SERIALIZED"
        for members, pattern in (
                (f".struct_bytes = sizeof(ops), {threads}",
                 "lacks required functions: open, close, describe, supports, launch, test$"),
                (f".struct_bytes = sizeof(ops) - 8, {threads}",
                 r"the engine has \d+ bytes.*rebuild it"),
                (f".struct_bytes = sizeof(ops), .flags = 64, {threads}", "flags 0x40")):
            self.compile_engine("hollow", members)
            self.refused("hollow", f"(?m){pattern}")
        said = self.run_words(TUTTI, "info", "--engines")
        self.assertEqual(said.returncode, 0, said)
        self.assertIn("flags 0x40", said.stdout)

    def test_an_engine_that_joins_must_know_ranks(self):
        functions = "open close describe supports launch test"
        self.compile_engine("joins", ".struct_bytes = sizeof(ops), .thread_level = 1, .flags = "
                            "TUTTI_ENGINE_BOOTSTRAPS, " + ", ".join(
                                f".{name} = (void *)sizeof(ops)" for name in functions.split()))
        self.refused("joins", "(?m)lacks required functions: world, broadcast$")

    def test_a_transport_without_functions_is_refused(self):
        self.compile("moves", '#include "tutti/plugin.h"\nstatic const tutti_transport_ops ops = '
                     '{.struct_bytes = sizeof(ops)};\nTUTTI_PLUGIN_DEFINE = {.abi = '
                     'TUTTI_PLUGIN_ABI, .struct_bytes = sizeof(tutti_plugin), .name = "moves", '
                     '.transport = &ops};\n')
        ended = self.run_words(ENGINE, TUTTI_TRANSPORT="moves")
        self.assertNotEqual(ended.returncode, 0, ended)
        self.assertRegex(ended.stderr, "the transport lacks required functions: open, close, ")

    def test_a_library_that_is_no_plugin_is_refused(self):
        self.compile("none", "int nothing(void);\nint nothing(void) { return 0; }\n")
        self.refused("none", "no symbol tutti_plugin_1")

    def test_another_name_is_refused(self):
        self.compile("mine", '#include "tutti/plugin.h"\nTUTTI_PLUGIN_DEFINE = {'
                     '.abi = TUTTI_PLUGIN_ABI, .struct_bytes = sizeof(tutti_plugin), '
                     '.name = "yours"};\n')
        self.refused("mine", "declares the name 'yours'")

    def test_a_missing_symbol_is_named(self):
        self.compile("holes", '#include "tutti/plugin.h"\nint absent(void);\n'
                     'int use(void);\nint use(void) { return absent(); }\n'
                     'TUTTI_PLUGIN_DEFINE = {.abi = TUTTI_PLUGIN_ABI, .name = "holes"};\n')
        self.refused("holes", "undefined symbol: absent")

    def test_a_missing_library_names_its_package(self):
        """The plugin exists, the library that it needs does not."""
        below = self.folder / "libbelow.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", below], check=True)
        self.compile("ucx", "int nothing(void);\nint nothing(void) { return 0; }\n",
                     "-Wl,--no-as-needed", below)
        below.unlink()
        ended = self.run_words(ENGINE, TUTTI_TRANSPORT="ucx")
        self.assertNotEqual(ended.returncode, 0, ended)
        self.assertRegex(ended.stderr, r"cannot open shared object file.*; install .*libucx0")
        said = self.run_words(TUTTI, "info", "--engines").stdout
        self.assertRegex(said, r"cannot be used +.*tutti-ucx\.so: .*cannot open shared object file")

    def test_after_a_death_the_engine_is_not_polled_for_freed_buffers(self):
        self.compile("stuck", STUCK, "-D_GNU_SOURCE")
        with ranks.Ranks(2, ["init", "try:allreduce:1000", "sleep:300", "shutdown"],
                         {"TUTTI_ENGINE": "stuck", "TUTTI_PLUGIN_PATH": str(self.folder)}) as job:
            job.expect("^launched$")
            ranks.kill(job[1].pid)
            returned = job[0].expect(r"^failed -6 (\d+) \d+ rank 1 is down")
            asked = job[0].expect(r"^asked (\d+)$")
            self.assertLess(int(asked[1]), int(returned[1]), job[0].story())

    def test_the_example_stays_short(self):
        text = (SOURCE / "plugins" / "example" / "zmq_engine.c").read_text()
        self.assertLess(len(text.splitlines()), 200)

    def test_an_engine_is_refused_as_a_transport(self):
        if not (BUILD / "plugins" / "tutti-zmq.so").exists():
            self.skipTest("the example is not built: install libzmq3-dev, and build again")
        ended = self.run_words(ENGINE, TUTTI_TRANSPORT="zmq")
        self.assertNotEqual(ended.returncode, 0, ended)
        self.assertIn("use TUTTI_ENGINE=zmq", ended.stderr)

    def test_info_shows_what_a_job_would_use_and_why(self):
        def said(**variables):
            return self.run_words(TUTTI, "info", "--engines", **variables).stdout
        self.assertRegex(said(), "engine +none: TUTTI_ENGINE is not set")
        self.assertRegex(said(TUTTI_ENGINE="absent"),
                         "engine +none, a job would be refused: .*there is no plugin tutti-absent")
        self.assertRegex(said(TUTTI_TRANSPORT="absent"), "transport +none, a job would be refused")
        self.assertRegex(said(TUTTI_TRANSPORT="tcp"), "transport +tcp: TUTTI_TRANSPORT=tcp")
        if (BUILD / "plugins" / "tutti-zmq.so").exists():
            self.assertRegex(said(TUTTI_ENGINE="zmq"), "engine +zmq: TUTTI_ENGINE=zmq")
            self.assertRegex(said(), r"zmq +engine: .*; ZeroMQ \d+\.\d+; .*tutti-zmq\.so")
        if (BUILD / "plugins" / "tutti-mpi-mpich.so").exists():
            self.assertRegex(said(TUTTI_ENGINE="mpi", PMI_RANK="0"), "engine +mpi-mpich: .*PMI")

    def test_invalid_names_are_refused(self):
        self.refused("../../etc/x", "is not a plugin name")
        self.refused("absent", "TUTTI_PLUGIN_PATH")

    def test_a_plugin_can_be_built_with_the_site_s_compiler(self):
        if shutil.which("mpicc") is None:
            self.skipTest("mpicc is not installed (package libopenmpi-dev)")
        ended = self.run_words(TUTTI, "plugin", "build", "mpi")
        self.assertEqual(ended.returncode, 0, ended)
        made = list(self.folder.glob(".local/share/tutti/plugins/tutti-mpi-*.so"))
        self.assertEqual(len(made), 1, ended)
        self.assertIn(str(made[0]), self.run_words(TUTTI, "info", "--engines").stdout)
        for mpi in ("openmpi", "mpich"):
            if shutil.which(f"mpicc.{mpi}"):
                ended = self.run_words(TUTTI, "plugin", "build", "mpi", "--compiler",
                                       f"mpicc.{mpi}")
                self.assertEqual(ended.returncode, 0, ended)
                self.assertTrue((made[0].parent / f"tutti-mpi-{mpi}.so").exists(), ended)
        ended = self.run_words(TUTTI, "plugin", "build", "mpi", "--compiler", "/bin/false")
        self.assertNotEqual(ended.returncode, 0, ended)
        self.assertIn("libopenmpi-dev", ended.stderr)

    def test_plugins_are_built_with_the_distribution_s_packages(self):
        for name, package in (("pmix", "libpmix-dev"), ("ucx", "libucx-dev")):
            with self.subTest(name):
                if subprocess.run(["pkg-config", "--exists", name], check=False).returncode != 0:
                    self.skipTest(f"{package} is not installed")
                ended = self.run_words(TUTTI, "plugin", "build", name)
                self.assertEqual(ended.returncode, 0, ended)
                self.assertTrue(
                    (self.folder / f".local/share/tutti/plugins/tutti-{name}.so").exists(), ended)
                self.assertNotIn("rpath", ended.stdout)


if __name__ == "__main__":
    unittest.main()
