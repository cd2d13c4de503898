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
_older: Dict[str, Any] = {}
_TEXT_MAX = 180


def watch(context: Context) -> None:
    """Tell this job's ranks of uncaught exceptions, as long as it is open."""
    _contexts.add(context)
    if sys.excepthook is not _on_exception:
        _older["main"], sys.excepthook = sys.excepthook, _on_exception
    if threading.excepthook is not _on_thread_exception:
        _older["thread"], threading.excepthook = threading.excepthook, _on_thread_exception


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
    context.abort(what[:_TEXT_MAX])


def _tell_all(kind: Type[BaseException], problem: Optional[BaseException]) -> None:
    for context in list(_contexts):
        tell(context, kind, problem)


def _on_exception(kind: Type[BaseException], problem: BaseException,
                  trace: Optional[TracebackType]) -> None:
    try:
        _tell_all(kind, problem)
    finally:
        _older["main"](kind, problem, trace)


def _on_thread_exception(arguments: threading.ExceptHookArgs) -> None:
    try:
        if arguments.exc_type is not SystemExit:
            _tell_all(arguments.exc_type, arguments.exc_value)
    finally:
        _older["thread"](arguments)
