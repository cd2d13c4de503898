# SPDX-License-Identifier: Apache-2.0
"""Secrets and trust of the commands: no output holds a secret, and no plugin is loaded that another
user could have written.

Needs: tutti_cli
Timeout: 120
"""
import os
import pathlib
import secrets
import subprocess
import tempfile
import unittest

import ranks

TUTTI = str(ranks.BIN / "tutti")
# Leaves a mark where it is loaded.
PLANTED = """
#include <fcntl.h>
__attribute__((constructor)) static void mark(void) { (void)!open("%s", O_CREAT | O_WRONLY, 0600); }
"""


class Private(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="tutti-private-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def tutti(self, *words, **variables):
        environment = {**ranks.clean_environment(), "HOME": str(self.folder), **variables}
        environment.pop("XDG_CONFIG_HOME", None)
        return subprocess.run([TUTTI, *words], env=environment, capture_output=True, text=True,
                              timeout=60, check=False)

    def test_no_command_prints_the_secret(self):
        for secret in (secrets.token_hex(32), "a word that is no key", "long" * 2000):
            for words in ("config", "config --set", "config --all", "info", "info --json",
                          "env", "env --json", "doctor", "doctor --json"):
                said = self.tutti(*words.split(), TUTTI_SECRET=secret)
                self.assertNotIn(secret[:12], said.stdout + said.stderr, words)

    def test_the_source_of_the_secret_and_its_fingerprint_are_shown(self):
        secret = secrets.token_hex(32)
        key = self.folder / "key"
        key.touch(0o600)
        key.write_text(secret)
        pattern = r"fingerprint ([0-9a-f]{8})\b"
        for words in ("config --set", "info", "info --json"):
            given = self.tutti(*words.split(), TUTTI_SECRET=secret).stdout
            filed = self.tutti(*words.split(), TUTTI_SECRET_FILE=str(key)).stdout
            self.assertRegex(given, f"TUTTI_SECRET, {pattern}")
            self.assertRegex(filed, f"TUTTI_SECRET_FILE {key}, {pattern}")
            self.assertEqual(given.split("fingerprint ")[1][:8], filed.split("fingerprint ")[1][:8])
        self.assertIn("made when a job first needs it", self.tutti("info").stdout)
        self.assertFalse((self.folder / ".config").exists())

    def test_a_plugin_that_others_can_write_is_not_loaded(self):
        mark, plugins = self.folder / "mark", self.folder / "plugins"
        plugins.mkdir()
        source = self.folder / "planted.c"
        source.write_text(PLANTED % mark)
        file = plugins / "tutti-planted.so"
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", source, "-o", file],
                       check=True)
        variables = {"TUTTI_PLUGIN_PATH": str(plugins), "TUTTI_ENGINE": "planted"}
        for path, mode in ((plugins, 0o777), (plugins, 0o775), (plugins, 0o1777), (file, 0o775)):
            path.chmod(mode)
            listed = self.tutti("info", "--engines", **variables)
            self.assertRegex(listed.stdout,
                             rf"cannot be used +{file}: passed over: {path} has mode .*chmod go-w")
            self.assertRegex(listed.stdout, "engine +none, a job would be refused: "
                             "TUTTI_ENGINE=planted: tutti-planted.so was passed over")
            doctor = self.tutti("doctor", **variables).stdout
            self.assertRegex(doctor, f"warn +plugins +a job would not load: {file}\n.*chmod go-w")
            path.chmod(0o755)
        self.assertFalse(mark.exists())
        self.tutti("info", "--engines", **variables)
        self.assertTrue(mark.exists())  # with these modes it is loaded


if __name__ == "__main__":
    unittest.main()
