# SPDX-License-Identifier: Apache-2.0
#
# torch.distributed on Tutti: collectives, DDP, FSDP2, wrong sizes.
# Labels: python
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest
suite 1 test_torch_backend.py
suite 2 test_torch_backend.py test_torch_wrong_sizes.py
