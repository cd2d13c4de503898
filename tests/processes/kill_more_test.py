# SPDX-License-Identifier: Apache-2.0
"""kill_test.py with many more kills.

Labels: check
Timeout: 1500
"""
import os
import unittest

os.environ.setdefault("TUTTI_TEST_KILLS", "1000")

from kill_test import Kill  # noqa: E402,F401  reads the number when it is imported

if __name__ == "__main__":
    unittest.main()
