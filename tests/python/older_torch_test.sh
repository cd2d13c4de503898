# SPDX-License-Identifier: Apache-2.0
#
# The same suites on older PyTorch: the distribution's, and one between it and the newest.
# Labels: check
# Timeout: 900
. "$TUTTI_SOURCE/tests/python/suite.sh"
files="test_torch_ops.py test_torch_training.py"
ran=0

# older PYTHON NAME: a virtual environment over PYTHON, where pytest comes from.
try() {
    python=$1
    if ! "$python" -c 'import torch, numpy, pytest' >/dev/null 2>&1; then
        printf 'skipped: %s has no torch, numpy and pytest\n' "$2"
        return
    fi
    printf '%s: torch %s\n' "$2" "$("$python" -c 'import torch; print(torch.__version__)')"
    for ranks in 1 2; do
        # shellcheck disable=SC2086
        suite "$ranks" $files
    done
    ran=1
}

old=$TUTTI_BUILD/python-old
if /usr/bin/python3 -c 'import torch' >/dev/null 2>&1; then
    if [ ! -x "$old/bin/python" ]; then
        /usr/bin/python3 -m venv --system-site-packages "$old" &&
            "$old/bin/python" -m pip install -q pytest || true
    fi
    try "$old/bin/python" "the distribution's PyTorch"
else
    printf "skipped: the distribution's PyTorch (python3-torch) is not installed\n"
fi

middle=$TUTTI_BUILD/python-middle
if [ ! -x "$middle/bin/python" ]; then
    python3 -m venv "$middle"
    timeout 400 "$middle/bin/python" -m pip install -q --no-deps torch==2.4.1 >/dev/null 2>&1 &&
        timeout 200 "$middle/bin/python" -m pip install -q pytest 'numpy<2' filelock \
            typing-extensions sympy networkx jinja2 fsspec >/dev/null 2>&1 || true
fi
try "$middle/bin/python" "PyTorch in between"
[ "$ran" = 1 ] || exit 77
