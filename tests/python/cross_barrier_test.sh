# SPDX-License-Identifier: Apache-2.0
#
# CrossBarrier trains as DistributedOptimizer does, and step() waits for nobody.
# Labels: python
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest
for ranks in 1 2; do
    suite "$ranks" test_torch_cross_barrier.py
done
