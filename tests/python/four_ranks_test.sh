# SPDX-License-Identifier: Apache-2.0
#
# The long suites on four ranks.
# Labels: check
# Timeout: 1200
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest hypothesis
export HYPOTHESIS_STORAGE_DIRECTORY=$TEST_BUILD/hypothesis
suite 4 test_torch_cross_barrier.py
suite 4 test_torch_properties.py
suite 4 test_torch_backend.py test_torch_wrong_sizes.py test_torch_conformance.py
cd "$TEST_SOURCE/python/tests"
env -u PYTHONPATH "$TEST_BIN/tutti" run --as-horovod -n 4 \
    "$python" -m pytest -q -x -p no:cacheprovider test_as_horovod.py
