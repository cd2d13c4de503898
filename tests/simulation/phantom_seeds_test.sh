#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# phantom_seeds_test.sh - seeds of all kinds with buffers that have bytes, and with phantom ones:
# the same events. Addresses of phantom buffers cannot be accessed, so that a forgotten copy is
# found.
# Labels: asan
# Needs: tutti-worlds
# Timeout: 300
set -eu
for million in 0 1 2 3 4 5 6 7 8 9 10 11; do
    "$TEST_BIN/tutti-worlds" --phantom --salts 4 --first $((million * 1000000)) --seeds 100
    "$TEST_BIN/tutti-worlds" --phantom --salts 4 --first $((million * 1000000)) --seeds 100 --named
done
