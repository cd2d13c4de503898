#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# seeds_test.sh - a thousand seeds of the simulated world, more with named tensors, those that
# failed once, and a kill at every event of a small job.
# Timeout: 900
set -eu
"$TUTTI_BIN/tutti-simulate" --seeds 1000
"$TUTTI_BIN/tutti-simulate" --first 2000000 --seeds 200 # calls that repeat
"$TUTTI_BIN/tutti-simulate" --named --seeds 500
"$TUTTI_BIN/tutti-simulate" --named --first 1000000 --seeds 1000
"$TUTTI_BIN/tutti-simulate" --file "$TUTTI_SOURCE/tests/simulation/kept_seeds.txt"
"$TUTTI_BIN/tutti-simulate" --kills
