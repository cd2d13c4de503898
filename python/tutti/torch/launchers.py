# SPDX-License-Identifier: Apache-2.0
"""torch's env:// under launchers that do not set torchrun's variables (mpirun, srun): Tutti finds
the ranks, and broadcasts the address at which rank 0 serves torch's store."""

import contextlib
import os

import torch.distributed as dist

import tutti

from . import basics, meeting

_PLACE_BYTES = 512


def _running_job():
    """hvd's job, if there is one: under MPICH's launcher a process can get its rank only once."""
    return contextlib.nullcontext(basics.job()) if basics.is_initialized() else tutti.init()


def _open_store(job, options):
    """torch's store, served by rank 0; the job broadcasts its address and port."""
    place = bytearray(_PLACE_BYTES)
    store = None
    if job.rank == 0:
        address = meeting.own_address() if job.cross_size > 1 else "localhost"
        store = dist.TCPStore(address, 0, job.size, True, wait_for_workers=False, **options)
        words = f"{store.port} {address}".encode()
        place[:len(words)] = words
    job.broadcast(place, 0)
    if store is None:
        port, _, address = place.rstrip(b"\0").decode().partition(" ")
        store = dist.TCPStore(address, int(port), job.size, False, **options)
    return store


def env(older):
    """torch's env:// for every launcher that Tutti knows. If torch's variables are set, or no
    launcher is found, torch's own handler is used."""
    def meet(url, timeout=None, **options):
        options = options if timeout is None else {"timeout": timeout, **options}
        store = None
        if not (any(name in os.environ for name in ("RANK", "MASTER_ADDR")) or "rank=" in url):
            with _running_job() as job:
                rank, size = job.rank, job.size
                if size > 1:
                    store = _open_store(job, {} if timeout is None else {"timeout": timeout})
        if store is None:
            yield from older(url, **options)
        else:
            yield store, rank, size

    meet.serves_launchers = True
    return meet


def serve():
    """Make init_process_group("tutti") without an address work under mpirun and srun, too."""
    handlers = getattr(dist.rendezvous, "__globals__", {}).get("_rendezvous_handlers", {})
    older = handlers.get("env")
    if older is not None and not hasattr(older, "serves_launchers"):
        handlers["env"] = env(older)
