#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: tidy finds each kind of breach that it checks for, and nothing in sound code.

Method: a small sound tree is written to a temporary folder; each test changes one file and expects
findings of exactly the named rules.
"""
import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(os.environ.get("TEST_SOURCE", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(ROOT / "tools"))
import tidy  # noqa: E402  (found through the line above)

SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
README = "# x\nPurpose   p\nRules     (1) r\nAdd one   a\nFiles     f\n"


def header(path, body=""):
    guard = "TUTTI_" + re.sub(r"\W", "_", path[len("src/"):]).upper()
    return (f"/* SPDX-License-Identifier: Apache-2.0\n *\n * Layer: x.\n * Threads: pure.\n */\n"
            f"#ifndef {guard}\n#define {guard}\n{body}\n#endif\n")


def sound_tree():
    files = {}
    for layer in ("base", "kernel", "platform", "transport", "codec", "aggregate", "schedule",
                  "api"):
        files[f"src/{layer}/README.md"] = README
        files[f"src/{layer}/{layer}.h"] = header(f"src/{layer}/{layer}.h")
    files["src/codec/registry.h"] = header("src/codec/registry.h")
    files["src/codec/good.c"] = SPDX + (
        '#include <string.h>\n\n#include "base/base.h"\n#include "codec/codec.h"\n\n'
        "typedef struct good { int a; } good;\n"
        "static const char *const names[] = {\"a\", \"b;{\"};\n"
        "static const int table[2][2] = {{1, 2}, {3, 4}};\n"
        "static int (*const hook)(int) = 0;\n"
        "const int tt_codec_good = 1;\n"
        "static int twice(int a)\n{\n    static const int two = 2;\n"
        "    /* malloc(1) in a comment, printf( too */\n    return a * two;\n}\n"
        "int tt_codec_run(good *g, int (*free)(int))\n{\n"
        "    return twice(g->a) + names[0][0] + table[0][0] + (hook ? 1 : 0) + (*free)(1);\n}\n")
    return files


class TidyTest(unittest.TestCase):
    compiles_headers = False  # slow, so only where a test needs it

    def findings(self, changes, allow=""):
        files = {**sound_tree(), **changes}
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            root = pathlib.Path(folder)
            for name, text in {**files, "tools/tidy-allow.txt": allow}.items():
                if text is not None:
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text(text)
            out = io.StringIO()
            if not self.compiles_headers:
                stack.enter_context(mock.patch.object(tidy, "compiles_alone", lambda *_: None))
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                status = tidy.main(["tidy", folder])
        rules = re.findall(r"^\S+:\d+: \[([\w-]+)\]", out.getvalue(), re.M)
        self.assertEqual(status, 1 if rules else 0, out.getvalue())
        return rules

    def expect(self, rules, path, text, allow=""):
        self.assertEqual(self.findings({path: text}, allow), rules, text)

    def expect_c(self, rules, path, body):
        self.expect(rules, path, SPDX + body)

    def test_sound_tree_has_no_finding(self):
        self.assertEqual(self.findings({}), [])

    def test_upward_include_is_found(self):
        self.expect_c(["include"], "src/codec/a.c", '#include "schedule/schedule.h"\n')
        self.expect_c(["include"], "src/platform/sim.c", '#include "transport/transport.h"\n')
        self.expect_c([], "src/platform/real_poll.c", '#include "transport/transport.h"\n')
        self.expect_c([], "src/aggregate/a.c", '#include "codec/codec.h"\n')

    def test_base_and_kernel_are_open_and_leaves(self):
        self.expect_c([], "src/codec/a.c", '#include "base/log.h"\n#include "kernel/dtype.h"\n')
        self.expect_c([], "src/kernel/a.c", '#include "base/log.h"\n#include "kernel/dtype.h"\n')
        self.expect_c(["include"], "src/base/a.c", '#include "kernel/dtype.h"\n')
        self.expect_c(["include"], "src/kernel/a.c", '#include "codec/codec.h"\n')

    def test_unknown_layer_is_found(self):
        found = self.findings({"src/magic/a.c": SPDX + '#include "codec/codec.h"\n',
                               "src/magic/README.md": README})
        self.assertEqual(found, ["include"])

    def test_private_header_is_found(self):
        self.expect_c(["include"], "src/aggregate/a.c", '#include "codec/topk.h"\n')
        self.expect_c(["include"], "src/aggregate/a.c", '#include "codec/registry.h"\n')
        self.expect_c([], "src/api/a.c", '#include "codec/registry.h"\n')
        self.expect_c([], "src/aggregate/a_test.c", '#include "codec/registry.h"\n')

    def test_a_folder_of_a_layer_is_of_that_layer(self):
        self.expect_c([], "src/aggregate/sub/a.c", '#include "aggregate/b.h"\n'
                      '#include "aggregate/other/c.h"\n#include "codec/codec.h"\n')
        self.expect_c(["include"], "src/aggregate/a.c", '#include "codec/sub/topk.h"\n')
        self.expect_c(["include"], "src/codec/sub/a.c", '#include "schedule/schedule.h"\n')
        self.expect_c(["pure"], "src/schedule/sub/a.c", "#include <time.h>\n")
        self.expect(["guard"], "src/codec/sub/a.h", header("src/codec/a.h"))
        self.expect([], "src/codec/sub/a.h", header("src/codec/sub/a.h"))

    def test_system_header_above_the_seam_is_found(self):
        for name in ("stdlib.h", "time.h", "pthread.h", "stdio.h", "sys/socket.h", "stdatomic.h"):
            self.expect_c(["pure"], "src/schedule/a.c", f"#include <{name}>\n")
        self.expect_c([], "src/schedule/a_test.c", "#include <stdlib.h>\n")
        self.expect_c([], "src/transport/a.c", "#include <sys/socket.h>\n")
        self.expect(["pure"], "src/platform/platform.h",
                    header("src/platform/platform.h", "#include <time.h>"))

    def test_world_call_above_the_seam_is_found(self):
        for call in ("malloc(1)", "free(p)", "printf(p)", "time(0)", "clock_gettime(0, p)"):
            self.expect_c(["pure"], "src/codec/a.c", f"static void f(void)\n{{\n    {call};\n}}\n")
        self.expect_c([], "src/codec/a.c", "static void f(void)\n{\n    ops->free(1);\n}\n")
        self.expect_c([], "src/transport/a.c", "static void f(void)\n{\n    free(0);\n}\n")

    def test_banned_call_is_found(self):
        for name in ("strcpy", "strcat", "sprintf", "vsprintf", "strtok", "gets", "alloca", "rand"):
            self.expect_c(["banned-call"], "src/base/a.c",
                          f"static void f(void)\n{{\n    {name}(a);\n}}\n")
        self.expect_c([], "src/base/a.c", "static void f(void)\n{\n    my_strcpy(a);\n}\n")

    def test_getenv_outside_its_files_is_found(self):
        body = "static void f(void)\n{\n    getenv(a);\n}\n"
        self.expect_c(["getenv"], "src/base/log.c", body)
        self.expect_c(["getenv"], "src/api/a.c", body)
        self.expect_c([], "src/base/config.c", body)

    def test_mutable_state_is_found(self):
        for text in ("static int count;\n", "static int count = 1;\n", "static char *p = 0;\n",
                     "static const char *p = 0;\n", "static const char *names[] = {\"a\"};\n",
                     "static struct { int a; } s;\n", "static void (*hook)(void);\n",
                     "static _Atomic int n;\n", "static int f(void)\n{\n    static int n;\n"
                     "    return n++;\n}\n"):
            self.expect_c(["mutable-state"], "src/base/a.c", text)
        self.expect_c(["mutable-state", "prefix"], "src/base/a.c", "int count;\n")
        for text in ("static const int n = 1;\n", "static int f(int a);\n", "struct a;\n",
                     "enum { A = 1 };\n", "struct a { int b; };\n", "extern int tt_b;\n",
                     "typedef int (*tt_f)(int);\n", "_Static_assert(1, \"x\");\n",
                     "static _Thread_local char text[8];\n",
                     "__extension__ typedef unsigned __int128 wide;\n"):
            self.expect_c([], "src/base/a.c", text)

    def test_long_function_is_found(self):
        body = "static void f(void)\n{\n" + "    ;\n" * 70 + "}\n"
        self.expect_c(["function-length"], "src/base/a.c", body)
        self.expect_c([], "src/base/a.c", body.replace("    ;\n", "", 1))

    def test_many_parameters_are_found(self):
        six = "static void f(int a, int b, int c, int d, int e, int (*g)(int, int))\n{\n}\n"
        self.expect_c(["parameters"], "src/base/a.c", six)
        self.expect_c([], "src/base/a.c", six.replace("int a, ", ""))

    def test_long_file_is_found(self):
        self.expect(["file-length"], "src/base/a.c", SPDX + "\n" * 800)
        self.expect([], "src/base/a.c", SPDX + "\n" * 799)
        self.expect(["file-length"], "src/base/a.h", header("src/base/a.h", "\n" * 300))

    def test_wide_line_is_found(self):
        self.expect_c(["columns"], "src/base/a.c", "/*" + "x" * 97 + "*/\n")
        self.expect_c([], "src/base/a.c", "/*" + "x" * 96 + "*/\n")

    def test_missing_licence_is_found(self):
        self.expect(["spdx"], "src/base/a.c", "\n")
        self.expect(["spdx"], "tools/a", "#!/bin/sh\n")
        self.expect([], "tools/a", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n")

    def test_leftover_marker_is_found(self):
        for word in ("FIX" + "ME", "XX" + "X", "TO" + "DO"):
            self.expect_c(["marker"], "src/base/a.c", f"/* {word}: later */\n")
            self.expect(["marker"], "docs/a.md", f"{word}\n")

    def test_path_of_one_machine_is_found(self):
        for path in ("/ro" + "ot/x", "/ho" + "me/me/x", "/wo" + "rk/main"):
            self.expect(["forbidden"], "docs/a.md", f"see {path}\n")
        self.expect([], "docs/a.md", "see tests/wo" "rk/x and /usr/lib\n")

    def test_slow_tests_and_fuzzers_name_their_area(self):
        areas = {"tools/check-areas.txt": "src/mesh/ mesh\ntests/fuzz/ fuzz\ntests/slow/ slow\n"}
        script = "# SPDX-License-Identifier: Apache-2.0\n# Labels: %s\n"
        comment = "/* SPDX-License-Identifier: Apache-2.0\n *\n * Labels: %s */\n"
        for rules, path, text in (
                ([], "tests/fuzz/a_fuzz.c", comment % "mesh"),
                (["labels"], "tests/fuzz/a_fuzz.c", SPDX),
                (["labels"], "tests/fuzz/a_fuzz.c", comment % "elsewhere"),
                ([], "tests/slow/a_test.sh", script % "check"),
                ([], "tests/other/a_test.sh", script % "check mesh"),
                (["labels"], "tests/other/a_test.sh", script % "check"),
                ([], "tests/other/a_test.sh", script % "asan")):
            self.assertEqual(self.findings({**areas, path: text}), rules, (path, text))

    def test_a_phase_is_set_in_one_place(self):
        body = SPDX + ("struct x { int phase; };\n"
                       "static void x_set_phase(struct x *x, int p)\n{\n    x->phase = p;\n}\n"
                       "void tt_x(struct x *x);\n"
                       "void tt_x(struct x *x)\n{\n    x_set_phase(x, x->phase == 1);\n}\n")
        self.expect([], "src/aggregate/x.c", body)
        self.expect(["phase"], "src/aggregate/x.c", body.replace(
            "x_set_phase(x, x->phase == 1);", "x->phase = 1;"))

    def test_two_files_of_one_base_name_are_found(self):
        body = SPDX + "#include <string.h>\n"
        self.expect(["twin"], "src/schedule/good.c", body)
        self.expect(["twin"], "cli/run/good.c", body)
        self.expect(["twin"], "src/schedule/sub/codec.h", header("src/schedule/sub/codec.h"))
        self.expect([], "src/schedule/registry.c", body)
        self.expect([], "src/schedule/registry.h", header("src/schedule/registry.h"))

    def test_a_folder_of_many_files_is_found(self):
        def files(folder, count):  # tests and headers count, too
            names = [f"{folder}/a{i}{'_test' if i % 2 else ''}.c" for i in range(count - 1)]
            return {**{name: SPDX for name in names}, f"{folder}/b.h": header(f"{folder}/b.h")}
        for folder in ("src/schedule/sub", "cli/run", "cli"):
            self.assertEqual(self.findings(files(folder, tidy.ROOM_FILES_MAX)), [], folder)
            more = files(folder, tidy.ROOM_FILES_MAX + 1)
            self.assertEqual(self.findings(more), ["room"], folder)
            self.assertEqual(self.findings(more, f"room {folder} for the test\n"), [], folder)
        self.assertEqual(self.findings({**files("src/schedule", tidy.ROOM_FILES_MAX - 1),
                                        "src/schedule/sub/c.c": SPDX}), [])
        self.assertEqual(self.findings(files("tests/slow", tidy.ROOM_FILES_MAX + 1)), [])

    def test_folder_readme_is_checked(self):
        self.expect(["readme"], "src/base/README.md", None)
        self.expect(["readme"], "src/base/README.md", README.replace("Rules", "Laws"))
        self.expect(["readme"], "src/base/README.md", README + "\n" * 60)

    def test_foreign_name_is_found(self):
        self.expect_c(["prefix"], "src/base/a.c", "int helper(void)\n{\n    return 0;\n}\n")
        self.expect_c(["prefix"], "src/base/a.c", "int tutti_x(void)\n{\n    return 0;\n}\n")
        self.expect_c([], "src/api/a.c", "int tutti_x(void)\n{\n    return 0;\n}\n")

    def test_type_ending_in_t_is_found(self):
        self.expect_c(["type-name"], "src/base/a.c", "typedef struct a { int b; } a_t;\n")

    def test_header_that_needs_another_is_found(self):
        self.compiles_headers = True
        self.assertEqual(self.findings({}), [])
        self.expect(["header-alone"], "src/base/a.h", header("src/base/a.h", "size_t tt_a(void);"))
        self.expect(["guard"], "src/base/a.h", header("src/base/b.h"))

    def test_template_header_says_so(self):
        self.compiles_headers = True
        body = "\nstatic size_t twice(TYPE a)\n{\n    return a;\n}\n"
        self.expect(["guard", "header-alone"], "src/base/a.h", SPDX + body)
        self.expect([], "src/base/a.h", SPDX.replace(" */", " No include guard: a template. */")
                    + body)

    def test_allowed_finding_is_silent_and_unused_allowance_is_not(self):
        wide = SPDX + "/*" + "x" * 97 + "*/\n"
        self.expect([], "src/base/a.c", wide, "columns src/base/a.c a table\n")
        self.expect(["columns"], "src/base/a.c", wide, "columns src/base/a.c\n")
        self.expect(["allow"], "src/base/a.c", SPDX, "columns src/base/a.c a table\n")
        self.expect([], "src/base/a.c", SPDX + "static int n;\n",
                    "mutable-state src/base/a.c:n kept for fork\n")


if __name__ == "__main__":
    unittest.main()
