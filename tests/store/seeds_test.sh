#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# seeds_test.sh - seeds of workers, servers and a store, with faults; each one is judged.
# Labels: sync asan
# Needs: tutti-simulate_store
# Timeout: 300
set -eu
"$TEST_BIN/tutti-simulate_store" --seeds 600
