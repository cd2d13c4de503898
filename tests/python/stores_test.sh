# SPDX-License-Identifier: Apache-2.0
#
# Stores for Python, and the optimizer whose update runs at their owners; without and with servers.
# Labels: python sync
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest
export TEST_BIN
suite 1 test_store.py test_torch_server.py
suite 2 test_store.py test_torch_server.py
cd "$TEST_SOURCE/python/tests"
for file in test_store.py test_torch_server.py; do # a job with servers is joined once
    "$TEST_BIN/tutti" run -n 3 --servers 2 "$python" -m pytest -q -x -p no:cacheprovider "$file"
done
