#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# named_seeds_test.sh - ten thousand seeds of named tensors in all modes, over a network that
# drops, delays and reorders, with partitions, stops and deaths; three of four seeds have a salt. In
# as many parts as there are cores. Add a seed that fails to kept_seeds.txt.
# Labels: check
# Timeout: 900
set -u
seeds=10000
parts=$(nproc)
each=$(((seeds + parts - 1) / parts))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pids=()
for ((part = 0; part < parts; part++)); do
    "$TEST_BIN/tutti-worlds" --named --salts 4 --first $((part * each)) \
        --seeds "$each" >"$folder/$part" 2>&1 &
    pids+=($!)
done
status=0
for pid in "${pids[@]}"; do
    wait "$pid" || status=1
done
cat "$folder"/*
exit "$status"
