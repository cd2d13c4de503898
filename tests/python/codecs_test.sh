# SPDX-License-Identifier: Apache-2.0
#
# Gradients in fewer bytes: codecs in collectives, optimizers and the DDP hook.
# Labels: python
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest
for ranks in 1 2 4; do
    suite "$ranks" test_torch_codecs.py
done
