# SPDX-License-Identifier: Apache-2.0
#
# Optimizers that exchange less often, or later.
# Labels: python sync
# Timeout: 300
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest
export TEST_BIN
suite 1 test_torch_rounds.py
suite 3 test_torch_rounds.py
