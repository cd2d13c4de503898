#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scale_test.sh - a round of 64, 96 and 768 members has the frames of its exchanges and no more, its
# time grows with log2 of the hosts, a planned step has no frames, and a member takes at most 48 KiB
# at every size.
set -eu
"$TEST_BIN/bench-control-scale" --quick --check
