#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# explore_all_test.sh - three members and more of the short programs, in every order (explore_test.c
# --cuts and --joins, side by side).
# Labels: check
# Timeout: 600
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$TEST_BIN/test_negotiate_explore" --cuts >"$folder/cuts" 2>&1 &
cuts=$!
"$TEST_BIN/test_negotiate_explore" --joins >"$folder/joins" 2>&1 &
joins=$!
status=0
wait "$cuts" || status=1
wait "$joins" || status=1
cat "$folder"/*
exit "$status"
