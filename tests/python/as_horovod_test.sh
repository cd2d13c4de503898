# SPDX-License-Identifier: Apache-2.0
#
# Scripts for Horovod, unchanged: tutti run --as-horovod.
# Labels: python
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest
cd "$TEST_SOURCE/python/tests"
for ranks in 1 2; do
    env -u PYTHONPATH "$TEST_BIN/tutti" run --as-horovod -n "$ranks" \
        "$python" -m pytest -q -x -p no:cacheprovider test_as_horovod.py
done
