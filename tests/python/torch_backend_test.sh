# SPDX-License-Identifier: Apache-2.0
#
# torch.distributed on Tutti: collectives beside Gloo, wrong sizes, DDP, FSDP2.
# Labels: python
# Timeout: 600
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest
suite 1 test_torch_backend.py
suite 2 test_torch_backend.py test_torch_wrong_sizes.py test_torch_conformance.py
suite 3 test_torch_wrong_sizes.py test_torch_conformance.py
suite 3 test_torch_backend.py -k source
