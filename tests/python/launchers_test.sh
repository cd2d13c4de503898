# SPDX-License-Identifier: Apache-2.0
#
# init_process_group("tutti"), as docs/python.md prints it, under every launcher: `tutti run`,
# mpirun, torchrun. From PyTorch 2.5 on the wheel's entry point makes the name known; older ones
# import it.
# Labels: python
# Timeout: 300
. "$TEST_SOURCE/tests/python/suite.sh"
needs torch
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
wheel_entry_points "$room"
export PYTHONPATH=$room:$PYTHONPATH

autoloads=$("$python" -c '
import torch
print(int(tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)))')
{
    printf 'import torch\n'
    [ "$autoloads" = 1 ] || printf 'import tutti.torch.backend\n'
    cat <<'SCRIPT'
torch.distributed.init_process_group("tutti")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
model(torch.ones(3, 4)).sum().backward()
assert torch.distributed.get_world_size() == 2
total = float(model.module.bias.grad.sum())
print(f"trained {torch.distributed.get_rank()} {total}\n", end="", flush=True)  # one write
torch.distributed.destroy_process_group()
SCRIPT
} >"$room/train.py"

check() {
    if ! timeout 100 "$@" >"$room/output" 2>&1 ||
        [ "$(grep -c 'trained [01] 6.0' "$room/output")" != 2 ]; then
        printf '%s:\n' "$*"
        tail -n 20 "$room/output"
        exit 1
    fi
}

check "$TEST_BIN/tutti" run -n 2 "$python" "$room/train.py"
if command -v mpirun.openmpi >/dev/null; then
    check mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 "$python" "$room/train.py"
fi
if command -v mpirun.mpich >/dev/null; then
    check mpirun.mpich -n 2 "$python" "$room/train.py"
fi
if [ "$autoloads" = 1 ]; then # torchrun of 1.13 does not run on Python 3.11
    check "$python" -m torch.distributed.run --nproc-per-node 2 "$room/train.py"
    # Importing torch imports nothing of Tutti.
    "$python" -c 'import sys, torch; assert "tutti" not in sys.modules'
fi
