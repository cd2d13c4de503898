# SPDX-License-Identifier: Apache-2.0
"""Reports the first uncaught exception of a rank to all ranks.

sys.excepthook and threading.excepthook are wrapped when a job is joined. The exception is sent to
the peers, whose pending calls fail with it at once; then the previous hook runs."""

from __future__ import annotations

import sys
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Type

from .errors import PeerDown, PeerLeft

if TYPE_CHECKING:
    from .context import Context

_contexts: weakref.WeakSet[Context] = weakref.WeakSet()
_hooks: Dict[str, Any] = {}
_TEXT_BYTES_MAX = 180


def watch(context: Context) -> None:
    """Report uncaught exceptions to this job's ranks, as long as it is open. A hook that was
    installed after ours stays, and may call ours: an exception is reported once."""
    _contexts.add(context)
    if sys.excepthook is not _hooks.get("main"):
        _hooks["main"] = sys.excepthook = _for_main(sys.excepthook)
    if threading.excepthook is not _hooks.get("thread"):
        _hooks["thread"] = threading.excepthook = _for_threads(threading.excepthook)


def joined() -> List[Context]:
    """The contexts of this process that still exist."""
    return list(_contexts)


def _is_echo(problem: Optional[BaseException]) -> bool:
    """Was it caused by the end of another rank? That rank reports the cause itself."""
    while problem is not None:
        if isinstance(problem, (PeerDown, PeerLeft)):
            return True
        problem = problem.__cause__
    return False


def tell(context: Context, kind: Type[BaseException], problem: Optional[BaseException]) -> None:
    """Report to this job's ranks why this one cannot continue."""
    if problem is not None and _is_echo(problem):
        return
    text = str(problem).strip().split("\n")[0] if problem is not None else ""
    name = getattr(kind, "__name__", str(kind))
    what = f"it raised {name}: {text}" if text else f"it raised {name}"
    context.abort(_cut(what))


def _cut(text: str) -> str:
    """At most _TEXT_BYTES_MAX bytes of it, in whole characters."""
    return text.encode(errors="replace")[:_TEXT_BYTES_MAX].decode(errors="ignore")


def _tell_all(kind: Type[BaseException], problem: Optional[BaseException]) -> None:
    if problem is not None and problem is _hooks.get("told"):
        return
    _hooks["told"] = problem
    for context in list(_contexts):
        tell(context, kind, problem)


def _for_main(older: Any) -> Any:
    """A sys.excepthook in front of the previous one."""

    def on_exception(kind: Type[BaseException], problem: BaseException,
                     trace: Optional[TracebackType]) -> None:
        try:
            _tell_all(kind, problem)
        finally:
            older(kind, problem, trace)

    return on_exception


def _for_threads(older: Any) -> Any:
    """A threading.excepthook in front of the previous one."""

    def on_exception(arguments: threading.ExceptHookArgs) -> None:
        try:
            if arguments.exc_type is not SystemExit:
                _tell_all(arguments.exc_type, arguments.exc_value)
                _hooks["told"] = None  # the process goes on: keep no reference to it
        finally:
            older(arguments)

    return on_exception
