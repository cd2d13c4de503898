# SPDX-License-Identifier: Apache-2.0
"""Horovod's variables, read when a job is joined: scripts set them just before.

Each is honoured (it becomes a TUTTI_* setting, unless that is set already), ignored with a word, or
refused."""

import os
import sys

_LEVELS = {"trace": "debug", "debug": "debug", "info": "info", "warning": "warn", "warn": "warn",
           "error": "error", "fatal": "error"}


def _fusion(value):
    """A threshold of 0 switches fusion off."""
    return ("TUTTI_FUSE", "0") if value.strip() == "0" else ("TUTTI_FUSE_BATCH", value)


HONOURED = {
    "HOROVOD_CACHE_CAPACITY": lambda value: ("TUTTI_CACHE_CAPACITY", value),
    "HOROVOD_FUSION_THRESHOLD": _fusion,
    "HOROVOD_GLOO_IFACE": lambda value: ("TUTTI_INTERFACE", value),
    "HOROVOD_GLOO_TIMEOUT_SECONDS": lambda value: ("TUTTI_TIMEOUT", value),
    "HOROVOD_START_TIMEOUT": lambda value: ("TUTTI_START_TIMEOUT", value),
    "HOROVOD_LOG_LEVEL": lambda value: ("TUTTI_LOG", _LEVELS.get(value.lower(), value)),
    "HOROVOD_STALL_CHECK_TIME_SECONDS": lambda value: ("TUTTI_STALL_WARNING", value),
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": lambda value: ("TUTTI_STALL_FAILURE", value),
}

_BY_ITSELF = "the algorithm is chosen by size, placement and cost"
_NO_MPI = "no MPI, NCCL or CCL is used"
_NOT_TUNED = "live jobs are not tuned yet"
IGNORED = {
    "HOROVOD_CYCLE_TIME": "there is no cycle: work starts when it is submitted",
    "HOROVOD_HIERARCHICAL_ALLREDUCE": _BY_ITSELF,
    "HOROVOD_HIERARCHICAL_ALLGATHER": _BY_ITSELF,
    "HOROVOD_TORUS_ALLREDUCE": _BY_ITSELF,
    "HOROVOD_AUTOTUNE": _NOT_TUNED,
    "HOROVOD_AUTOTUNE_LOG": _NOT_TUNED,
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": _NOT_TUNED,
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": _NOT_TUNED,
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": _NOT_TUNED,
    "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE": _NOT_TUNED,
    "HOROVOD_TIMELINE_MARK_CYCLES": "there is no cycle: work starts when it is submitted",
    "HOROVOD_MPI_THREADS_DISABLE": _NO_MPI,
    "HOROVOD_NUM_NCCL_STREAMS": _NO_MPI,
    "HOROVOD_CCL_CACHE": _NO_MPI,
    "HOROVOD_ADASUM_MPI_CHUNK_SIZE": _NO_MPI,
    "HOROVOD_BATCH_D2D_MEMCOPIES": "device tensors go through host memory",
    "HOROVOD_ENABLE_ASYNC_COMPLETION": "device tensors go through host memory",
    "HOROVOD_ENABLE_XLA_OPS": "TensorFlow is not served",
    "HOROVOD_DISABLE_GROUP_FUSION": "groups are exchanged by themselves anyway",
    "HOROVOD_DYNAMIC_PROCESS_SETS": "process sets can always be added",
    "HOROVOD_THREAD_AFFINITY": "set TUTTI's by tutti run --bind",
    "HOROVOD_STALL_CHECK_DISABLE": "reports cost nothing",
    "HOROVOD_LOG_HIDE_TIME": "lines carry no time",
    "HOROVOD_DISABLE_NVTX_RANGES": "there are none",
}
REFUSED = {
    "HOROVOD_ELASTIC": "a job does not grow or shrink; unset it",
}


def apply():
    """Carry Horovod's variables over. Returns what to tell people, as one line or ''."""
    words = []
    for name, why in REFUSED.items():
        if os.environ.get(name) not in (None, "", "0"):
            raise ValueError(f"{name}: {why}")
    for name, setting_of in HONOURED.items():
        value = os.environ.get(name)
        if value:
            setting, text = setting_of(value)
            os.environ.setdefault(setting, text)
    for name, why in IGNORED.items():
        if os.environ.get(name):
            words.append(f"{name} ({why})")
    return "ignored: " + ", ".join(words) if words else ""


def tell(words, rank):
    """Rank 0 says it, once."""
    if words and rank == 0:
        print(f"tutti: {words}", file=sys.stderr, flush=True)
