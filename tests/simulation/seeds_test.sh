#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# seeds_test.sh - a thousand seeds of the simulated world, more with named tensors, and a kill at
# every event of a small job. Three of four seeds have a salt, so that programs and timings vary
# independently.
# Timeout: 900
set -eu
"$TEST_BIN/tutti-worlds" --salts 4 --seeds 1000
"$TEST_BIN/tutti-worlds" --salts 4 --first 2000000 --seeds 200 # calls that repeat
"$TEST_BIN/tutti-worlds" --salts 4 --first 4000000 --seeds 200 # sets are removed
"$TEST_BIN/tutti-worlds" --salts 4 --named --seeds 500
"$TEST_BIN/tutti-worlds" --salts 4 --named --first 4000000 --seeds 200
"$TEST_BIN/tutti-worlds" --salts 4 --named --first 1000000 --seeds 1000
"$TEST_BIN/tutti-worlds" --salts 4 --first 3000000 --seeds 400 # more is drawn
"$TEST_BIN/tutti-worlds" --salts 4 --named --first 3000000 --seeds 300
"$TEST_BIN/tutti-worlds" --salts 4 --first 5000000 --seeds 500 # receives from any source
"$TEST_BIN/tutti-worlds" --salts 4 --first 6000000 --seeds 500 # several calls in rotation
"$TEST_BIN/tutti-worlds" --salts 4 --named --first 5000000 --seeds 400 # and memory is short
"$TEST_BIN/tutti-worlds" --salts 4 --named --first 7000000 --seeds 400 # ends of steps, tuning
"$TEST_BIN/tutti-worlds" --salts 4 --named --first 8000000 --seeds 400 # callbacks submit
"$TEST_BIN/tutti-worlds" --salts 4 --first 9000000 --seeds 400 # calls of several stages
"$TEST_BIN/tutti-worlds" --kills
