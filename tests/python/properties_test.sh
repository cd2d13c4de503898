# SPDX-License-Identifier: Apache-2.0
#
# Shapes, types and orders drawn at random; NumPy knows the answers.
# Labels: python
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest hypothesis
export HYPOTHESIS_STORAGE_DIRECTORY=$TEST_BUILD/hypothesis
for ranks in 1 2; do
    suite "$ranks" test_torch_properties.py
done
