# SPDX-License-Identifier: Apache-2.0
"""Joining and leaving, ranks, process sets, capabilities: Horovod's names, Tutti's job.

Horovod's interface has one job per process; it is kept here."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any, Dict, List, Sequence, Tuple, Union

import tutti
from tutti import errors

from . import torchrun, variables
from .exceptions import HorovodInternalError

Average, Sum, Adasum, Min, Max, Product = 0, 1, 2, 3, 4, 5

_lock = threading.RLock()
_job: Union[tutti.Context, None] = None
_names: Dict[Tuple[str, int], int] = {}
_is_tuned = False


def job() -> tutti.Context:
    """The tutti.Context of this process."""
    if _job is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _job


class ProcessSet:
    """A group of ranks that call collectives together. Numbered by init or add_process_set."""

    def __init__(self, ranks):
        if not isinstance(ranks, (list, tuple, range)):
            raise ValueError("a process set takes a list of ranks; for an MPI communicator give "
                             "its ranks")
        self.ranks = sorted(int(rank) for rank in ranks)
        self.mpi_comm = None
        if len(set(self.ranks)) != len(self.ranks):
            raise ValueError(f"a rank is named twice: {list(ranks)}")
        self.process_set_id = None

    def _number(self):
        if self.process_set_id is None:
            raise ValueError("Process set has not been added; use hvd.add_process_set() or "
                             "hvd.init(process_sets=...).")
        return self.process_set_id

    def included(self):
        """Is this rank a member?"""
        return rank() in self.ranks if self.process_set_id is not None else None

    def rank(self):
        """This rank's number among the members."""
        if self.process_set_id is None:
            return None
        if not self.included():
            raise ValueError(f"Rank {rank()} is not a member of the provided process set.")
        return self.ranks.index(rank())

    def size(self):
        """How many members there are."""
        return len(self.ranks) if self.process_set_id is not None else None

    def _member(self, world_rank):
        if world_rank not in self.ranks:
            raise ValueError(f"rank {world_rank} is not a member of the process set {self.ranks}")
        return self.ranks.index(world_rank)

    def __str__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, ProcessSet) and self.ranks == other.ranks

    def __hash__(self):
        return hash(tuple(self.ranks))


class _World(ProcessSet):
    def __init__(self):
        super().__init__([])

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__


global_process_set = _World()
_sets: Dict[int, ProcessSet] = {}


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Join the job. `process_sets` is a list of ProcessSet, or "dynamic" (always allowed here).
    A second call does nothing, as in Horovod."""
    global _job, _is_tuned
    if comm is not None and not isinstance(comm, (list, tuple)):
        raise ValueError("comm: MPI communicators are not used here; leave it out")
    with _lock:
        if _job is not None:
            return
        words = variables.apply()
        try:
            _job = tutti.init(secret=torchrun.secret())
        except errors.BadConfig as problem:
            text = variables.blame(str(problem))
            variables.forget()
            raise errors.BadConfig(text, problem.status) from None
        variables.tell(words, _job.rank)
        _is_tuned = variables.is_tuned()
        if comm is not None and sorted(comm) != list(range(_job.size)):
            shutdown()
            raise ValueError("comm: a job of a part of the ranks is a process set here; give "
                             "process_sets=[hvd.ProcessSet(ranks)]")
        global_process_set.ranks = list(range(_job.size))
        global_process_set.process_set_id = 0
        _sets[0] = global_process_set
        _names.clear()
        timeline = os.environ.get("HOROVOD_TIMELINE")
        if timeline and timeline != "DYNAMIC":
            start_timeline(timeline)
        if process_sets not in (None, "dynamic"):
            for process_set in process_sets:
                add_process_set(process_set)


def shutdown() -> None:
    """Leave the job. May be repeated, and init() joins again."""
    global _job
    with _lock:
        left, _job = _job, None
        for process_set in _sets.values():
            process_set.process_set_id = None
        _sets.clear()
        _names.clear()
        if left is not None:
            left.shutdown()


atexit.register(shutdown)


def step_is_over() -> None:
    """Marks the end of a training step; tuning, if it is on, uses its time."""
    if _is_tuned and _job is not None:
        _job.step()


def step_was_skipped() -> None:
    """Gradients were exchanged and thrown away: codecs keep what they kept before. Without steps
    each call counts by itself."""
    if _is_tuned and _job is not None:
        _job.step_undo()


def codec_unit(unit: float) -> None:
    """Gradients are multiplied by another factor from now on: what error feedback keeps follows.
    With a GradScaler: hvd.codec_unit(scaler.get_scale()) after scaler.update()."""
    job().codec_unit(unit)


def codec_reset() -> None:
    """Forget what error feedback keeps of all coded tensors; every rank calls it."""
    job().codec_reset()


def codec_norm() -> float:
    """The norm of what error feedback keeps on this rank."""
    return job().codec_norm()


def counters(process_set: ProcessSet = global_process_set) -> Dict[str, Any]:
    """Counters of this rank so far: bytes, calls, times."""
    return job().count(process_set._number())


def is_initialized() -> bool:
    """Between init and shutdown?"""
    return _job is not None


def rank() -> int:
    """Number of this process in the job."""
    return job().rank


def size() -> int:
    """Processes in the job."""
    return job().size


def local_rank() -> int:
    """Number of this process among those of its host."""
    return job().local_rank


def local_size() -> int:
    """Processes on this host."""
    return job().local_size


def cross_rank() -> int:
    """Number of this host."""
    return job().cross_rank


def cross_size() -> int:
    """Number of hosts."""
    return job().cross_size


def is_homogeneous() -> bool:
    """Does every host run the same number of processes?"""
    return job().local_size * job().cross_size == job().size


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Create the set; every rank calls it with the same ranks. Returns it, with its number."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    with _lock:
        for known in _sets.values():
            if known.ranks == process_set.ranks:
                if process_set is known:
                    raise ValueError("A process set with the same ranks already exists.")
                raise ValueError(f"A process set with the same ranks already exists: {known}")
        try:
            process_set.process_set_id = job().create_set(process_set.ranks)
        except errors.BadArgument as problem:
            raise ValueError(str(problem)) from None
        except tutti.TuttiError as problem:
            raise HorovodInternalError(str(problem)) from problem
        _sets[process_set.process_set_id] = process_set
        return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove the set; every rank calls it. False if it cannot be removed."""
    with _lock:
        number = process_set.process_set_id
        if number is None or number == 0 or number not in _sets:
            return False
        job().remove_set(number)
        process_set.process_set_id = None
        del _sets[number]
        return True


