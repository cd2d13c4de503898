# SPDX-License-Identifier: Apache-2.0
#
# horovodrun's command line; torchrun.
# Labels: python
# Timeout: 600
. "$TUTTI_SOURCE/tests/python/suite.sh"
needs pytest
cd "$TUTTI_SOURCE/python/tests"
"$python" -m pytest -q -x -p no:cacheprovider test_horovodrun.py
