#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# misuse_eight_test.sh - the cases of misuse.h with eight real ranks (misuse_test.c).
# Labels: check
# Timeout: 600
set -eu
"$TEST_BIN/test_conformance_misuse" 8
