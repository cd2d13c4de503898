# SPDX-License-Identifier: Apache-2.0
"""Helpers of horovod.runner that scripts and their tests import. Horovod's names and meanings."""

from __future__ import annotations

import base64
import collections
import hashlib
import os
import pickle
import queue
import secrets
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import horovodrun


def in_thread(target: Callable[..., Any], args: Tuple[Any, ...] = (), name: Optional[str] = None,
              daemon: bool = True, silent: bool = False) -> threading.Thread:
    """Call `target` in a thread, which is returned. `silent` drops its exceptions."""
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}, for a single argument use "
                         f"(arg,)")

    def call() -> None:
        try:
            target(*args)
        except Exception:
            if not silent:
                raise

    thread = threading.Thread(target=call, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(event: threading.Event, func: Callable[..., Any], args: Tuple[Any, ...] = (),
             stop: Optional[threading.Event] = None, check_stop_interval_s: float = 1.0,
             daemon: bool = True, silent: bool = False) -> threading.Thread:
    """Call `func` in a thread once `event` is set, unless `stop` is set before."""
    def wait() -> None:
        while not event.wait(check_stop_interval_s if stop is not None else None):
            if stop is not None and stop.is_set():
                return
        func(*args)

    return in_thread(wait, daemon=daemon, silent=silent)


def execute_function_multithreaded(fn: Callable[..., Any], args_list: Sequence[Sequence[Any]],
                                   block_until_all_done: bool = True,
                                   max_concurrent_executions: int = 1000
                                   ) -> Optional[Dict[int, Any]]:
    """fn(*args) for each of the argument lists, in threads; the results by index. An exception is
    raised here."""
    work: queue.Queue[Tuple[int, Sequence[Any]]] = queue.Queue()
    results: Dict[int, Any] = {}
    problems: List[BaseException] = []
    for item in enumerate(args_list):
        work.put(item)

    def run() -> None:
        while not problems:
            try:
                index, args = work.get_nowait()
            except queue.Empty:
                return
            try:
                results[index] = fn(*args)
            except BaseException as problem:
                problems.append(problem)

    count = min(max_concurrent_executions, len(args_list))
    threads = [in_thread(run) for _ in range(count)]
    if not block_until_all_done:
        return None
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return results


class TimeoutException(Exception):
    """The deadline of a Timeout has passed."""


class Timeout:
    """A deadline `timeout` seconds from now."""

    def __init__(self, timeout: float, message: str) -> None:
        self._end, self._timeout, self._message = time.monotonic() + timeout, timeout, message

    def remaining(self) -> float:
        """Seconds left; not below 0."""
        return max(0.0, self._end - time.monotonic())

    def timed_out(self) -> bool:
        """Has the deadline passed?"""
        return self.remaining() == 0.0

    def check_time_out_for(self, activity: str) -> None:
        """Raise TimeoutException if the deadline has passed."""
        if self.timed_out():
            raise TimeoutException(self._message.format(activity=activity, timeout=self._timeout))


HostInfo = collections.namedtuple("HostInfo", "hostname slots")
SlotInfo = collections.namedtuple(
    "SlotInfo", "hostname rank local_rank cross_rank size local_size cross_size")


def parse_hosts(hosts_string: str) -> List[HostInfo]:
    """"a:2,b:4" as a list."""
    hosts = []
    for text in hosts_string.split(","):
        name, _, slots = text.strip().partition(":")
        if not name or not (slots or "1").isdigit():
            raise ValueError("Invalid host input, please make sure it has format as : "
                             "worker-0:2,worker-1:2.")
        hosts.append(HostInfo(name, int(slots or 1)))
    return hosts


def get_host_assignments(hosts: Sequence[HostInfo], min_num_proc: int,
                         max_num_proc: Optional[int] = None) -> List[SlotInfo]:
    """Placement of the ranks: hosts in order, all slots of one before the next."""
    places = [(host, slot) for host in hosts for slot in range(host.slots)]
    if len(places) < min_num_proc:
        raise ValueError(f"Requested more processes ({min_num_proc}) than there are available "
                         f"slots ({len(places)})")
    places = places[:max_num_proc or min_num_proc]
    local = collections.Counter(host.hostname for host, _ in places)
    across = collections.Counter(slot for _, slot in places)
    seen: Dict[int, int] = {}
    result = []
    for rank, (host, slot) in enumerate(places):
        cross = seen[slot] = seen.get(slot, -1) + 1
        result.append(SlotInfo(host.hostname, rank, slot, cross, len(places),
                               local[host.hostname], across[slot]))
    return result


def dumps_base64(obj: Any, to_ascii: bool = True) -> Any:
    """The pickled object as text."""
    encoded = base64.b64encode(pickle.dumps(obj))
    return encoded.decode("ascii") if to_ascii else encoded


def loads_base64(encoded: Any) -> Any:
    """The object of dumps_base64. Only for text of this job's own ranks: it is unpickled."""
    return pickle.loads(base64.b64decode(encoded))


def make_secret_key() -> bytes:
    """A new key of 32 bytes."""
    return secrets.token_bytes(32)


def host_hash(salt: Optional[str] = None) -> str:
    """A text that is the same for all processes of a host."""
    text = f"{socket.gethostname()}-{os.environ.get('CONTAINER_ID', '')}-{salt or ''}"
    return f"{socket.gethostname()}-{hashlib.sha256(text.encode()).hexdigest()}"


class Arguments:
    """The launcher's flags as attributes, under argparse's names; None if one was not given."""

    def __init__(self, values: Dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in _attributes():
            raise AttributeError(f"horovodrun has no flag --{name.replace('_', '-')}")
        return None


_SHORT = {"-np": "num_proc", "-H": "hosts", "-p": "ssh_port", "-i": "ssh_identity_file",
          "-v": "version", "-cb": "check_build", "-hostfile": "hostfile"}


def _attribute(flag: str) -> str:
    return _SHORT.get(flag, flag.lstrip("-").replace("-", "_"))


def _attributes() -> List[str]:
    tables = (horovodrun.HONOURED, horovodrun.SWITCHES, horovodrun.SSH, horovodrun.IGNORED,
              horovodrun.REFUSED)
    return [_attribute(flag) for table in tables for flag in table] + ["command", "np"]


def parse_args(arguments: Optional[Sequence[str]] = None) -> Arguments:
    """Parse horovodrun's command line, with its checks; `command` is that of the program."""
    import sys

    rest = list(sys.argv[1:] if arguments is None else arguments)
    command, _ = horovodrun.translate(rest)
    values: Dict[str, Any] = {}
    while rest and rest[0].startswith("-") and rest[0] != "--":
        flag, has_value, value = rest.pop(0).partition("=")
        given: Any = True
        takes = (flag in horovodrun.SSH or horovodrun.HONOURED.get(flag, (0,))[0]
                 or horovodrun.IGNORED.get(flag, 0))
        if takes:
            given = value if has_value else rest.pop(0)
            given = int(given) if given.isdigit() else given
        values[_attribute(flag)] = given
    values["command"] = rest[1:] if rest[:1] == ["--"] else rest
    values.setdefault("np", values.get("num_proc"))
    return Arguments(values)
