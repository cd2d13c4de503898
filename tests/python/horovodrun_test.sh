# SPDX-License-Identifier: Apache-2.0
#
# horovodrun's command line; torchrun.
# Labels: python
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs pytest
cd "$TEST_SOURCE/python/tests"
"$python" -m pytest -q -x -p no:cacheprovider test_horovodrun.py
