#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# explore_all_test.sh - every three of all short programs, in every order (explore_test.c --all).
# Labels: check
# Timeout: 900
set -eu
"$TUTTI_BIN/test_negotiate_explore" --all
