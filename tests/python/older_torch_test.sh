# SPDX-License-Identifier: Apache-2.0
#
# The same suites on a PyTorch between the distribution's and the newest.
#
# It has a virtual environment of its own, made once, and takes everything but torch from the
# newest one's, whose CUDA libraries it can load too: 3 GB that need not be fetched again.
# Labels: check
# Timeout: 900
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch numpy pytest
between=2.11.0
newest=$python
middle=$TEST_BUILD/python-middle

make_middle() {
    rm -rf "$middle"
    "$newest" -m venv --without-pip "$middle"
    "$newest" -c 'import site; print(site.getsitepackages()[0])' \
        >"$("$middle/bin/python" -c 'import site; print(site.getsitepackages()[0])')/newest.pth"
    timeout 240 "$middle/bin/python" -m pip install -q --no-deps --ignore-installed \
        "torch==$between" nvidia-curand &&
        "$middle/bin/python" -c "import torch; assert torch.__version__.startswith('$between')"
}

if [ ! -e "$middle/made" ]; then
    if ! make_middle >"$middle.log" 2>&1; then
        tail -n 3 "$middle.log"
        rm -rf "$middle"
        printf 'skipped: PyTorch %s; pip cannot install it\n' "$between"
        exit 77
    fi
    touch "$middle/made"
fi
python=$middle/bin/python
printf 'PyTorch %s\n' "$("$python" -c 'import torch; print(torch.__version__)')"
suite 2 test_torch_ops.py test_torch_training.py test_torch_cross_barrier.py test_torch_backend.py
