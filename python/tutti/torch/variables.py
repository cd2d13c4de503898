# SPDX-License-Identifier: Apache-2.0
"""Horovod's variables, read when a job is joined: scripts set them just before.

Each is honoured (it becomes a TUTTI_* setting, unless that is set already), ignored with a message,
or refused. Ranks and sizes (HOROVOD_RANK and the like) are read by the C library."""

import os
import re
import sys

_LEVELS = {"trace": "debug", "debug": "debug", "info": "info", "warning": "warn", "warn": "warn",
           "error": "error", "fatal": "error"}


def _fusion(value):
    """A threshold of 0 switches fusion off."""
    return ("TUTTI_FUSE", "0") if value.strip() == "0" else ("TUTTI_FUSE_BATCH", value)


def _no_stall_check(value):
    """A call that waits is not reported for a year."""
    return ("TUTTI_STALL_WARNING", "31536000") if value != "0" else None


def _autotune(value):
    return ("TUTTI_TUNE", "yes") if value != "0" else None


HONOURED = {
    "HOROVOD_AUTOTUNE": _autotune,
    "HOROVOD_STALL_CHECK_DISABLE": _no_stall_check,
    "HOROVOD_CACHE_CAPACITY": lambda value: ("TUTTI_CACHE_CAPACITY", value),
    "HOROVOD_FUSION_THRESHOLD": _fusion,
    "HOROVOD_GLOO_IFACE": lambda value: ("TUTTI_INTERFACE", value),
    "HOROVOD_START_TIMEOUT": lambda value: ("TUTTI_START_TIMEOUT", value),
    "HOROVOD_LOG_LEVEL": lambda value: ("TUTTI_LOG", _LEVELS.get(value.lower(), value)),
    "HOROVOD_STALL_CHECK_TIME_SECONDS": lambda value: ("TUTTI_STALL_WARNING", value),
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": lambda value: ("TUTTI_STALL_FAILURE", value),
}

_BY_ITSELF = "the algorithm is chosen by size, placement and cost"
_NO_MPI = "no MPI, NCCL or CCL is used"
_NO_SAMPLES = "tuning takes 15 samples at most; TUTTI_PROFILE=FILE saves its result"
_NOTHING_BUILT = "nothing is built against a framework or a communication library"
_NO_SPARK = "Spark is not supported; start the ranks with tutti run"
IGNORED = {
    "HOROVOD_CYCLE_TIME": "there is no cycle: work starts when it is submitted",
    "HOROVOD_HIERARCHICAL_ALLREDUCE": _BY_ITSELF,
    "HOROVOD_HIERARCHICAL_ALLGATHER": _BY_ITSELF,
    "HOROVOD_TORUS_ALLREDUCE": _BY_ITSELF,
    "HOROVOD_AUTOTUNE_LOG": _NO_SAMPLES,
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": _NO_SAMPLES,
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": _NO_SAMPLES,
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": _NO_SAMPLES,
    "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE": _NO_SAMPLES,
    "HOROVOD_TIMELINE_MARK_CYCLES": "there is no cycle: work starts when it is submitted",
    "HOROVOD_GLOO_TIMEOUT_SECONDS": "ranks may be late; TUTTI_TIMEOUT sets a deadline for calls",
    "HOROVOD_MPI_THREADS_DISABLE": _NO_MPI,
    "HOROVOD_NUM_NCCL_STREAMS": _NO_MPI,
    "HOROVOD_CCL_CACHE": _NO_MPI,
    "HOROVOD_CCL_BGT_AFFINITY": _NO_MPI,
    "HOROVOD_ADASUM_MPI_CHUNK_SIZE": _NO_MPI,
    "HOROVOD_BATCH_D2D_MEMCOPIES": "device tensors go through host memory",
    "HOROVOD_ENABLE_ASYNC_COMPLETION": "device tensors go through host memory",
    "HOROVOD_ENABLE_XLA_OPS": "TensorFlow is not supported",
    "HOROVOD_DISABLE_GROUP_FUSION": "groups are exchanged by themselves anyway",
    "HOROVOD_DYNAMIC_PROCESS_SETS": "process sets can always be added",
    "HOROVOD_THREAD_AFFINITY": "use tutti run --bind",
    "HOROVOD_LOG_HIDE_TIME": "log lines have no timestamps",
    "HOROVOD_DISABLE_NVTX_RANGES": "there are no NVTX ranges",
    "HOROVOD_ELASTIC_TIMEOUT": "a job does not grow or shrink",
    "HOROVOD_SECRET_KEY": "a job has a secret of its own",
}
# Values that equal the default and are set by launchers: no message.
SILENT = {"HOROVOD_CONTROLLER": ("gloo",), "HOROVOD_CPU_OPERATIONS": ("gloo",)}
BY_PREFIX = {
    "HOROVOD_CONTROLLER": _NO_MPI,
    "HOROVOD_CPU_OPERATIONS": _NO_MPI,
    "HOROVOD_SPARK_": _NO_SPARK,
    "HOROVOD_WITH_": _NOTHING_BUILT,
    "HOROVOD_WITHOUT_": _NOTHING_BUILT,
    "HOROVOD_GPU": _NOTHING_BUILT,
    "HOROVOD_CUDA_HOME": _NOTHING_BUILT,
    "HOROVOD_NCCL_": _NOTHING_BUILT,
    "HOROVOD_ROCM_HOME": _NOTHING_BUILT,
    "HOROVOD_CMAKE": _NOTHING_BUILT,
    "HOROVOD_BUILD_": _NOTHING_BUILT,
    "HOROVOD_DEBUG": _NOTHING_BUILT,
    "HOROVOD_SKIP_COMPILE": _NOTHING_BUILT,
    "HOROVOD_ALLOW_MIXED_GPU_IMPL": _NOTHING_BUILT,
}
# Read elsewhere: by the C library, or at init.
READ_ELSEWHERE = ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
                  "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_HOSTNAME",
                  "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT",
                  "HOROVOD_TIMELINE")
