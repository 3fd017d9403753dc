"""Millstream: exactly-once stateful stream processing. Write handlers; the sidecar keeps the state and talks to the log.

The usual program is an :class:`App`, handlers made with :meth:`App.on`, and :meth:`App.run`. Tests use
:class:`millstream.testing.TestKit`.
"""

from .app import App
from .codecs import BYTES, INT, JSON, STR, Codec
from .context import AsyncContext, Context
from .errors import (
    ConfigError,
    DecodeError,
    MillstreamError,
    NoKeyError,
    NoSidecarError,
    OutputError,
    RejectRecord,
    StateDecodeError,
    UndeclaredError,
)
from .record import Record
from .state import AsyncStore, AsyncTable, Store, Table
from .timing import AsyncSession, AsyncWindow, Session, Timer, Timers, Window
from .version import VERSION as __version__
from .visiting import AsyncVisited, VisitEnd, Visited, Visits

__all__ = [
    "App", "AsyncContext", "AsyncSession", "AsyncStore", "AsyncTable", "AsyncVisited", "AsyncWindow", "BYTES", "Codec", "ConfigError", "Context",
    "DecodeError", "INT", "JSON", "MillstreamError", "NoKeyError", "NoSidecarError", "OutputError", "Record", "RejectRecord",
    "STR", "Session", "StateDecodeError", "Store", "Table", "Timer", "Timers", "UndeclaredError", "VisitEnd", "Visited", "Visits", "Window", "__version__",
]
