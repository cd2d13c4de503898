# SPDX-License-Identifier: Apache-2.0
"""horovodrun's flags, translated; run outside of a job."""

import subprocess
import sys

import pytest

from tutti import horovodrun


def test_flags_become_options_and_variables():
    command, words = horovodrun.translate(
        ["-np", "4", "-H", "a:2,b:2", "--gloo", "--fusion-threshold-mb=32", "-p", "2222",
         "--timeline-filename", "t.json", "--autotune", "python", "train.py", "--autotune"])
    assert command == ["run", "--as-horovod", "-n", "4", "-H", "a:2,b:2", "-x",
                       "HOROVOD_FUSION_THRESHOLD=33554432", "-x", "HOROVOD_TIMELINE=t.json",
                       "--rsh", "ssh -x -o BatchMode=yes -p 2222", "python", "train.py",
                       "--autotune"]
    assert words == "horovodrun: ignored: --gloo, --autotune"


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
