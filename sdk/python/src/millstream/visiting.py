"""Visits as a handler sees them: a walk over all rows of a store of a task, started by a handler, a few rows per batch.

Where a walk is, is the sidecar's business; a row that is visited is an item like a record, with the row's key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, List, Optional

from .errors import OutputError
from .state import MISSING, Writable

if TYPE_CHECKING:
    from .context import BaseContext
    from .schema import VisitPort

START: Final = 0
STOP: Final = 1
PAUSE: Final = 2
RESUME: Final = 3
MAX_DATA: Final = 4096
# An op counts its data and this many for its framing (see state.OP_OVERHEAD).
VISIT_OVERHEAD: Final = 64


class Visits:
    """``ctx.visits``: starts, stops, pauses and resumes visits of this task. It counts if the record at hand does."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: "BaseContext") -> None:
        self._ctx = ctx

    def start(self, name: str, data: Any = None) -> None:
        """Begins a walk over all rows of the visit's store in this task; one that is under way begins anew.

        Each row comes to the handler of ``@app.on_visit(name)``, in the order of the key bytes; `data` comes with all of
        them, through the default codec of values, at most 4,096 bytes. Raises OutputError, UndeclaredError.
        """
        ctx = self._ctx
        raw: Optional[bytes] = None
        if data is not None:
            try:
                raw = ctx._batch.schema.default_value.encode(data)
            except Exception as error:
                raise OutputError(f"visit {name!r}: data of type {type(data).__name__} cannot be encoded: {error}") from error
            if len(raw) > MAX_DATA:
                raise OutputError(f"visit {name!r}: data has {len(raw)} bytes, the limit is {MAX_DATA}")
        self._stage(name, START, raw)

    def stop(self, name: str) -> None:
        """Ends a walk where it is; no further row comes, nor its end. Stopping what does not run is fine."""
        self._stage(name, STOP, None)

    def pause(self, name: str) -> None:
        """Holds a walk where it is, until resume(), start() or stop()."""
        self._stage(name, PAUSE, None)

    def resume(self, name: str) -> None:
        """Lets a paused walk go on."""
        self._stage(name, RESUME, None)

    def _stage(self, name: str, what: int, data: Optional[bytes]) -> None:
        ctx = self._ctx
        if ctx._batch.hook is not None:
            raise OutputError(f"visit {name!r}: hooks cannot start or stop visits; do it in a handler")
        visits = ctx._batch.schema.visits_by_name
        port = visits.get(name)
        if port is None:
            ctx._undeclared("visit", name, visits)
        ctx._visits.append((port.id, what, data))
        ctx._staged += len(data or b"") + VISIT_OVERHEAD


class _OfVisit:
    """What a row and the end of a visit have in common."""

    __slots__ = ("_item", "_port")

    def __init__(self, item: List[Any], port: "VisitPort") -> None:
        self._item = item
        self._port = port

    @property
    def visit(self) -> str:
        """The visit's name in the manifest."""
        return self._port.name

    @property
    def data(self) -> Any:
        """What start() was given."""
        return self._port.decode_data(self._item[5])

    @property
    def time(self) -> int:
        """When the visit was started, milliseconds since 1970: the time of the record that did. It is the default timestamp
        of outputs."""
        time: int = self._item[3]
        return time

    timestamp = time

    @property
    def attempt(self) -> int:
        attempt: int = self._item[7]
        return attempt


class BaseVisited(_OfVisit):
    """A row that is visited. Valid only while its handler runs; ``ctx.state(store)`` has its key as default, too."""

    __slots__ = ("_store", "_raw_key")

    def __init__(self, store: Writable, item: List[Any], raw_key: bytes, port: "VisitPort") -> None:
        super().__init__(item, port)
        self._store = store
        self._raw_key = raw_key

    @property
    def store(self) -> str:
        return self._store.name

    @property
    def key(self) -> Any:
        """The row's key, decoded by the store's codec."""
        return self._port.store.key.decode(self._raw_key)

    @property
    def raw_key(self) -> bytes:
        return self._raw_key

    def set(self, value: Any) -> None:
        """Write the row's value. Raises OutputError if it cannot be encoded or is beyond the store's limit."""
        self._store.set(value)

    def delete(self) -> None:
        """Forget the row."""
        self._store.delete()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.visit!r}, key={self._raw_key!r}, time={self.time})"


class Visited(BaseVisited):
    """A visited row in a plain handler."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The row's value, as it is now."""
        store: Any = self._store
        return store.get()

    def _there(self) -> bool:
        """Whether the row still exists: an earlier item of the batch may have deleted it."""
        store: Any = self._store
        data = store._known(self._raw_key, True)
        if data is MISSING:
            data = store._fetch([self._raw_key])[0]
        return data is not None


class AsyncVisited(BaseVisited):
    """A visited row in an async handler: reading is awaited."""

    __slots__ = ()

    async def value(self) -> Any:
        """The row's value, as it is now."""
        store: Any = self._store
        return await store.get()

    async def _there(self) -> bool:
        store: Any = self._store
        data = store._known(self._raw_key, True)
        if data is MISSING:
            data = (await store._fetch([self._raw_key]))[0]
        return data is not None


class VisitEnd(_OfVisit):
    """A visit has come to the end of the rows of this task. It has no key."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"VisitEnd({self.visit!r}, time={self.time})"
