"""What a handler works with: state, outputs, and facts about where it runs.

Plain handlers get a :class:`Context`, async ones an :class:`AsyncContext`. A context belongs to one call of a handler: do
not keep it, and do not hand it to other threads.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Dict, Final, Iterable, List, Mapping, NoReturn, Optional, Tuple, Union, cast

from . import messages
from .errors import OutputError, UndeclaredError
from .record import Record
from .schema import OutputPort, did_you_mean, listed
from .state import AsyncStore, AsyncTable, Writable, StateCells, Store, Table
from .timing import AsyncSession, AsyncWindow, Session, Timers, Window
from .visiting import AsyncVisited, Visited, Visits

if TYPE_CHECKING:
    from .batch import Batch

HeaderValue = Union[bytes, str, None]
Headers = Union[Mapping[str, HeaderValue], Iterable[Tuple[str, HeaderValue]]]
Timestamp = Union[int, datetime.datetime]

# An output counts its bytes and this many for its framing, a header likewise (see state.OP_OVERHEAD).
OUTPUT_OVERHEAD: Final = 160
HEADER_OVERHEAD: Final = 64
_MAX_PARTITION: Final = (1 << 31) - 1


class BaseContext:
    """What both kinds share."""

    __slots__ = (
        "record", "timers", "visits", "_timers", "_visits", "_time", "_batch", "_index", "_key", "_key_index", "_log", "_outputs", "_staged",
        "_ports", "_stores", "_tables", "_min_timestamp", "_max_timestamp",
    )
    # What the handler was called with: a record, a timer, a window that closes, a row that is visited or the end of them.
    record: Any

    def __init__(self, batch: "Batch") -> None:
        schema = batch.schema
        self._batch = batch
        self._index = 0
        self._key: Optional[bytes] = None
        self._key_index: Optional[int] = None
        # (cells, key, new value, value before or MISSING, item index) of every write, to undo and to tell the sidecar.
        self._log: List[Tuple[Any, bytes, Optional[bytes], Any, int]] = []
        self._outputs: List[Tuple[Any, ...]] = []
        self._timers: List[Tuple[bytes, int, str, Optional[int]]] = []
        self.timers = Timers(self)
        self._visits: List[Tuple[int, int, Optional[bytes]]] = []
        self.visits = Visits(self)
        self._time = 0  # default timestamp of outputs
        self._staged = 0  # bytes of what is in _log and _outputs
        self._ports = schema.outputs_by_name
        self._tables: Dict[Tuple[str, str], Any] = {}
        self._min_timestamp = schema.limits.min_timestamp
        self._max_timestamp = schema.limits.max_timestamp

    @property
    def task(self) -> int:
        """The number of the task, which is the partition of every input."""
        return self._batch.task

    @property
    def processor(self) -> str:
        """The processor's name in the manifest."""
        return self._batch.schema.processor

    @property
    def watermark(self) -> Optional[int]:
        """How far event time has come in this task (milliseconds since 1970), None before the first record counts."""
        return self._batch.watermark

    @property
    def gathered(self) -> Dict[Any, Any]:
        """Of this task: for what ``@app.finalize`` sends. Emptied behind it, and when the sidecar drops what it has of the
        task (a transaction was aborted, the task moved)."""
        return self._batch.link.gathered(self._batch.task)

    @property
    def sql(self) -> Any:
        """A DB-API cursor in the task's open transaction of the program's database (``app.external_store``). What the handler
        does with it is committed together with what it emits; do not commit or roll back."""
        if self._batch.sql is None:
            raise UndeclaredError(
                "ctx.sql: the program has no database here; give it one with app.external_store(...), and the manifest "
                "externalStore: {}" if self._batch.hook is None else "ctx.sql: hooks have no part in the database's transaction"
            )
        return self._batch.sql.cursor

    def join(self, name: str) -> Any:
        """The handle on a join declared in the manifest: the value of the record's own key, or of another one of this
        task, as the topic has it now. Read-only. Raises UndeclaredError."""
        return self._table("join", name)

    def lookup(self, name: str) -> Any:
        """The handle on a lookup declared in the manifest: a whole topic, any key. Read-only. Raises UndeclaredError."""
        return self._table("lookup", name)

    def emit(
        self,
        output: str,
        key: Any = None,
        value: Any = None,
        headers: Optional[Headers] = None,
        timestamp: Optional[Timestamp] = None,
        partition: Optional[int] = None,
    ) -> None:
        """Send a record to an output declared in the manifest. It is committed together with the input record.

        `key` and `value` go through the output's codecs; None is a null key or value (a tombstone). `headers` keep order
        and may repeat when given as pairs. `timestamp` (milliseconds since 1970, or an aware datetime) defaults to that
        of the record being handled. `partition` overrides the hash of the key.

        The output ``loop`` of a manifest with ``loop: {}`` brings the record back as the input ``loop``, in the task of its
        key: a key is needed, a partition is not allowed.

        Raises UndeclaredError, or OutputError for what cannot be encoded or is beyond the limits.
        """
        port = self._ports.get(output)
        if port is None:
            self._undeclared("output", output, self._ports)
        raw_key = raw_value = None
        size = 0
        try:
            if key is not None:
                raw_key = port.encode_key(key)
                size += len(raw_key)
            if value is not None:
                raw_value = port.encode_value(value)
                size += len(raw_value)
        except Exception as error:
            raise self._unencodable(port, key, value, raw_key, error) from error
        time: Optional[int]
        if timestamp is None:
            # The record's own; where that is outside the limits the sidecar's clock.
            own = self._time
            time = own if self._min_timestamp <= own <= self._max_timestamp else None
        else:
            time = self._checked_time(f"output {port.name!r}", timestamp)
        raw_headers = None
        if headers is not None:
            raw_headers = encode_headers(f"output {port.name!r}", headers)
            for name, data in raw_headers:
                size += len(name if isinstance(name, bytes) else name.encode()) + len(data or b"")
            self._staged += len(raw_headers) * HEADER_OVERHEAD
        if partition is not None and not (type(partition) is int and 0 <= partition <= _MAX_PARTITION):
            raise OutputError(f"output {output!r}: {partition!r} is not a partition number")
        if port.loop and (raw_key is None or partition is not None):
            raise OutputError(
                "output 'loop': a record for the loop needs a key, which decides the task it comes back to"
                if raw_key is None else "output 'loop': a record for the loop chooses no partition, its key does that"
            )
        if size > port.max_bytes:
            raise OutputError(
                f"output {output!r}: key, value and headers have {size} bytes, the limit is {port.max_bytes}"
            )
        if raw_headers or partition is not None:
            self._outputs.append(messages.output_row(port.id, raw_key, raw_value, time, raw_headers, partition))
        else:
            self._outputs.append((port.id, raw_key, raw_value, time))
        self._staged += size + OUTPUT_OVERHEAD

    # -- for the handles on state

    def _table(self, kind: str, name: str) -> Any:
        handle = self._tables.get((kind, name))
        if handle is None:
            schema = self._batch.schema
            port = (schema.joins_by_name if kind == "join" else schema.lookups_by_name).get(name)
            if port is None:
                self._undeclared(kind, name, schema.joins_by_name if kind == "join" else schema.lookups_by_name)
            cells = self._batch.tables[port.id - len(schema.stores)]
            handle = self._tables[(kind, name)] = self._new_table(cells)
        return handle

    def _new_table(self, cells: StateCells) -> Any:
        raise NotImplementedError

    def _touch_foreign(self) -> None:
        """Another key than the record's own is read or written."""

    def _undeclared(self, what: str, name: object, declared: Mapping[str, Any]) -> NoReturn:
        near = did_you_mean(name, declared)
        hint = f"; did you mean {near!r}?" if near else "."
        raise UndeclaredError(
            f"no {what} {name!r} in the manifest{hint} Declared {what}s: {listed(declared)}. "
            f"Add it under spec.{what}s to use it"
        )

    def _windowed(self, store: str, kind: str) -> Any:
        """The cells of a store of that type."""
        if self._batch.hook is not None and kind != "KeyValue":
            raise OutputError(f"store {store!r}: hooks have no windows or sessions, they belong to the time of a record; use a handler")
        cells = self._batch.cells_by_name.get(store)
        if cells is None:
            self._undeclared("store", store, self._batch.cells_by_name)
        if cells.port.type != kind:
            how = {"Window": "ctx.windows", "Session": "ctx.session", "KeyValue": "ctx.state"}[cells.port.type]
            raise UndeclaredError(f"store {store!r} has type {cells.port.type}: use {how}({store!r})")
        return cells

    def _own_key(self, cells: Any) -> bytes:
        if self._key is None:
            raise Writable(self, cells)._no_key()
        return self._key

    def _item_windows(self, cells: Any) -> List[List[Any]]:
        """What the item says of its windows in that store."""
        item = self._batch.items[self._index]
        windows = item[8] if item[0] == messages.ITEM_RECORD and len(item) > 8 else None
        return [window for window in windows or () if window[0] == cells.port.id]

    def _checked_time(self, whose: str, timestamp: Timestamp) -> int:
        if isinstance(timestamp, datetime.datetime):
            if timestamp.tzinfo is None:
                raise OutputError(f"{whose}: timestamp {timestamp} has no time zone")
            timestamp = round(timestamp.timestamp() * 1000)
        if type(timestamp) is not int:
            raise OutputError(
                f"{whose}: a timestamp is milliseconds since 1970 as int, or an aware datetime; "
                f"got {timestamp!r}"
            )
        if not self._min_timestamp <= timestamp <= self._max_timestamp:
            raise OutputError(
                f"{whose}: timestamp {timestamp} is outside {self._min_timestamp} to {self._max_timestamp}"
            )
        return timestamp

    @staticmethod
    def _unencodable(
        port: OutputPort, key: Any, value: Any, raw_key: Optional[bytes], error: Exception
    ) -> OutputError:
        key_failed = key is not None and raw_key is None
        what, bad, codec = ("key", key, port.key) if key_failed else ("value", value, port.value)
        return OutputError(
            f"output {port.name!r}: a {what} of type {type(bad).__name__} cannot be encoded as {codec.name}: {error}"
        )


