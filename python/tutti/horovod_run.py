# SPDX-License-Identifier: Apache-2.0
"""horovod.run: call a function on every rank of a job that is started for it.

The function and its results are passed in files of a folder that only this user can read.
cloudpickle, where it is installed, also pickles functions of scripts and notebooks."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import traceback
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import horovodrun

_pickler: Any = pickle
try:
    import cloudpickle  # type: ignore[import-not-found, unused-ignore]

    _pickler = cloudpickle
except ImportError:
    pass

_NO_GROWTH = "a job does not grow or shrink; give num_proc only"


def run(func: Callable[..., Any], args: Sequence[Any] = (),
        kwargs: Optional[Dict[str, Any]] = None, num_proc: int = 1,
        min_num_proc: Optional[int] = None, max_num_proc: Optional[int] = None,
        slots: Optional[int] = None, reset_limit: Optional[int] = None,
        cooldown_range: Optional[Sequence[int]] = None, hosts: Optional[str] = None,
        hostfile: Optional[str] = None, host_discovery_script: Optional[str] = None,
        start_timeout: Optional[int] = None, ssh_port: Optional[int] = None,
        ssh_identity_file: Optional[str] = None, disable_cache: Optional[bool] = None,
        output_filename: Optional[str] = None, verbose: Optional[int] = None,
        use_gloo: Optional[bool] = None, use_mpi: Optional[bool] = None,
        mpi_args: Optional[str] = None, network_interfaces: Optional[str] = None,
        executable: Optional[str] = None, np: Optional[int] = None, min_np: Optional[int] = None,
        max_np: Optional[int] = None, network_interface: Optional[str] = None) -> List[Any]:
    """Call func(*args, **kwargs) on num_proc ranks; returns the list of their results, by rank.
    With hosts the working folder must be shared. Options of elastic jobs are refused; use_mpi,
    mpi_args, disable_cache and verbose have no effect."""
    if np is not None:
        warnings.warn("np is deprecated, use num_proc instead", DeprecationWarning, stacklevel=2)
        num_proc = np if num_proc == 1 else num_proc
    for value in (min_num_proc, max_num_proc, reset_limit, cooldown_range, host_discovery_script,
                  min_np, max_np):
        if value is not None:
            raise NotImplementedError(f"horovod.run: {_NO_GROWTH}")
    if hosts is not None and hostfile is not None:
        raise ValueError("Argument hosts and hostfile only allow one provided.")
    if use_gloo and use_mpi:
        raise ValueError("Argument use_gloo and use_mpi only allow one set True.")
    flags = {"-H": hosts, "--hostfile": hostfile, "--slots-per-host": slots,
             "--start-timeout": start_timeout, "-p": ssh_port, "-i": ssh_identity_file,
             "--output-filename": output_filename,
             "--network-interfaces": network_interfaces or network_interface}
    given = [text for flag, value in flags.items() if value is not None
             for text in (flag, str(value))]
    with tempfile.TemporaryDirectory(prefix=".horovod-run-",
                                     dir="." if hosts or hostfile else None) as folder:
        return _run_in(pathlib.Path(folder).resolve(), (func, tuple(args), kwargs or {}), num_proc,
                       [*given, executable or sys.executable])


def _run_in(folder: pathlib.Path, work: Tuple[Any, ...], num_proc: int,
            given: Sequence[str]) -> List[Any]:
    try:
        if _pickler is pickle and getattr(work[0], "__module__", "") == "__main__":
            raise pickle.PicklingError("it belongs to the script itself")
        (folder / "work").write_bytes(_pickler.dumps(work))
    except (AttributeError, TypeError, pickle.PicklingError) as problem:
        name = getattr(work[0], "__qualname__", type(work[0]).__name__)
        raise ValueError(f"horovod.run: {name} cannot be sent to other processes ({problem}); "
                         "put it in a module, or install cloudpickle") from problem
    command, words = horovodrun.translate(["-np", str(num_proc), *given, "-m", __name__,
                                           str(folder)])
    if words:
        print(words, file=sys.stderr)
    paths = [str(pathlib.Path(__file__).resolve().parents[1]), *filter(None, sys.path)]
    status = subprocess.run([horovodrun.program(), *command], check=False,
                            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}).returncode
    answers = [folder / f"answer.{rank}" for rank in range(num_proc)]
    told = [pickle.loads(answer.read_bytes()) for answer in answers if answer.exists()]
    for is_result, value in told:
        if not is_result:
            raise RuntimeError(f"horovod.run: {value}")
    if status != 0 or len(told) < num_proc:
        raise RuntimeError(f"horovod.run: the job ended with code {status} before every rank had "
                           "returned a result; its output is above")
    return [value for _, value in told]


def main(folder: str) -> None:
    """One rank: call the function and write its result."""
    place = pathlib.Path(folder)
    own = os.environ["HOROVOD_RANK"]
    answer: Tuple[bool, Any]
    try:
        func, args, kwargs = pickle.loads((place / "work").read_bytes())
        answer, code = (True, func(*args, **kwargs)), 0
    except BaseException as problem:
        traceback.print_exc()
        answer, code = (False, f"rank {own} raised {type(problem).__name__}: {problem}"), 1
    (place / f"answer.{own}.new").write_bytes(_pickler.dumps(answer))
    os.rename(place / f"answer.{own}.new", place / f"answer.{own}")
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
