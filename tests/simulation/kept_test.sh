#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kept_test.sh - the seeds that failed once, also under AddressSanitizer.
# Labels: asan
# Needs: tutti-worlds
# Timeout: 300
set -eu
"$TEST_BIN/tutti-worlds" --file "$TEST_SOURCE/tests/simulation/kept_seeds.txt"