class Context(BaseContext):
    """The context of a plain handler."""

    __slots__ = ("_sessions",)

    def __init__(self, batch: "Batch") -> None:
        super().__init__(batch)
        self._stores: Dict[str, Store] = {
            cells.port.name: Store(self, cells) for cells in batch.cells if cells.port.type == "KeyValue"
        }
        self._sessions: Dict[str, Session] = {}  # of the record

    def state(self, store: str) -> Store:
        """The handle on a store declared in the manifest. Raises UndeclaredError."""
        try:
            return self._stores[store]
        except KeyError:
            self._windowed(store, "KeyValue")
            raise AssertionError("unreachable") from None

    def windows(self, store: str) -> List[Window]:
        """The open windows of the record in a store of type Window, by start; none if the record is late for all of them."""
        cells = self._windowed(store, "Window")
        return [Window(Store(self, cells), self._own_key(cells), w[1], w[2]) for w in self._item_windows(cells)]

    def window(self, store: str, start: int) -> Window:
        """The window of the record's key that begins at `start`, open or not, as long as it is kept."""
        cells = self._windowed(store, "Window")
        return Window(Store(self, cells), self._own_key(cells), start, start + cells.port.size)

    def session(self, store: str) -> Optional[Session]:
        """The session of the record in a store of type Session; None if the record is late."""
        known = self._sessions.get(store)
        if known is not None:
            return known
        cells = self._windowed(store, "Session")
        for w in self._item_windows(cells):
            session = self._sessions[store] = Session(Store(self, cells), self._own_key(cells), w[1], w[2], w[3])
            return session
        return None

    def _closing(self, cells: Any, key: bytes, start: int, end: int) -> Window:
        return Window(Store(self, cells), key, start, end)

    def _visited(self, item: List[Any], key: bytes, port: Any) -> Visited:
        return Visited(self.state(port.store.name), item, key, port)

    def _finish(self) -> None:
        """After the handler: sessions that it did not write keep what they had."""
        for port in self._batch.schema.windowed:
            if port.type == "Session" and self._key is not None:
                session = self.session(port.name)
                if session is not None:
                    session._finish()
        self._sessions.clear()

    def join(self, name: str) -> Table:
        """As :meth:`BaseContext.join`."""
        return cast(Table, super().join(name))

    def lookup(self, name: str) -> Table:
        """As :meth:`BaseContext.lookup`."""
        return cast(Table, super().lookup(name))

    def _new_table(self, cells: StateCells) -> Table:
        return Table(self, cells)


