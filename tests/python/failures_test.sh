# SPDX-License-Identifier: Apache-2.0
#
# Ranks that raise, are interrupted, fork or leave: everyone hears why.
# Labels: python
# Timeout: 900
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch pytest
export TEST_BIN
cd "$TEST_SOURCE/python/tests"
"$python" -m pytest -q -x -p no:cacheprovider test_failures.py
