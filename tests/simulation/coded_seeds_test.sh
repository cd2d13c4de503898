#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# coded_seeds_test.sh - seeds in which sums are coded: without names, and with them. Results and
# residuals are compared with an oracle, bit for bit. From 11000000 on they have estimates (ef=21).
# Labels: codec
# Timeout: 300
set -eu
"$TEST_BIN/tutti-worlds" --salts 4 --first 10000000 --seeds 2000
"$TEST_BIN/tutti-worlds" --salts 4 --named --first 10000000 --seeds 2000
"$TEST_BIN/tutti-worlds" --salts 4 --first 11000000 --seeds 500
"$TEST_BIN/tutti-worlds" --salts 4 --named --first 11000000 --seeds 500
