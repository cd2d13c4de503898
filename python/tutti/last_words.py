# SPDX-License-Identifier: Apache-2.0
"""The first uncaught exception of a rank reaches all ranks.

sys.excepthook and threading.excepthook are wrapped when a job is joined. What they are called with
goes to the peers, whose pending calls fail with it at once; the older hook then does its work."""

from __future__ import annotations

import sys
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Optional, Type

from .errors import PeerDown, PeerLeft

if TYPE_CHECKING:
    from .context import Context

_contexts: weakref.WeakSet[Context] = weakref.WeakSet()
_hooks: Dict[str, Any] = {}
_TEXT_BYTES_MAX = 180


def watch(context: Context) -> None:
    """Tell this job's ranks of uncaught exceptions, as long as it is open. Somebody else's hook
    that came after ours stays, and may call ours: an exception is told once."""
    _contexts.add(context)
    if sys.excepthook is not _hooks.get("main"):
        _hooks["main"] = sys.excepthook = _for_main(sys.excepthook)
    if threading.excepthook is not _hooks.get("thread"):
        _hooks["thread"] = threading.excepthook = _for_threads(threading.excepthook)


def _is_echo(problem: Optional[BaseException]) -> bool:
    """Another rank's end, which everyone hears of from that rank."""
    while problem is not None:
        if isinstance(problem, (PeerDown, PeerLeft)):
            return True
        problem = problem.__cause__
    return False


def tell(context: Context, kind: Type[BaseException], problem: Optional[BaseException]) -> None:
    """Tell this job's ranks why this one cannot go on."""
    if problem is not None and _is_echo(problem):
        return
    text = str(problem).strip().split("\n")[0] if problem is not None else ""
    name = getattr(kind, "__name__", str(kind))
    what = f"it raised {name}: {text}" if text else f"it raised {name}"
    context.abort(_cut(what))


def _cut(text: str) -> str:
    """At most so many bytes of it, whole characters."""
    return text.encode(errors="replace")[:_TEXT_BYTES_MAX].decode(errors="ignore")


def _tell_all(kind: Type[BaseException], problem: Optional[BaseException]) -> None:
    if problem is not None and problem is _hooks.get("told"):
        return
    _hooks["told"] = problem
    for context in list(_contexts):
        tell(context, kind, problem)


def _for_main(older: Any) -> Any:
    """A sys.excepthook in front of an older one."""

    def on_exception(kind: Type[BaseException], problem: BaseException,
                     trace: Optional[TracebackType]) -> None:
        try:
            _tell_all(kind, problem)
        finally:
            older(kind, problem, trace)

    return on_exception


def _for_threads(older: Any) -> Any:
    """A threading.excepthook in front of an older one."""

    def on_exception(arguments: threading.ExceptHookArgs) -> None:
        try:
            if arguments.exc_type is not SystemExit:
                _tell_all(arguments.exc_type, arguments.exc_value)
                _hooks["told"] = None  # the process goes on: keep nothing of it
        finally:
            older(arguments)

    return on_exception