def process_set_ids() -> List[int]:
    """Numbers of the sets that exist."""
    return sorted(_sets)


def get_process_set_ids_and_ranks() -> Dict[int, List[int]]:
    """The ranks of every set, by its number."""
    return {number: list(_sets[number].ranks) for number in sorted(_sets)}


def process_set_by_id(process_set_id: int) -> ProcessSet:
    """The set of this number."""
    if process_set_id not in _sets:
        raise ValueError(f"No known process set with id {process_set_id}")
    return _sets[process_set_id]


def process_sets() -> List[ProcessSet]:
    """All sets, by number."""
    return [_sets[number] for number in sorted(_sets)]


def is_alone(process_set: ProcessSet) -> bool:
    """Is there no other rank to exchange with: is this rank the only member, or not a member?"""
    return process_set.size() == 1 or process_set.included() is False


def next_name(kind: str, process_set: ProcessSet) -> str:
    """Horovod's name for a call without one; counted per kind and process set, so that calls match
    by order."""
    with _lock:
        key = (kind, process_set._number())
        number = _names.get(key, 0)
        _names[key] = number + 1
    suffix = f".set{key[1]}" if key[1] else ""
    return f"{kind}.noname.{number}{suffix}"


def restart_names():
    """Count calls without a name from 0 again; all ranks do so at the same point."""
    with _lock:
        for key in [key for key in _names if key[1] == 0]:
            del _names[key]


# ---- what Horovod was built with; Tutti brings its own transports ----

def mpi_threads_supported() -> bool:
    """False: no MPI is used."""
    return False


def mpi_enabled() -> bool:
    """True: Tutti does without MPI what Horovod needs MPI for, such as Adasum."""
    return True


def mpi_built() -> bool:
    """True: Tutti does without MPI what Horovod needs MPI for, such as Adasum."""
    return True


def gloo_enabled() -> bool:
    """True: Tutti does without Gloo what Horovod needs Gloo for."""
    return True


def gloo_built() -> bool:
    """True: Tutti does without Gloo what Horovod needs Gloo for."""
    return True


def nccl_built() -> int:
    """0: no NCCL."""
    return 0


def ddl_built() -> bool:
    """False."""
    return False


def ccl_built() -> bool:
    """False."""
    return False


def cuda_built() -> bool:
    """False: device tensors go through host memory."""
    return False


def rocm_built() -> bool:
    """False: device tensors go through host memory."""
    return False


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Record the time that calls spend in each stage, in Chrome's trace format. Rank 0 writes
    `file_path`, the others write beside it, with their number appended. There are no cycles to
    mark."""
    own = job()
    try:
        own.start_trace(file_path if own.rank == 0 else f"{file_path}.{own.rank}")
    except tutti.TuttiError as problem:
        raise ValueError(str(problem)) from problem


def stop_timeline() -> None:
    """Close the timeline's file."""
    job().stop_trace()
