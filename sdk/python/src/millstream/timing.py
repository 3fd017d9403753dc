"""Windows, sessions and timers as a handler sees them.

A windowed store is a store whose keys are longer: the record's key, then the window's start (of a session start and end).
The sidecar says which windows an item belongs to and sends their values along; values and merging are ours.
"""

from __future__ import annotations

import datetime
import struct
from typing import TYPE_CHECKING, Any, Final, List, Optional, Union

from .errors import OutputError
from .state import MISSING, Writable

if TYPE_CHECKING:
    from .context import BaseContext
    from .schema import StorePort

EVENT_TIME: Final = 0
WALL_CLOCK: Final = 1
_CLOCKS: Final = {"event": EVENT_TIME, "wall": WALL_CLOCK}
_MAX_NAME: Final = 255
# A timer counts its key and name and this many for its framing (see state.OP_OVERHEAD).
TIMER_OVERHEAD: Final = 64
_START: Final = struct.Struct(">q")
_SESSION: Final = struct.Struct(">QQ")
_FLIP: Final = 1 << 63

Time = Union[int, datetime.datetime]


def window_row(key: bytes, start: int) -> bytes:
    """The row of a window: the key, then its start as a signed 64-bit big-endian integer."""
    return key + _START.pack(start)


def session_row(key: bytes, start: int, end: int) -> bytes:
    """The row of a session: the key, then start and end, with the sign bit flipped so that they sort by time."""
    return key + _SESSION.pack(start + _FLIP, end + _FLIP)


def row_of(port: "StorePort", key: bytes, start: int, end: int) -> bytes:
    return session_row(key, start, end) if port.type == "Session" else window_row(key, start)


class BaseWindow:
    """A window ``[start, end)`` of one key, or a session that closes, from its first record to its last. Times in milliseconds
    since 1970. Valid only while its handler runs."""

    __slots__ = ("start", "end", "_store", "_raw_key", "_row")

    def __init__(self, store: Writable, raw_key: bytes, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self._store = store
        self._raw_key = raw_key
        self._row = row_of(store._port, raw_key, start, end)

    @property
    def key(self) -> Any:
        """The key, decoded by the store's codec."""
        return self._store._port.key.decode(self._raw_key)

    @property
    def store(self) -> str:
        name: str = self._store.name
        return name

    def set(self, value: Any) -> None:
        """Write the window's value. Raises OutputError if it cannot be encoded or is beyond the store's limit."""
        store = self._store
        # Own key: no barrier for async items, whatever the row is called.
        Writable._write(store, self._row, store._encoded(self._row, value))

    def delete(self) -> None:
        """Forget the value. Of a window that closes later nothing is given then."""
        Writable._write(self._store, self._row, None)

    def _decoded_or(self, data: Any, default: Any) -> Any:
        if not data and self._store._port.type == "Session":
            data = None  # an empty value is a session without one
        return self._store._value(self._row, data, default)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store.name!r}, {self._raw_key!r}, {self.start}, {self.end})"


class Window(BaseWindow):
    """A window in a plain handler."""

    __slots__ = ()

    def get(self, default: Any = None) -> Any:
        """The window's value, or `default` if it has none."""
        store: Any = self._store
        data = store._known(self._row, False)
        if data is MISSING:
            data = store._fetch([self._row])[0]
        return self._decoded_or(data, default)

    @property
    def value(self) -> Any:
        return self.get()


class AsyncWindow(BaseWindow):
    """A window in an async handler: reading is awaited."""

    __slots__ = ()

    async def get(self, default: Any = None) -> Any:
        """As :meth:`Window.get`."""
        store: Any = self._store
        data = store._known(self._row, False)
        if data is MISSING:
            data = (await store._fetch([self._row]))[0]
        return self._decoded_or(data, default)


class BaseSession(BaseWindow):
    """The session a record belongs to: from its first record to its last, this one included.

    What the record joins or connects was one session or several before; each may have a value. The handler merges them
    and writes one with set(). If it does not: the one value stays; several are merged by the `merge` of
    ``app.store(...)``, or fail the record if there is none.
    """

    __slots__ = ("_parts", "_written")

    def __init__(self, store: Writable, raw_key: bytes, start: int, end: int, merged: List[List[int]]) -> None:
        super().__init__(store, raw_key, start, end)
        self._parts = [session_row(raw_key, part[0], part[1]) for part in merged]
        self._written = False

    def set(self, value: Any) -> None:
        self._written = True
        super().set(value)

    def delete(self) -> None:
        """Forget the value: the session goes on without one."""
        self._written = True
        super().delete()

    def _missing(self) -> List[bytes]:
        return [row for row in self._parts if self._store._known(row, False) is MISSING]

    def _decoded(self) -> List[Any]:
        store = self._store
        known = [(row, store._known(row, False)) for row in self._parts]
        # An empty value is a session without one.
        return [store._value(row, data) for row, data in known if data]

    def _merged(self, values: List[Any], default: Any) -> Any:
        if len(values) < 2:
            return values[0] if values else default
        merge = self._store._port.merge
        if merge is None:
            raise OutputError(
                f"store {self._store.name!r}: this record connects {len(values)} sessions with values: write the merged value "
                f"with session.set(), or say how to merge: app.store({self._store.name!r}, merge=lambda a, b: ...)"
            )
        result = values[0]
        for value in values[1:]:
            result = merge(result, value)
        return result

    def _keep(self, values: List[Any]) -> None:
        """After the handler: what it did not write is carried over."""
        if self._written or not values or self._parts == [self._row]:
            return
        self.set(self._merged(values, None))


