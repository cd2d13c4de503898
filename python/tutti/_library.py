# SPDX-License-Identifier: Apache-2.0
"""The C library through ctypes: its path, its structs and its functions.

Every function that may wait is called through CDLL, which lets other Python threads run meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from typing import Any, Dict, List, Optional, Sequence, Tuple

ALLREDUCE, REDUCE, BROADCAST, ALLGATHER, GATHER, SCATTER = range(6)
REDUCESCATTER, ALLTOALL, SEND, RECEIVE, BARRIER = range(6, 11)

U8, I8, U16, I16, I32, I64, F16, BF16, F32, F64, BOOL = range(11)
ITEM_BYTES = (1, 1, 2, 2, 4, 8, 2, 2, 4, 8, 1)

SUM, AVERAGE, MIN, MAX, PRODUCT, AND, OR, XOR, ADASUM = range(9)
OPS = {"sum": SUM, "average": AVERAGE, "mean": AVERAGE, "min": MIN, "max": MAX,
       "product": PRODUCT, "and": AND, "or": OR, "xor": XOR, "adasum": ADASUM}

ALONE, EXPECTED, GRADIENT = 8, 16, 32  # flags of calls
TAG_MAX = 16777215
ANY_SOURCE = -1

OK, IN_PROGRESS = 0, 1

STORE_PUSH, STORE_PULL, STORE_PUSH_PULL, STORE_CLOCK = range(4)
STORE_NOW = 2**64 - 1

LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


class Options(ctypes.Structure):
    """tutti_options"""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("rank", ctypes.c_int), ("size", ctypes.c_int),
                ("rendezvous", ctypes.c_char_p), ("job_id", ctypes.c_char_p),
                ("secret", ctypes.c_char_p), ("transport", ctypes.c_char_p), ("log", LOG),
                ("log_user", ctypes.c_void_p), ("timeout_s", ctypes.c_double),
                ("listen_fd", ctypes.c_int), ("servers", ctypes.c_int)]


class Call(ctypes.Structure):
    """tutti_call"""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("collective", ctypes.c_int),
                ("dtype", ctypes.c_int), ("op", ctypes.c_int), ("root", ctypes.c_int),
                ("set", ctypes.c_uint32), ("priority", ctypes.c_int), ("name", ctypes.c_char_p),
                ("input", ctypes.c_void_p), ("output", ctypes.c_void_p),
                ("count", ctypes.c_uint64), ("output_capacity", ctypes.c_uint64),
                ("input_counts", ctypes.POINTER(ctypes.c_uint64)),
                ("output_counts", ctypes.POINTER(ctypes.c_uint64)),
                ("result_out", ctypes.POINTER(ctypes.c_void_p)), ("prescale", ctypes.c_double),
                ("postscale", ctypes.c_double), ("timeout_s", ctypes.c_double),
                ("device", ctypes.c_int), ("stream", ctypes.c_void_p), ("done", DONE),
                ("done_user", ctypes.c_void_p), ("group", ctypes.c_char_p),
                ("group_size", ctypes.c_int), ("flags", ctypes.c_uint), ("ndim", ctypes.c_int),
                ("dims", ctypes.POINTER(ctypes.c_uint64)), ("tag", ctypes.c_int),
                ("source_out", ctypes.POINTER(ctypes.c_int)), ("codec", ctypes.c_char_p)]


class Counters(ctypes.Structure):
    """tutti_counters"""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("steps", ctypes.c_uint64),
                ("rounds", ctypes.c_uint64), ("turns", ctypes.c_uint64),
                ("messages", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("sizes", ctypes.c_uint64 * 16), ("agreed", ctypes.c_uint64),
                ("planned", ctypes.c_uint64), ("failed", ctypes.c_uint64),
                ("plans_made", ctypes.c_uint64), ("plans_cut", ctypes.c_uint64),
                ("evictions", ctypes.c_uint64), ("invalidations", ctypes.c_uint64),
                ("bundles", ctypes.c_uint64), ("copied_bytes", ctypes.c_uint64),
                ("negotiation_ns", ctypes.c_uint64), ("queueing_ns", ctypes.c_uint64),
                ("late_ns", ctypes.c_uint64), ("exchange_ns", ctypes.c_uint64),
                ("mode", ctypes.c_char * 16), ("launched", ctypes.c_uint64),
                ("copying_ns", ctypes.c_uint64), ("step_count", ctypes.c_uint64),
                ("step_ns", ctypes.c_uint64), ("compute_ns", ctypes.c_uint64),
                ("network_ns", ctypes.c_uint64), ("rho", ctypes.c_double),
                ("alpha", ctypes.c_double), ("utilisation", ctypes.c_double),
                ("efficiency", ctypes.c_double), ("held", ctypes.c_uint64),
                ("overtaken", ctypes.c_uint64), ("chunk_bytes", ctypes.c_uint64),
                ("credit_bytes", ctypes.c_uint64), ("fuse_bytes", ctypes.c_uint64),
                ("coded_calls", ctypes.c_uint64), ("coded_raw_bytes", ctypes.c_uint64),
                ("coded_wire_bytes", ctypes.c_uint64), ("coding_ns", ctypes.c_uint64),
                ("uncoded", ctypes.c_uint64), ("codec_bytes", ctypes.c_uint64)]


class StoreConfig(ctypes.Structure):
    """tutti_store_config"""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("policy", ctypes.c_char_p),
                ("update", ctypes.c_char_p), ("codec", ctypes.c_char_p)]


class StoreCounts(ctypes.Structure):
    """tutti_store_counts"""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("clock", ctypes.c_uint64),
                ("least", ctypes.c_uint64), ("pushes", ctypes.c_uint64),
                ("pulls", ctypes.c_uint64), ("pushed_bytes", ctypes.c_uint64),
                ("pulled_bytes", ctypes.c_uint64), ("not_counted", ctypes.c_uint64),
                ("clock_waits", ctypes.c_uint64), ("clock_wait_ns", ctypes.c_uint64),
                ("pull_waits", ctypes.c_uint64), ("pull_wait_ns", ctypes.c_uint64),
                ("dropped", ctypes.c_uint64), ("staleness", ctypes.c_uint64 * 64)]


class SyncCounts(ctypes.Structure):
    """tutti_sync_counts"""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("steps", ctypes.c_uint64),
                ("rounds", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("waits", ctypes.c_uint64), ("wait_ns", ctypes.c_uint64),
                ("distance", ctypes.c_double)]


class StoreCall(ctypes.Structure):
    """tutti_store_call"""

    _fields_ = [("struct_bytes", ctypes.c_size_t), ("verb", ctypes.c_int),
                ("name", ctypes.c_char_p), ("input", ctypes.c_void_p),
                ("output", ctypes.c_void_p), ("priority", ctypes.c_int),
                ("clock_out", ctypes.POINTER(ctypes.c_uint64)),
                ("counted_out", ctypes.POINTER(ctypes.c_int)), ("done", DONE),
                ("done_user", ctypes.c_void_p), ("rows", ctypes.POINTER(ctypes.c_uint64)),
                ("row_count", ctypes.c_size_t)]


def new_call(collective: int) -> Call:
    """A call with the defaults of TUTTI_CALL_INIT."""
    call = Call()
    call.struct_bytes = ctypes.sizeof(Call)
    call.collective = collective
    call.dtype = F32
    call.prescale = call.postscale = 1.0
    call.device = -1
    return call


def encoded_codec(codec: Optional[str]) -> Optional[bytes]:
    """A codec as a field of a call. TypeError for what is not a text."""
    if codec is None:
        return None
    if not isinstance(codec, str):
        raise TypeError(f"a codec is a text such as 'int8:block=512', not a "
                        f"{type(codec).__name__}")
    return codec.encode()


@functools.lru_cache(maxsize=4096)
def _dims(shape: Tuple[int, ...]) -> Any:
    return (ctypes.c_uint64 * len(shape))(*shape)


def set_shape(call: Call, shape: Sequence[int]) -> None:
    """Set the shape, which the ranks compare; a scalar has none."""
    call.ndim = len(shape)
    if call.ndim:
        call.dims = _dims(tuple(shape))


_PROTOTYPES: Dict[str, Tuple[Any, List[Any]]] = {
    "tutti_version": (ctypes.c_char_p, []),
    "tutti_init": (ctypes.c_int, [ctypes.POINTER(Options), ctypes.POINTER(ctypes.c_void_p)]),
    "tutti_shutdown": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_abort": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    "tutti_rank": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_size": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_local_rank": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_local_size": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_cross_rank": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_cross_size": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_last_error": (ctypes.c_char_p, [ctypes.c_void_p]),
    "tutti_status_text": (ctypes.c_char_p, [ctypes.c_int]),
    "tutti_alloc": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t]),
    "tutti_free": (None, [ctypes.c_void_p, ctypes.c_void_p]),
    "tutti_set_create": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int),
                                        ctypes.c_int, ctypes.POINTER(ctypes.c_uint32)]),
    "tutti_set_create_keyed": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int),
                                              ctypes.c_int, ctypes.c_uint32,
                                              ctypes.POINTER(ctypes.c_uint32)]),
    "tutti_set_remove": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint32]),
    "tutti_set_rank": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint32]),
    "tutti_set_size": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint32]),
    "tutti_start": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(Call),
                                   ctypes.POINTER(ctypes.c_void_p)]),
    "tutti_start_group": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(Call), ctypes.c_int,
                                         ctypes.POINTER(ctypes.c_void_p)]),
    "tutti_run": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(Call)]),
    "tutti_run_for": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(Call), ctypes.c_double,
                                     ctypes.POINTER(ctypes.c_void_p)]),
    "tutti_wait": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_double]),
    "tutti_poll": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_handle_error": (ctypes.c_char_p, [ctypes.c_void_p]),
    "tutti_cancel": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_handle_free": (None, [ctypes.c_void_p]),
    "tutti_declare": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(Call),
                                     ctypes.POINTER(ctypes.c_void_p)]),
    "tutti_restart": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_restart_at": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "tutti_event_fd": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_event_clear": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_trace_start": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    "tutti_trace_stop": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_describe": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
}
# Of later versions of the library; None where it lacks them.
_OPTIONAL: Dict[str, Tuple[Any, List[Any]]] = {
    "tutti_refuse": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(Call), ctypes.c_char_p]),
    "tutti_arena_hold": (ctypes.c_void_p, [ctypes.c_void_p]),
    "tutti_arena_drop": (None, [ctypes.c_void_p]),
    "tutti_step": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_step_undo": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_join": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_int)]),
    "tutti_count": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(Counters)]),
    "tutti_codec_unit": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_double]),
    "tutti_codec_reset": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p]),
    "tutti_codec_save": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                        ctypes.POINTER(ctypes.c_size_t)]),
    "tutti_codec_load": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
    "tutti_codec_norm": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_double)]),
    "tutti_store_open": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(StoreConfig),
                                        ctypes.POINTER(ctypes.c_void_p)]),
    "tutti_store_close": (ctypes.c_int, [ctypes.c_void_p]),
    "tutti_store_add": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
                                       ctypes.c_size_t, ctypes.c_int]),
    "tutti_store_add_table": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
                                             ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]),
    "tutti_store_start": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(StoreCall),
                                         ctypes.POINTER(ctypes.c_void_p)]),
    "tutti_store_count": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(StoreCounts)]),
    "tutti_store_set": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_double,
                                       ctypes.c_uint64]),
    "tutti_store_save": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    "tutti_store_load": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    "tutti_store_reshard": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    "tutti_sync_open": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p,
                                       ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]),
    "tutti_sync_add": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
                                      ctypes.c_uint64, ctypes.c_int]),
    "tutti_sync_add_state": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
                                            ctypes.c_uint64, ctypes.c_int]),
    "tutti_sync_step": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]),
    "tutti_sync_flush": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]),
    "tutti_sync_save": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t,
                                       ctypes.POINTER(ctypes.c_size_t)]),
    "tutti_sync_load": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
    "tutti_sync_count": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(SyncCounts)]),
    "tutti_sync_close": (None, [ctypes.c_void_p]),
}


SONAME = "libtutti.so.0.1"  # of the header that this file describes; tests/install compares it


def candidates() -> List[str]:
    """Paths of the shared object, in order of preference."""
    chosen = os.environ.get("TUTTI_LIBRARY")
    if chosen:
        return [chosen]
    here = pathlib.Path(__file__).resolve().parent
    places = [here / "lib" / SONAME, here.parents[1] / "build" / SONAME,
              here.parents[1] / "build" / "lib" / SONAME]
    found = [str(place) for place in places if place.exists()]
    return found + [SONAME]


def _load() -> Any:
    problems = []
    for place in candidates():
        try:
            library = ctypes.CDLL(place)
        except OSError as problem:
            problems.append(f"{place}: {problem}")
            continue
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        for name, (result, arguments) in _OPTIONAL.items():
            function = getattr(library, name, None)
            if function is not None:
                function.restype, function.argtypes = result, arguments
            setattr(library, name, function)
        return library
    raise ImportError(f"{SONAME} was not found; install Tutti, or set TUTTI_LIBRARY to the "
                      "shared object. Tried: " + "; ".join(problems))


def without_release(name: str, arguments: Any) -> Any:
    """A function that never blocks, called without letting other Python threads run: cheaper. With
    `arguments` None it takes ctypes objects only."""
    function = getattr(ctypes.PyDLL(library._name), name)
    function.argtypes = arguments
    return function


library = _load()
