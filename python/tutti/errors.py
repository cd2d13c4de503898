# SPDX-License-Identifier: Apache-2.0
"""Exceptions. Each carries the status, the rank and the tensor's name."""


from __future__ import annotations

from typing import Any, Optional, Tuple


class TuttiError(RuntimeError):
    """A call failed. `status` is the C library's number, `rank` this process's rank or None before
    the job is joined, `name` the tensor's name or None."""

    status = 0

    def __init__(self, text: str, status: Optional[int] = None, rank: Optional[int] = None,
                 name: Optional[str] = None) -> None:
        super().__init__(text)
        if status is not None:
            self.status = status
        self.rank = rank
        self.name = name

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.args[0], self.status, self.rank, self.name)


class OutOfMemory(TuttiError, MemoryError):
    """Out of memory, on this rank or a peer."""


class BadConfig(TuttiError):
    """An option or environment variable is wrong; the text names it."""


class BadWire(TuttiError):
    """A peer sent malformed bytes."""


class BadArgument(TuttiError, ValueError):
    """An argument of this call is wrong. The peers' calls fail, too."""


class NameInUse(BadArgument):
    """Another call of this name is in flight on this rank. Only the new call fails."""

    def __init__(self, name: str, rank: Optional[int] = None) -> None:
        super().__init__(f"tensor '{name}' has the same name as another tensor that is currently "
                         "being processed; wait for it, or use a different name", -4, rank, name)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.name, self.rank)


class Mismatch(TuttiError):
    """The ranks disagree about a call; the text gives the arguments of each rank."""


class PeerDown(TuttiError):
    """A process or host died; the text names the rank."""


class PeerLeft(TuttiError):
    """A rank has left the job while others still make calls."""


class TimedOut(TuttiError, TimeoutError):
    """The call's deadline passed; the text names the ranks that are missing."""


class Cancelled(TuttiError):
    """The call was cancelled, on this rank or a peer."""


class ShutDown(TuttiError):
    """The job was left before the call was over."""


class NoResource(TuttiError, OSError):
    """Descriptors, shared memory or ports have run out; the text names which."""


class Refused(TuttiError, ConnectionError):
    """Authentication failed, or no secret was found."""


class Unsupported(TuttiError, NotImplementedError):
    """This combination of arguments is not supported."""


class SystemFailure(TuttiError, OSError):
    """A system call failed; the text names it."""


class Forked(TuttiError):
    """Called in a forked child, which must not use its parent's job."""


class WrongThread(TuttiError):
    """Waiting inside a callback."""


_BY_STATUS = {
    -1: OutOfMemory, -2: BadConfig, -3: BadWire, -4: BadArgument, -5: Mismatch, -6: PeerDown,
    -7: PeerLeft, -8: TimedOut, -9: Cancelled, -10: ShutDown, -11: NoResource, -12: Refused,
    -13: Unsupported, -14: SystemFailure, -15: Forked, -16: WrongThread,
}


def from_status(status: int, text: str, rank: Optional[int] = None,
                name: Optional[str] = None) -> TuttiError:
    """The exception for a negative status of the C library."""
    kind = _BY_STATUS.get(status, TuttiError)
    return kind(text or f"status {status}", status, rank, name)
