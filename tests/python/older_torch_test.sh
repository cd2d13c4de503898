# SPDX-License-Identifier: Apache-2.0
#
# The same suites on older PyTorch: the distribution's, and one between it and the newest.
#
# Each has a virtual environment of its own, made once. The one between takes everything but torch
# from the newest one's, whose CUDA libraries it can load too: 3 GB that need not be fetched again.
# Labels: check
# Timeout: 900
. "$TEST_SOURCE/tests/python/suite.sh"
between=2.11.0
newest=$python
ran=0

# made DIR COMMAND: run it, which fills the virtual environment DIR, unless that is done already.
made() {
    [ -e "$1/made" ] && return
    rm -rf "$1"
    if "$2" "$1" >"$1.log" 2>&1; then
        touch "$1/made"
    else
        tail -n 3 "$1.log"
        rm -rf "$1"
        return 1
    fi
}

of_distribution() {
    /usr/bin/python3 -m venv --system-site-packages "$1"
    timeout 120 "$1/bin/python" -m pip install -q pytest &&
        "$1/bin/python" -c 'import torch, numpy, pytest'
}

in_between() {
    "$newest" -m venv --without-pip "$1"
    "$newest" -c 'import site; print(site.getsitepackages()[0])' \
        >"$("$1/bin/python" -c 'import site; print(site.getsitepackages()[0])')/newest.pth"
    timeout 240 "$1/bin/python" -m pip install -q --no-deps --ignore-installed \
        "torch==$between" nvidia-curand &&
        "$1/bin/python" -c "import torch; assert torch.__version__.startswith('$between')"
}

# run DIR FILE...: the suites, and these, with that environment.
run() {
    python=$1/bin/python
    shift
    printf 'PyTorch %s\n' "$("$python" -c 'import torch; print(torch.__version__)')"
    suite 2 test_torch_ops.py test_torch_training.py test_torch_cross_barrier.py "$@"
    ran=1
}

old=$TEST_BUILD/python-old
if ! /usr/bin/python3 -c 'import torch, numpy' >/dev/null 2>&1; then
    printf "skipped: no PyTorch of the distribution; install python3-torch and python3-numpy\n"
elif made "$old" of_distribution; then
    run "$old"
else
    printf "skipped: the distribution's PyTorch; pip cannot install pytest beside it\n"
fi

middle=$TEST_BUILD/python-middle
if ! "$newest" -c 'import torch, numpy, pytest' >/dev/null 2>&1; then
    printf 'skipped: PyTorch %s, which needs the newest too; see tools/python-env\n' "$between"
elif made "$middle" in_between; then
    run "$middle" test_torch_backend.py
else
    printf 'skipped: PyTorch %s; pip cannot install it\n' "$between"
fi
[ "$ran" = 1 ] || exit 77
