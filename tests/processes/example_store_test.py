# SPDX-License-Identifier: Apache-2.0
"""examples/12_store learns its weights under each policy, with a server and without one.

Labels: sync
Needs: tutti_cli example_store
Timeout: 200
"""
import re
import subprocess
import unittest

import ranks

FIRST_LOSS = 36000  # of three workers, of weights that are all 0
LINE = re.compile(r"^(\S+) +80 iterations in \d+\.\d+ s, loss (\S+)$", re.MULTILINE)


class Example(unittest.TestCase):
    def train(self, servers, *policies):
        done = subprocess.run([str(ranks.BIN / "tutti"), "run", "--no-prefix", "-n", "3",
                               "--servers", str(servers), str(ranks.BIN / "store"), *policies],
                              capture_output=True, text=True, timeout=ranks.PATIENCE_S,
                              env=ranks.clean_environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        losses = dict(LINE.findall(done.stdout))
        self.assertEqual(list(losses), [*policies] or ["bulk", "stale:3", "async"], done.stdout)
        for loss in losses.values():
            self.assertLess(float(loss), FIRST_LOSS / 50, done.stdout)

    def test_with_a_server(self):
        self.train(1)

    def test_workers_own_all(self):
        self.train(0, "bulk", "stale:1")


if __name__ == "__main__":
    unittest.main()
