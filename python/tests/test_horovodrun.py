# SPDX-License-Identifier: Apache-2.0
"""Tests that need no job: horovodrun's flags, torchrun itself, types, imports."""

import importlib.metadata
import importlib.util
import inspect
import os
import pathlib
import socket
import subprocess
import sys

import pytest
from conftest import needs_torch

from tutti import horovodrun


def test_flags_become_options_and_variables():
    command, words = horovodrun.translate(
        ["-np", "4", "-H", "a:2,b:2", "--gloo", "--fusion-threshold-mb=32", "-p", "2222",
         "--timeline-filename", "t.json", "--autotune", "python", "train.py", "--autotune"])
    assert command == ["run", "--as-horovod", "-n", "4", "-H", "a:2,b:2", "-x",
                       "HOROVOD_FUSION_THRESHOLD=33554432", "-x", "HOROVOD_TIMELINE=t.json",
                       "-x", "HOROVOD_AUTOTUNE=1", "--rsh", "ssh -x -o BatchMode=yes -p 2222",
                       "python", "train.py", "--autotune"]
    assert words == "horovodrun: ignored: --gloo"


def test_every_flag_of_horovodrun_is_known():
    flags = """-np --num-proc -H --hosts --hostfile --verbose --output-filename --start-timeout
        --disable-cache --network-interfaces -p --ssh-port -i --ssh-identity-file
        --prefix-output-with-timestamp --gloo --mpi --jsrun --mpi-args --tcp --binding-args
        --mpi-threads-disable --gloo-timeout-seconds --num-nccl-streams --thread-affinity
        --fusion-threshold-mb --cycle-time-ms --cache-capacity --hierarchical-allreduce
        --no-hierarchical-allreduce --hierarchical-allgather --no-hierarchical-allgather
        --torus-allreduce --no-torus-allreduce --autotune --autotune-log-file
        --autotune-warmup-samples --autotune-steps-per-sample --autotune-bayes-opt-max-samples
        --autotune-gaussian-process-noise --slots-per-host --timeline-filename
        --timeline-mark-cycles --no-stall-check --stall-check-warning-time-seconds
        --stall-check-shutdown-time-seconds --log-level --log-without-timestamp
        --log-with-timestamp --no-log-hide-timestamp -prefix-timestamp""".split()
    told = horovodrun.usage()
    for flag in flags:
        assert horovodrun.translate([f"{flag}=1", "python"])[0][-1] == "python"
        assert flag in told, flag
    for flag in ("--config-file --min-np --min-num-proc --max-np --host-discovery-script "
                 "--elastic-timeout --reset-limit --blacklist-cooldown-range").split():
        with pytest.raises(SystemExit, match=flag):
            horovodrun.translate([flag, "1", "python"])


@pytest.mark.parametrize("flag, text", [
    ("-v", "0.28.1\n"), ("--version", "0.28.1\n"), ("-cb", "PyTorch"),
    ("--check-build", "PyTorch")])
def test_version_and_build_flags_print_and_exit_wherever_they_stand(flag, text, capsys):
    with pytest.raises(SystemExit) as caught:
        horovodrun.translate(["--verbose", "-np", "2", flag])
    assert caught.value.code == 0 and text in capsys.readouterr().out and flag in horovodrun.usage()
    assert horovodrun.translate(["-np", "2", "python", flag])[0][-1] == flag  # the program's own


@pytest.mark.parametrize("arguments, text", [
    (["--min-np", "2", "python"], "does not grow"), (["-np"], "needs a value"),
    (["--no-such-flag", "python"], "--no-such-flag"), (["-np", "2"], "no program"),
])
def test_what_cannot_be_done_is_refused(arguments, text):
    with pytest.raises(SystemExit) as caught:
        horovodrun.translate(arguments)
    assert text in str(caught.value)


def test_a_script_runs_under_it():
    script = "import os; print('rank', os.environ['HOROVOD_RANK'], os.environ['HOROVOD_SIZE'])"
    done = subprocess.run([sys.executable, "-m", "tutti.horovodrun", "-np", "2", sys.executable,
                           "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert sorted(line.split("rank ")[1] for line in done.stdout.splitlines()) == ["0 2", "1 2"]


UNDER_TORCHRUN = """
import os, torch, torch.distributed as dist
import tutti.torch as hvd
import tutti.torch.backend
hvd.init()
total = hvd.allreduce(torch.ones(1), op=hvd.Sum).item()
dist.init_process_group("tutti")
tensor = torch.ones(1)
dist.all_reduce(tensor)
is_same = hvd.rank() == dist.get_rank() == int(os.environ["RANK"])
line = f"rank {hvd.rank()} of {hvd.size()} {total} {tensor.item()} {is_same}\\n"
os.write(1, line.encode())  # whole: the ranks share a pipe, and torchrun runs python unbuffered
hvd.shutdown()
"""


@needs_torch(2, 0, "its torchrun does not run on Python 3.11")
def test_torchruns_store_carries_the_secret_and_its_port_is_not_bound(tmp_path):
    """No home folder, so no key file; the agent listens on the master port."""
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(UNDER_TORCHRUN)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_addr",
         "127.0.0.1", "--master_port", str(port), str(script)], timeout=100, capture_output=True,
        text=True, env={**os.environ, "HOME": "/nonexistent", "XDG_CONFIG_HOME": "",
                        "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("rank")) == [
        f"rank {rank} of 2 2.0 2.0 True" for rank in range(2)]


def test_public_functions_have_type_annotations():
    import tutti

    assert (pathlib.Path(tutti.__file__).parent / "py.typed").exists()
    public = [tutti.init] + [member for kind in (tutti.Context, tutti.Handle, tutti.TuttiError)
                             for name, member in vars(kind).items()
                             if inspect.isfunction(member) and name != "__del__"]
    if importlib.util.find_spec("torch") is not None:
        import tutti.torch as hvd
        public += [member for name, member in vars(hvd).items() if inspect.isfunction(member)
                   and not name.startswith("_") and member.__module__.startswith("tutti.")
                   and name != "ddp_hook"]  # DDP accepts a hook only with its own annotations
    for function in public:
        signature = inspect.signature(function)
        assert signature.return_annotation is not signature.empty, function
        assert all(parameter.annotation is not parameter.empty or parameter.name == "self"
                   for parameter in signature.parameters.values()), function


def has_mypy():
    try:
        return tuple(map(int, importlib.metadata.version("mypy").split(".")[:2])) >= (1, 8)
    except importlib.metadata.PackageNotFoundError:
        return False


@pytest.mark.skipif(not has_mypy(), reason="no mypy of 1.8 or later")
def test_mypy_accepts_the_annotations(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path)],
                          cwd=pathlib.Path(__file__).parents[2], capture_output=True, text=True,
                          timeout=150)
    assert done.returncode == 0, done.stdout


def test_importing_tutti_imports_no_framework():
    done = subprocess.run([sys.executable, "-c", "import sys, tutti; print([name for name in "
                           "('numpy', 'torch', 'asyncio', 'mypy') if name in sys.modules])"],
                          capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
