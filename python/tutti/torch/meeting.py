# SPDX-License-Identifier: Apache-2.0
"""Where the ranks of a torch.distributed group meet: the host of its first rank, as the others
reach it. And a store for scripts started by `tutti run`, which sets no variables of torchrun."""

import array
import os
import socket

import torch.distributed as dist

import tutti


def _first_host():
    """The host of the job's first rank, as its launcher wrote it; "" where nobody did."""
    place = os.environ.get("MASTER_ADDR") or os.environ.get("TUTTI_RENDEZVOUS", "")
    if place.startswith("tcp://"):
        place = place[len("tcp://"):].rpartition(":")[0]
    elif "://" in place:
        place = ""
    return place.strip("[]")


def own_address():
    """This host's address on the way to the job's first one: what ranks of other hosts can reach.
    A group's first rank need not be on the job's first host."""
    first = _first_host()
    try:
        kind, _, _, _, target = socket.getaddrinfo(first, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing
            return probe.getsockname()[0]
    except (OSError, IndexError):
        return first or socket.gethostname()


def _env(older):
    def env(url, timeout=None, **options):
        options = options if timeout is None else {"timeout": timeout, **options}
        is_ours = "TUTTI_RANK" in os.environ and not any(
            name in os.environ for name in ("RANK", "MASTER_ADDR"))
        if not is_ours or "rank=" in url:
            yield from older(url, **options)
            return
        with tutti.init() as job:
            place = {"timeout": timeout} if timeout is not None else {}
            store, port = None, array.array("q", [0])
            if job.rank == 0:
                store = dist.TCPStore(own_address(), 0, job.size, True, wait_for_workers=False,
                                      **place)
                port[0] = store.port
            job.broadcast(port, 0)
            if store is None:
                store = dist.TCPStore(_first_host() or own_address(), port[0], job.size, False,
                                      **place)
            rank, size = job.rank, job.size
        yield store, rank, size

    env.serves_tutti_run = True
    return env


def serve_tutti_run():
    """init_process_group("tutti") without an address works under `tutti run` too: its own job tells
    where torch's store is. Where torch's variables are set, torch's own way is taken."""
    handlers = getattr(dist.rendezvous, "__globals__", {}).get("_rendezvous_handlers", {})
    older = handlers.get("env")
    if older is not None and not hasattr(older, "serves_tutti_run"):
        handlers["env"] = _env(older)
