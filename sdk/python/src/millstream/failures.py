"""A handler's exception as the `failure` of a RESULT: class, type, a traceback a person can read, and whether to retry."""

from __future__ import annotations

import linecache
import os
import traceback
from types import TracebackType
from typing import Any, Dict, Final, List, Optional

from .errors import DecodeError, OutputError, RejectRecord, UndeclaredError

# The protocol allows 16 KiB; half of it is more than anybody reads.
MAX_MESSAGE_BYTES: Final = 8 << 10
_MAX_FRAMES: Final = 30
_MAX_CAUSES: Final = 4
_PACKAGE: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep


def failure_of(error: BaseException) -> Dict[str, Any]:
    """The `failure` map of the protocol."""
    if isinstance(error, DecodeError):
        failure_class, retriable = "Decode", False
    elif isinstance(error, OutputError):
        failure_class, retriable = "Output", False
    else:
        failure_class, retriable = "Handler", not isinstance(error, (RejectRecord, UndeclaredError))
    return {
        "class": failure_class,
        "error": type(error).__name__,
        "message": readable(error),
        "retriable": retriable,
    }


def readable(error: BaseException) -> str:
    """What happened and where in the user's own code, the innermost place first; then the causes likewise."""
    parts: List[str] = []
    seen: Optional[BaseException] = error
    for _ in range(_MAX_CAUSES):
        if seen is None:
            break
        prefix = "caused by: " if parts else ""
        parts.append(prefix + _summary(seen))
        parts.extend(_user_frames(seen.__traceback__))
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return _cut("\n".join(parts), MAX_MESSAGE_BYTES)


def _summary(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = str(error)
    except Exception as broken:
        text = f"(its text cannot be had: {type(broken).__name__})"
    return f"{name}: {text}" if text else name


def _user_frames(trace: Optional[TracebackType]) -> List[str]:
    """Frames of this package and of the standard library's machinery say nothing to the user: left out."""
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if not os.path.abspath(frame.filename).startswith(_PACKAGE)]
    lines = []
    for frame in reversed(own[-_MAX_FRAMES:]):
        lines.append(f"  at {_short(frame.filename)}:{frame.lineno} in {frame.name}")
        source = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
        if source:
            lines.append(f"      {source}")
    return lines


def _short(filename: str) -> str:
    relative = os.path.relpath(filename) if os.path.isabs(filename) else filename
    return relative if not relative.startswith("..") else filename


def _cut(text: str, limit: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return data.decode("utf-8")
    return data[: limit - 40].decode("utf-8", "ignore") + f"\n... ({len(data)} bytes in all)"