class Session(BaseSession):
    """A session in a plain handler."""

    __slots__ = ()

    def values(self) -> List[Any]:
        """The values of the sessions this one is made of, in order of time. Empty for the first record."""
        missing = self._missing()
        if missing:
            store: Any = self._store
            store._fetch(missing)
        return self._decoded()

    def get(self, default: Any = None) -> Any:
        """The value so far, merged if there are several, or `default` if there is none."""
        if self._written:
            data = self._store._known(self._row, False)
            return self._store._value(self._row, data or None, default)
        return self._merged(self.values(), default)

    def _finish(self) -> None:
        if not self._written and self._parts != [self._row]:
            self._keep(self.values())


class AsyncSession(BaseSession):
    """A session in an async handler: reading is awaited."""

    __slots__ = ()

    async def values(self) -> List[Any]:
        """As :meth:`Session.values`."""
        missing = self._missing()
        if missing:
            store: Any = self._store
            await store._fetch(missing)
        return self._decoded()

    async def get(self, default: Any = None) -> Any:
        """As :meth:`Session.get`."""
        if self._written:
            data = self._store._known(self._row, False)
            return self._store._value(self._row, data or None, default)
        return self._merged(await self.values(), default)

    async def _finish(self) -> None:
        if not self._written and self._parts != [self._row]:
            self._keep(await self.values())


class Timers:
    """``ctx.timers``: sets and cancels timers of the record's key, or of another one.

    A timer is known by key, clock and name. Setting it again moves it. When it is due, the handler of its name
    (``@app.on_timer(name)``) is called once in committed effect, also after a crash.
    """

    __slots__ = ("_ctx",)

    def __init__(self, ctx: "BaseContext") -> None:
        self._ctx = ctx

    def set(self, name: str, at: Time, *, clock: str = "event", key: Any = None) -> None:
        """Due `at` (milliseconds since 1970, or an aware datetime), by ``"event"`` time or the ``"wall"`` clock.

        A time that has passed is due at once. Raises OutputError for what cannot be.
        """
        self._stage(name, clock, key, self._ctx._checked_time(f"timer {name!r}", at))

    def cancel(self, name: str, *, clock: str = "event", key: Any = None) -> None:
        """Forget it. Cancelling what is not set is fine."""
        self._stage(name, clock, key, None)

    def _stage(self, name: str, clock: str, key: Any, time: Optional[int]) -> None:
        ctx = self._ctx
        if ctx._batch.hook is not None:
            raise OutputError(f"timer {name!r}: hooks cannot set timers, they belong to the time of a record; do it in a handler")
        if not ctx._batch.schema.timers:
            raise OutputError(f"timer {name!r}: the manifest has no timers; add timers: {{}} under spec")
        number = _CLOCKS.get(clock)
        if number is None:
            raise OutputError(f'timer {name!r}: clock is "event" or "wall", not {clock!r}')
        if type(name) is not str or len(name.encode("utf-8", "surrogateescape")) > _MAX_NAME:
            raise OutputError(f"a timer's name is a text of at most {_MAX_NAME} bytes, not {name!r:.40}")
        if key is None:
            raw = ctx._key
            if raw is None:
                raise OutputError(f"timer {name!r}: the record has no key; pass key=...")
        else:
            try:
                raw = ctx._batch.schema.default_key.encode(key)
            except Exception as error:
                raise OutputError(f"timer {name!r}: key {key!r:.80} cannot be encoded: {error}") from error
            if raw != ctx._key:
                ctx._touch_foreign()
        ctx._timers.append((raw, number, name, time))
        ctx._staged += len(raw) + len(name) + TIMER_OVERHEAD


class Timer:
    """A timer that is due, as its handler gets it."""

    __slots__ = ("_item", "_raw_key", "_task", "_port")

    def __init__(self, item: List[Any], raw_key: bytes, task: int, port: Any) -> None:
        self._item = item
        self._raw_key = raw_key
        self._task = task
        self._port = port

    @property
    def name(self) -> str:
        name: str = self._item[2]
        return name

    @property
    def key(self) -> Any:
        return self._port.key.decode(self._raw_key)

    @property
    def raw_key(self) -> bytes:
        return self._raw_key

    @property
    def time(self) -> int:
        """When it was to be due, milliseconds since 1970."""
        time: int = self._item[3]
        return time

    timestamp = time

    @property
    def clock(self) -> str:
        return "event" if self._item[5] == EVENT_TIME else "wall"

    @property
    def attempt(self) -> int:
        attempt: int = self._item[7]
        return attempt

    def __repr__(self) -> str:
        return f"Timer({self.name!r}, key={self._raw_key!r}, time={self.time}, clock={self.clock!r})"