REFUSED = {
    "HOROVOD_ELASTIC": "a job does not grow or shrink; unset it",
}


def why_ignored(name):
    """Why a variable has no effect; None for those that have one."""
    if name in HONOURED or name in READ_ELSEWHERE or name in REFUSED:
        return None
    if name in IGNORED:
        return IGNORED[name]
    for prefix, why in BY_PREFIX.items():
        if name.startswith(prefix):
            return why
    return "Horovod does not document it"


_carried = {}  # TUTTI_* settings made from Horovod's variables: their names and values


def forget():
    """Remove the settings of apply(), so that the variables are read again next time."""
    for setting, (_, value) in _carried.items():
        if os.environ.get(setting) == value:
            del os.environ[setting]
    _carried.clear()


def blame(text):
    """`text` with the names of the variables that the user has set."""
    for setting, (name, value) in _carried.items():
        text = re.sub(rf"\b{setting}\b", f"{name} ({setting} here)", text)
    return text


def apply():
    """Turn Horovod's variables into settings. Returns a message for the user: one line, or ''."""
    forget()
    words = []
    for name, why in REFUSED.items():
        if os.environ.get(name) not in (None, "", "0"):
            raise ValueError(f"{name}: {why}")
    for name, setting_of in HONOURED.items():
        value = os.environ.get(name)
        setting = setting_of(value) if value else None
        if setting is not None and setting[0] not in os.environ:
            os.environ[setting[0]] = setting[1]
            _carried[setting[0]] = name, setting[1]
    for name in sorted(os.environ):
        value = os.environ[name]
        if not name.startswith("HOROVOD_") or not value or value.lower() in SILENT.get(name, ()):
            continue
        why = why_ignored(name)
        if why is not None:
            words.append(f"{name} ({why})")
    return "ignored: " + ", ".join(words) if words else ""


def is_tuned():
    """Is tuning on, so that steps must be counted?"""
    return os.environ.get("TUTTI_TUNE", "").lower() in ("1", "yes", "true", "on")


def tell(words, rank):
    """Rank 0 prints the message."""
    if words and rank == 0:
        print(f"tutti: {words}", file=sys.stderr, flush=True)
