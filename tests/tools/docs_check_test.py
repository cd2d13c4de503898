#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: tools/docs_check.py finds each kind of breach that it checks for, and no other.

Method: a copy of the files that it reads has no finding; each test changes one file of the copy,
expects a finding of the named check, and restores the file.
"""
import contextlib
import io
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(os.environ.get("TEST_SOURCE", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import docs_check  # noqa: E402  (found through the line above)

COPIED = ("docs", "bench", "tools", "include", "cmake", "src", "cli", "examples", "python", "tests",
          "plugins", "debian", "packaging", ".github")


def is_left_out(_, names):
    return [name for name in names if name in ("build", "__pycache__", "corpus", ".git")]


class DocsCheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name).resolve()
        for name in COPIED:
            if (ROOT / name).exists():
                shutil.copytree(ROOT / name, cls.root / name, ignore=is_left_out)
        for path in ROOT.iterdir():
            if path.is_file() and (path.suffix in (".md", ".txt") or path.name in (
                    "Makefile", "LICENSE")):
                shutil.copy(path, cls.root / path.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def findings(self, draws=False):
        """draws: also make the figures, which takes half a second."""
        out = io.StringIO()
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            stack.enter_context(mock.patch.object(sys, "argv", ["x", str(self.root)]))
            if not draws:
                stack.enter_context(mock.patch.object(docs_check, "check_figures"))
            docs_check.main()
        return out.getvalue()

    def expect(self, check, path, old, new, text=""):
        """Runs the check after the first `old` of the file was replaced by `new`."""
        file = self.root / path
        before = file.read_text(encoding="utf-8") if file.exists() else None
        if before is None:
            file.write_text(new, encoding="utf-8")
        else:
            self.assertIn(old, before, f"{path} does not have what this test changes")
            file.write_text(before.replace(old, new, 1), encoding="utf-8")
        try:
            found = self.findings(check == "figures")
        finally:
            if before is None:
                file.unlink()
            else:
                file.write_text(before, encoding="utf-8")
        self.assertIn(f"[{check}]", found)
        self.assertIn(text, found)
        for line in found.splitlines():
            self.assertIn(f"[{check}]", line)

    def test_fields_of_clusters_are_those_of_the_table(self):
        self.expect("clusters", "docs/simulating.md", "| `network.latency_us` | us | 0 |",
                    "| `network.latency_us` | ms | 0 |", "network.latency_us: the row is to be")
        self.expect("clusters", "src/sim/cluster_fields.c", ".fallback = 48",
                    ".fallback = 64", "network.head_bytes")
        self.expect("clusters", "src/sim/cluster_fields.c", "\"of an uplink, in each",
                    "\"of two uplinks, in each", "tree.bandwidth_gbs")
        self.expect("clusters", "docs/simulating.md", "| `noise.hiccup_ms` |",
                    "| `noise.delay_ms` |", "no field is called noise.delay_ms")

    def test_the_tree_is_sound(self):
        self.assertEqual(self.findings(draws=True), "")

    def test_a_frame_kind_that_the_page_lacks(self):
        self.expect("protocol", "docs/protocol.md", "| 25 | NOTICE |", "| | |", "NOTICE")

    def test_a_frame_kind_that_is_new_in_the_code(self):
        self.expect("protocol", "src/aggregate/frame.h", "TT_FRAME_ASK = 26,",
                    "TT_FRAME_ASK = 26,\n    TT_FRAME_NEW = 27,", "NEW")

    def test_a_flag_with_another_number(self):
        self.expect("protocol", "docs/protocol.md", "| 16 | PLANNED |", "| 32 | PLANNED |",
                    "PLANNED")

    def test_a_field_of_the_head_at_another_place(self):
        self.expect("protocol", "docs/protocol.md", "| 36 | 4 | epoch |", "| 32 | 4 | epoch |",
                    "epoch")

    def test_a_bit_of_a_claim(self):
        self.expect("protocol", "src/control/claim.h", "CLAIM_PARTS = 32,",
                    "CLAIM_PARTS = 32,\n    CLAIM_NEW = 64,", "NEW")

    def test_a_notice_and_its_flags(self):
        self.expect("protocol", "docs/protocol.md", "32 SPLIT", "64 SPLIT", "SPLIT")
        self.expect("protocol", "docs/protocol.md", "| 9 | REPORT |", "| | |", "REPORT")
        self.expect("protocol", "docs/protocol.md", "4 GIVE_UP", "5 GIVE_UP", "GIVE_UP")

    def test_a_message_of_joining(self):
        self.expect("protocol", "docs/protocol.md", "| 4 | GO |", "| 6 | GO |", "GO")
        self.expect("protocol", "docs/protocol.md", "2 HAS_AES", "4 HAS_AES", "HAS_AES")

    def test_a_size(self):
        self.expect("protocol", "docs/protocol.md", "has 80 bytes", "has 40 bytes", "80")
        self.expect("protocol", "src/mesh/mesh_wire.h", "TT_MESH_RECORD_BYTES = 208",
                    "TT_MESH_RECORD_BYTES = 168", "168")
        self.expect("protocol", "docs/protocol.md", "credit: 64 frames", "credit: some frames")

    def test_a_setting_without_a_line(self):
        self.expect("settings", "docs/settings.md", "| `KEEPALIVE` |", "| |", "KEEPALIVE")

    def test_a_default_that_changed(self):
        self.expect("settings", "src/api/settings.c", '.fallback = "4K"', '.fallback = "8K"',
                    "EAGER")

    def test_a_setting_that_does_not_exist(self):
        self.expect("settings", "docs/running.md", "TUTTI_SOCKETS=4", "TUTTI_SOKKETS=4",
                    "TUTTI_SOKKETS")

    def test_a_decision_that_the_index_lacks(self):
        self.expect("index", "docs/decisions/999-new.md", "", "# 999: new\n", "999-new.md")

    def test_a_page_of_the_lab_that_its_index_lacks(self):
        self.expect("index", "docs/lab/new.md", "", "# New\n", "new.md")

    def test_a_link_to_nowhere(self):
        self.expect("links", "docs/python.md", "(migrating.md)", "(migration.md)", "migration.md")

    def test_a_link_to_a_heading_that_is_gone(self):
        self.expect("links", "docs/README.md", "#known-weak-spots", "#weak-spots", "weak-spots")

    def test_commands_that_do_not_exist(self):
        self.expect("commands", "README.md", "make demo ", "make show ", "make show")
        self.expect("commands", "docs/features.md", "tutti doctor ", "tutti nurse ", "tutti nurse")

    def test_a_long_line(self):
        self.expect("columns", "docs/running.md", "# Running jobs\n",
                    "# Running jobs\n\n" + "word " * 25 + "\n", "columns")

    def test_a_long_line_of_a_table_or_of_code_is_fine(self):
        page = self.root / "docs/running.md"
        before = page.read_text(encoding="utf-8")
        page.write_text(before + "\n| " + "word " * 30 + "|\n\n```\n" + "word " * 30 + "\n```\n",
                        encoding="utf-8")
        try:
            self.assertEqual(self.findings(), "")
        finally:
            page.write_text(before, encoding="utf-8")

    def test_a_table_that_was_edited_by_hand(self):
        self.expect("figures", "docs/performance.md", "| 2 ranks | 0.97 |", "| 2 ranks | 1.50 |",
                    "stale")

    def test_a_picture_that_no_script_draws(self):
        self.expect("figures", "docs/figures/old.svg", "", "<svg/>\n", "old.svg")

    def test_a_page_that_grew(self):
        self.expect("figures", "docs/performance.md", "# Performance\n",
                    "# Performance\n\n" + "word word word word\n" * 100, "words")


if __name__ == "__main__":
    unittest.main()