class AsyncContext(BaseContext):
    """The context of an async handler: reading state is awaited, everything else is as in :class:`Context`."""

    __slots__ = ("_run", "_deferred", "_sessions")

    def __init__(self, batch: "Batch") -> None:
        super().__init__(batch)
        self._run: Any = None
        self._deferred: List[Tuple[AsyncStore, bytes, Optional[bytes]]] = []
        self._stores: Dict[str, AsyncStore] = {}
        self._sessions: Dict[str, AsyncSession] = {}

    def state(self, store: str) -> AsyncStore:
        """The handle on a store declared in the manifest. Raises UndeclaredError."""
        handle = self._stores.get(store)
        if handle is None:
            cells = self._batch.cells_by_name.get(store)
            if cells is None or cells.port.type != "KeyValue":
                cells = self._windowed(store, "KeyValue")
            handle = self._stores[store] = AsyncStore(self, cells)
        return handle

    def join(self, name: str) -> AsyncTable:
        """As :meth:`BaseContext.join`."""
        return cast(AsyncTable, super().join(name))

    def lookup(self, name: str) -> AsyncTable:
        """As :meth:`BaseContext.lookup`."""
        return cast(AsyncTable, super().lookup(name))

    def _new_table(self, cells: StateCells) -> AsyncTable:
        return AsyncTable(self, cells)

    def windows(self, store: str) -> List[AsyncWindow]:
        """As :meth:`Context.windows`."""
        cells = self._windowed(store, "Window")
        return [AsyncWindow(AsyncStore(self, cells), self._own_key(cells), w[1], w[2]) for w in self._item_windows(cells)]

    def window(self, store: str, start: int) -> AsyncWindow:
        """As :meth:`Context.window`."""
        cells = self._windowed(store, "Window")
        return AsyncWindow(AsyncStore(self, cells), self._own_key(cells), start, start + cells.port.size)

    def session(self, store: str) -> Optional[AsyncSession]:
        """As :meth:`Context.session`."""
        known = self._sessions.get(store)
        if known is not None:
            return known
        cells = self._windowed(store, "Session")
        for w in self._item_windows(cells):
            session = self._sessions[store] = AsyncSession(AsyncStore(self, cells), self._own_key(cells), w[1], w[2], w[3])
            return session
        return None

    def _closing(self, cells: Any, key: bytes, start: int, end: int) -> AsyncWindow:
        return AsyncWindow(AsyncStore(self, cells), key, start, end)

    def _visited(self, item: List[Any], key: bytes, port: Any) -> AsyncVisited:
        return AsyncVisited(self.state(port.store.name), item, key, port)

    async def _finish(self) -> None:
        for port in self._batch.schema.windowed:
            if port.type == "Session" and self._key is not None:
                session = self.session(port.name)
                if session is not None:
                    await session._finish()

    def _touch_foreign(self) -> None:
        self._run.touch_foreign(self._index)

    def _must_defer(self) -> bool:
        return not self._run.reached(self._index)

    async def _barrier(self) -> None:
        """Returns when all earlier items of the batch are done and no later one runs; deferred writes are then made."""
        await self._run.barrier(self._index)
        deferred, self._deferred = self._deferred, []
        for store, raw, data in deferred:
            store._write(raw, data)


def encode_headers(whose: str, headers: Headers) -> messages.HeaderRows:
    """Headers as the protocol has them, in order. Raises OutputError."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    result: messages.HeaderRows = []
    try:
        for name, data in pairs:
            if type(name) is not str:
                raise TypeError(f"a header name is str, not {type(name).__name__}")
            if isinstance(data, str):
                data = data.encode("utf-8", "surrogateescape")
            elif data is not None and type(data) is not bytes:
                raise TypeError(f"a header value is bytes, str or None, not {type(data).__name__}")
            result.append((name if name.isascii() else _header_name(name), data))
    except (TypeError, ValueError) as error:
        raise OutputError(f"{whose}: headers: {error}") from error
    return result


def _header_name(name: str) -> Union[str, bytes]:
    """As text, or as the bytes that it stands for where it is not UTF-8."""
    raw = name.encode("utf-8", "surrogateescape")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw
