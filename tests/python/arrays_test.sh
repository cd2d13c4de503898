# SPDX-License-Identifier: Apache-2.0
#
# The Python binding on NumPy arrays, DLPack and plain buffers.
# Labels: python
. "$TEST_SOURCE/tests/python/suite.sh"
needs numpy pytest
for ranks in 1 2 4; do
    suite "$ranks" test_arrays.py
done
