#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scale_all_test.sh - the checks of scale_test.sh for 6,000 members that agree by bit vectors.
# Labels: check
set -eu
"$TEST_BIN/bench-control-scale" --check --members 6000 --mode bitvector --steps 2
