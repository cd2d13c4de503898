# SPDX-License-Identifier: Apache-2.0
#
# Horovod's interface for PyTorch: collectives and training.
# Labels: python
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest
for ranks in 1 2 4; do
    suite "$ranks" test_torch_ops.py test_torch_training.py
done
