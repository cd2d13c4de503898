# SPDX-License-Identifier: Apache-2.0
#
# suite.sh - sourced by the tests of this folder: run files of python/tests on 1, 2 and 4 ranks.
#
# $TUTTI_PYTHON is the interpreter: the distribution's, with its PyTorch, unless cmake/Tests.cmake
# gives another (tests that are labelled check, or named .newest).
set -euo pipefail

python=${TUTTI_PYTHON:-/usr/bin/python3}
command -v "$python" >/dev/null || python=python3
export PYTHONPATH=$TEST_SOURCE/python TUTTI_LIBRARY=$TEST_BUILD/libtutti.so
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1

# needs MODULE...: skip the test where one of them is not installed.
needs() {
    for module in "$@"; do
        if ! "$python" -c "import $module" >/dev/null 2>&1; then
            printf 'skipped: no %s for %s (tools/packages.txt, tools/python-env)\n' \
                "$module" "$python"
            exit 77
        fi
    done
}

# suite RANKS FILE...: the pytest files on so many ranks.
suite() {
    local ranks=$1
    shift
    (cd "$TEST_SOURCE/python/tests" &&
        "$TEST_BIN/tutti" run -n "$ranks" "$python" -m pytest -q -x -p no:cacheprovider "$@")
}

# wheel_entry_points DIR: the entry points that the wheel has, for a PYTHONPATH with DIR in it.
wheel_entry_points() {
    mkdir -p "$1/tutti-0.dist-info"
    printf 'Metadata-Version: 2.1\nName: tutti\nVersion: 0\n' >"$1/tutti-0.dist-info/METADATA"
    sed -n '/entry-points/,/^$/p' "$TEST_SOURCE/pyproject.toml" |
        sed 's/^\[project.entry-points."\(.*\)"\].*/[\1]/; s/"//g' \
            >"$1/tutti-0.dist-info/entry_points.txt"
}
