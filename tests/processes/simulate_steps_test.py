# SPDX-License-Identifier: Apache-2.0
"""Steps and all-reduces that were measured once are computed by tutti simulate within bounds.

Labels: model
Needs: tutti_cli
Timeout: 300
"""
import os
import pathlib
import statistics
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.environ.get("TEST_SOURCE", "."))
from bench.common import tree  # noqa: E402
from bench.simulate import links, steps  # noqa: E402

tree.TUTTI = pathlib.Path(os.environ.get("TEST_BIN", "build/bin")).resolve() / "tutti"


class Measured(unittest.TestCase):
    def errors(self, section):
        with tempfile.TemporaryDirectory() as folder:
            found = list(section.measure(pathlib.Path(folder)))
        self.assertTrue(found)
        return {tuple(row.values())[1:-3]: abs(row["error"]) for row in found}

    def test_training_steps(self):
        errors = self.errors(steps)
        self.assertGreater(len(errors), 100)
        self.assertLess(statistics.median(errors.values()), 0.02)
        self.assertLess(max(errors.values()), steps.WORST_MOST, errors)

    def test_all_reduces_between_hosts(self):
        """Shorter ones fit into the bucket of the shaper, which lets them pass faster."""
        errors = self.errors(links)
        long = {case: error for case, error in errors.items() if case[1] >= 1 << 20}
        self.assertGreater(len(long), 4)
        self.assertLess(max(long.values()), links.WORST_MOST, errors)


if __name__ == "__main__":
    unittest.main()
