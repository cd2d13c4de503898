# SPDX-License-Identifier: Apache-2.0
#
# torch.distributed on Tutti: collectives, DDP, FSDP2.
# Labels: python
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest
for ranks in 1 2; do
    suite "$ranks" test_torch_backend.py
done
