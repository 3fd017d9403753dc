"""One batch in flight: its decoded frame, what its items staged, and the run of plain handlers over it.

The prefix rule: items run in order; the first that fails ends the batch, what it staged is undone, the items before it
count. A batch whose RESULT would not fit a frame ends early without failure: the sidecar sends the rest again.
"""

from __future__ import annotations

from typing import Any, Dict, Final, List, Optional, Protocol, Tuple

from .context import Context
from .errors import BatchVoided, MillstreamError, OutputError, ProtocolError
from .external import TaskTransaction, store_failure
from .failures import failure_of
from .messages import (
    DEFAULT_FRAME_CAP, FLAG_TRACE, ITEM_CLOSING, ITEM_RECORD, ITEM_TIMER, ITEM_VISIT, NOT_PREFETCHED, as_bytes, result_frame,
)
from .record import Record
from .schema import Schema, StorePort
from .state import MISSING, StateCells
from .timing import Timer, row_of
from .visiting import VisitEnd

# Signals to a running batch, set by other threads, looked at between items.
RUN: Final = 0
GIVE_WAY: Final = 1  # another batch of this worker has waited long enough: end early
VOID: Final = 2  # cancelled, or the connection ended

# Room for the frame's own fields and a failure message.
_RESULT_RESERVE: Final = 20 << 10
_BYTES_OR_NONE: Final = (bytes, type(None), str)
_MAX_OFFSET: Final = (1 << 63) - 1
# A GET asks for at most so many keys; fewer, if the answer would not fit a frame.
_MAX_KEYS_PER_GET: Final = 512

ScanPage = Tuple[List[Any], Optional[bytes]]
NewOps = Optional[Dict[int, List[Tuple[bytes, Optional[bytes], int]]]]


class Link(Protocol):
    """How a batch reaches the sidecar: a session, or the test kit. All calls raise BatchVoided once the batch is void."""

    def get(self, batch: "Batch", store: int, keys: List[bytes]) -> List[Any]: ...

    async def get_async(self, batch: "Batch", store: int, keys: List[bytes]) -> List[Any]: ...

    def scan(
        self, batch: "Batch", store: int, first: Optional[bytes], last: Optional[bytes], limit: int, reverse: bool,
        cursor: Optional[bytes], new_ops: NewOps,
    ) -> ScanPage: ...

    async def scan_async(
        self, batch: "Batch", store: int, first: Optional[bytes], last: Optional[bytes], limit: int, reverse: bool,
        cursor: Optional[bytes], new_ops: NewOps,
    ) -> ScanPage: ...

    def extend(self, batch: "Batch", done: int) -> None: ...

    def result(self, batch: "Batch", message: List[Any]) -> None: ...

    def gathered(self, task: int) -> Dict[Any, Any]: ...


class Batch:
    """A BATCH frame, checked. Belongs to the thread that runs it; only `signal` is set from outside."""

    __slots__ = (
        "schema", "link", "seq", "task", "trace", "keys", "items", "cells", "cells_by_name", "tables", "hook", "watermark", "signal",
        "done", "extended", "waiting_since", "finished", "error", "_indexes", "_ops_told", "logs", "timer_logs", "sql", "job",
    )

    def __init__(self, message: List[Any], schema: Schema, link: Link, hook: Optional[str] = None) -> None:
        """`message` is a decoded BATCH frame; `hook` the name of the hook that is to run instead of handlers. Raises
        ProtocolError if it contradicts WELCOME or itself."""
        self.hook = hook
        self.schema = schema
        self.link = link
        self.seq: int = message[1]
        self.task: int = message[2]
        if type(message[3]) is not int:
            raise ProtocolError(f"BATCH has {message[3]!r} as flags")
        self.trace = bool(message[3] & FLAG_TRACE)
        self.keys: List[bytes] = [key if type(key) is bytes else as_bytes(key) for key in message[4]]
        self.items: List[List[Any]] = message[5]
        self.watermark: Optional[int] = message[7] if len(message) > 7 else None
        self._check_items()
        readable = self._make_cells(message[6] or {})
        stores = len(schema.stores)
        self.cells, self.tables = readable[:stores], readable[stores:]
        self.cells_by_name = {cells.port.name: cells for cells in self.cells}
        self.signal = RUN
        self.done = 0  # items finished so far, for EXTEND
        self.extended = 0  # the `done` the sidecar was told last
        self.waiting_since = 0.0
        self.finished = False  # RESULT sent; guarded by the session's send lock
        self.error: Optional[Exception] = None  # what item `done` raised, for the test kit
        self.sql: Optional[TaskTransaction] = None  # with an external store
        self.job: Optional[Tuple[int, bytes]] = None  # of STORE: fence and checkpoint
        self._indexes: Optional[Dict[bytes, int]] = None
        self._ops_told = 0
        self.logs: List[List[Tuple[Any, bytes, Optional[bytes], Any, int]]] = []
        # Timers set and cancelled, in the items' order.
        self.timer_logs: List[List[Tuple[bytes, int, str, Optional[int]]]] = []

    def _check_items(self) -> None:
        for what, number in (("seq", self.seq), ("task", self.task)):
            if type(number) is not int or number < 0:
                raise ProtocolError(f"BATCH has {number!r} as {what}")
        inputs = len(self.schema.inputs)
        keys = len(self.keys)
        for place, item in enumerate(self.items):
            if type(item) is list and item and item[0] != ITEM_RECORD:
                self.items[place] = self._due_item(item)
                continue
            if type(item) is not list or len(item) < 7:
                raise ProtocolError(f"batch {self.seq} has an item that is no record")
            port, key = item[1], item[4]
            if type(port) is not int or not 0 <= port < inputs:
                raise ProtocolError(f"batch {self.seq} names input {port!r}, there are {inputs}")
            if key is not None and (type(key) is not int or not 0 <= key < keys):
                raise ProtocolError(f"batch {self.seq} names key {key!r}, it has {keys}")
            if type(item[2]) is not int or not 0 <= item[2] <= _MAX_OFFSET or type(item[3]) is not int:
                raise ProtocolError(f"batch {self.seq} has a record with offset {item[2]!r} and timestamp {item[3]!r}")
            if type(item[5]) not in _BYTES_OR_NONE:
                raise ProtocolError(f"batch {self.seq} has a record whose value is no bytes: {item[5]!r:.40}")

    def _due_item(self, item: List[Any]) -> List[Any]:
        """A timer, a closing or a row of a visit, shaped as records are: [kind, port, name, store or visit, time, key index, clock,
        bounds or data, value, attempt]."""
        kind = item[0]
        if kind == ITEM_TIMER and len(item) >= 6:
            _, key, clock, name, time, attempt = item[:6]
            if type(name) is bytes:
                name = name.decode("utf-8", "surrogateescape")
            if type(name) is not str or type(time) is not int or clock not in (0, 1):
                raise ProtocolError(f"batch {self.seq} has a timer {name!r:.40} at {time!r}")
            shaped = [kind, self.schema.timer_port(name).id, name, time, key, clock, None, attempt]
        elif kind == ITEM_CLOSING and len(item) >= 7:
            _, store, key, start, end, value, attempt = item[:7]
            stores = self.schema.stores
            if type(store) is not int or not 0 <= store < len(stores) or stores[store].type == "KeyValue":
                raise ProtocolError(f"batch {self.seq} closes a window of store {store!r}")
            if type(start) is not int or type(end) is not int:
                raise ProtocolError(f"batch {self.seq} closes a window from {start!r} to {end!r}")
            port = self.schema.closing_port(stores[store])
            last = end if stores[store].type == "Session" else end - 1  # the last time that belongs to it
            shaped = [kind, port.id, store, last, key, (start, end), value, attempt]
        elif kind == ITEM_VISIT and len(item) >= 6:
            _, visit, key, time, data, attempt = item[:6]
            visits = self.schema.visits
            if type(visit) is not int or not 0 <= visit < len(visits):
                raise ProtocolError(f"batch {self.seq} has a row of visit {visit!r}, there are {len(visits)}")
            if type(time) is not int or type(data) not in _BYTES_OR_NONE:
                raise ProtocolError(f"batch {self.seq} has a row of a visit started at {time!r} with data {data!r:.40}")
            if key is None:
                return [kind, visits[visit].end.id, visit, time, None, data, None, attempt]
            shaped = [kind, visits[visit].rows.id, visit, time, key, data, None, attempt]
        else:
            raise ProtocolError(f"batch {self.seq} has an item of kind {kind!r}, which is not supported yet")
        if type(key) is not int or not 0 <= key < len(self.keys):
            raise ProtocolError(f"batch {self.seq} names key {key!r}, it has {len(self.keys)}")
        return shaped

    def due(self, ctx: Any, item: List[Any], key: Optional[bytes]) -> Any:
        """What the handler of a timer, a closing or a visit gets."""
        if item[0] == ITEM_VISIT:
            visit = self.schema.visits[item[2]]
            return VisitEnd(item, visit) if key is None else ctx._visited(item, key, visit)
        assert key is not None
        port = self.schema.ports[item[1]]
        if item[0] == ITEM_TIMER:
            return Timer(item, key, self.task, port)
        cells = self.cells[item[2]]
        return ctx._closing(cells, key, *item[5])

    def passed_over(self, item: List[Any], key: bytes) -> bool:
        """Whether an earlier item of the batch has set or cancelled this timer."""
        return any(
            entry[:3] == (key, item[5], item[2]) for log in self.timer_logs for entry in log
        )

    def _windowed_cells(self, port: StorePort, state: Any) -> StateCells:
        """Of windows and sessions come the rows that exist; a window that an item names and that is not there is absent."""
        cells = StateCells(port, None)
        fetched: Dict[bytes, Any] = cells.fetched
        for item in self.items:
            if item[0] == ITEM_CLOSING and item[2] == port.id:
                fetched[row_of(port, self.keys[item[4]], *item[5])] = item[6]
            if item[0] != ITEM_RECORD or len(item) < 9 or item[4] is None:
                continue
            for window in item[8] or ():
                if window[0] == port.id and port.type == "Window":
                    fetched[row_of(port, self.keys[item[4]], window[1], window[2])] = None
        for key, rows in zip(self.keys, state or ()):
            if type(rows) is not list:
                raise ProtocolError(f"batch {self.seq}: the state of store {port.name!r} is no list of windows")
            for start, end, value, *_ in rows:
                fetched[row_of(port, key, start, end)] = value
        for row in [row for row, value in fetched.items() if value is NOT_PREFETCHED]:
            del fetched[row]
        return cells

    def _make_cells(self, state: Dict[int, List[Any]]) -> List[StateCells]:
        stores = self.schema.readable
        for id, values in state.items():
            if type(id) is not int or not 0 <= id < len(stores):
                raise ProtocolError(f"batch {self.seq} has state of store {id!r}, there are {len(stores)}")
            if type(values) is not list or len(values) != len(self.keys):
                raise ProtocolError(f"batch {self.seq}: the state of store {stores[id].name!r} is not aligned with its keys")
            if stores[id].type != "KeyValue":
                continue
            for value in values:
                if type(value) not in _BYTES_OR_NONE and value is not NOT_PREFETCHED:
                    raise ProtocolError(f"batch {self.seq}: store {stores[id].name!r} has a value that is no bytes: {value!r:.40}")
        return [
            StateCells(port, state.get(port.id)) if port.type == "KeyValue" else self._windowed_cells(port, state.get(port.id))
            for port in stores
        ]

    def key_index(self, key: bytes) -> Optional[int]:
        """The place of a key among the batch's keys, None if it is none of them."""
        indexes = self._indexes
        if indexes is None:
            indexes = self._indexes = {known: index for index, known in enumerate(self.keys)}
        return indexes.get(key)

    # -- reads that need the sidecar

    def get(self, ctx: Any, port: StorePort, keys: List[bytes]) -> List[Any]:
        values: List[Any] = []
        chunks = _chunks(keys)
        while chunks:
            chunk = chunks.pop(0)
            try:
                values.extend(self.link.get(self, port.id, chunk))
            except MillstreamError as error:
                chunks[:0] = _halves(chunk, error)
        return values

    async def get_async(self, ctx: Any, port: StorePort, keys: List[bytes]) -> List[Any]:
        values: List[Any] = []
        chunks = _chunks(keys)
        while chunks:
            chunk = chunks.pop(0)
            try:
                values.extend(await self.link.get_async(self, port.id, chunk))
            except MillstreamError as error:
                chunks[:0] = _halves(chunk, error)
        return values

    def scan(
        self, ctx: Any, store: int, first: Optional[bytes], last: Optional[bytes], limit: int, reverse: bool,
        cursor: Optional[bytes],
    ) -> ScanPage:
        return self.link.scan(self, store, first, last, limit, reverse, cursor, self._new_ops())

    async def scan_async(
        self, ctx: Any, store: int, first: Optional[bytes], last: Optional[bytes], limit: int, reverse: bool,
        cursor: Optional[bytes],
    ) -> ScanPage:
        return await self.link.scan_async(self, store, first, last, limit, reverse, cursor, self._new_ops())

    def _new_ops(self) -> NewOps:
        """The writes since the sidecar was last told, by store. Scans need them: it merges them over its own rows."""
        entries = [entry for log in self.logs for entry in log]
        fresh = entries[self._ops_told :]
        self._ops_told = len(entries)
        if not fresh:
            return None
        ops: Dict[int, List[Tuple[bytes, Optional[bytes], int]]] = {}
        for cells, key, value, _, index in fresh:
            ops.setdefault(cells.port.id, []).append((key, value, index))
        return ops

    # -- the outcome

    @property
    def result_budget(self) -> int:
        """Bytes of effects that fit one RESULT."""
        return min(self.schema.limits.frame, DEFAULT_FRAME_CAP) - _RESULT_RESERVE

    def send_result(
        self, done: int, failure: Optional[Dict[str, Any]], outputs: List[Tuple[Any, ...]],
        timers: Optional[List[Tuple[Any, ...]]] = None, visits: Optional[List[Tuple[Any, ...]]] = None,
    ) -> None:
        ops = {cells.port.id: list(cells.writes.items()) for cells in self.cells if cells.writes}
        self.link.result(self, result_frame(self.seq, done, failure, ops, outputs, timers, visits))

    def too_large(self, staged: int) -> OutputError:
        return OutputError(
            f"the state changes and outputs of this one record have {staged} bytes together, which does not fit a frame "
            f"of {self.schema.limits.frame} bytes; emit and write less per record"
        )


def _chunks(keys: List[bytes]) -> List[List[bytes]]:
    return [keys[at : at + _MAX_KEYS_PER_GET] for at in range(0, len(keys), _MAX_KEYS_PER_GET)]


def _halves(keys: List[bytes], error: MillstreamError) -> List[List[bytes]]:
    """The values of `keys` may not have fitted a frame together: fewer at once. One alone: `error` it is."""
    if len(keys) == 1:
        raise error
    middle = len(keys) // 2
    return [keys[:middle], keys[middle:]]


def undo(log: List[Tuple[Any, bytes, Optional[bytes], Any, int]], mark: int = 0) -> None:
    """Takes back the writes of `log` from `mark` on, the last first."""
    while len(log) > mark:
        cells, key, _, before, _ = log.pop()
        if before is MISSING:
            del cells.writes[key]
        else:
            cells.writes[key] = before


def _send_lost(batch: Batch, error: Exception) -> None:
    """The database's transaction went with its connection, and with it what earlier items and batches did: nobody is charged,
    and the sidecar begins anew from the checkpoint."""
    batch.error = error
    if batch.signal == VOID:
        raise BatchVoided from error
    batch.send_result(0, store_failure(error), [])


def run_plain(batch: Batch) -> None:
    """Runs the batch's items with plain handlers and sends its RESULT. Raises BatchVoided when it no longer counts."""
    ctx = Context(batch)
    log, outputs = ctx._log, ctx._outputs
    batch.logs.append(log)
    timers, visits = ctx._timers, ctx._visits
    batch.timer_logs.append(timers)
    keys, ports, task, budget = batch.keys, batch.schema.ports, batch.task, batch.result_budget
    has_sessions = batch.schema.has_sessions
    sql = batch.sql
    failure = None
    for index, item in enumerate(batch.items):
        if batch.signal:
            if batch.signal == VOID:
                raise BatchVoided
            if index:
                break
        if batch.trace:
            batch.link.extend(batch, index)
        key_index = item[4]
        key = None if key_index is None else keys[key_index]
        port = ports[item[1]]
        ctx._index = index
        ctx._key = key
        ctx._key_index = key_index
        ctx._time = item[3]
        if item[0] == ITEM_RECORD:
            record: Any = Record(item, key, task, port)
            ctx.record = record
        else:
            if item[0] == ITEM_TIMER and key is not None and batch.passed_over(item, key):
                batch.done = index + 1
                continue
            record = batch.due(ctx, item, key)
            ctx.record = record
        writes_before, outputs_before, staged_before, timers_before = len(log), len(outputs), ctx._staged, len(timers)
        visits_before = len(visits)
        try:
            if item[0] != ITEM_VISIT or key is None or record._there():
                port.function(ctx, record)
            if has_sessions:
                ctx._finish()
            if ctx._staged > budget:
                if ctx._staged - staged_before > budget:
                    raise batch.too_large(ctx._staged - staged_before)
                if sql is not None and not sql.undo_item():
                    return _send_lost(batch, ConnectionError("the connection to the database was lost"))
                undo(log, writes_before)
                del outputs[outputs_before:]
                del timers[timers_before:]
                del visits[visits_before:]
                break
            if sql is not None:
                sql.end_item()
        except Exception as error:
            if sql is not None and not sql.undo_item():
                return _send_lost(batch, error)
            undo(log, writes_before)
            del outputs[outputs_before:]
            del timers[timers_before:]
            del visits[visits_before:]
            ctx._sessions.clear()
            failure = failure_of(error)
            batch.error = error
            break
        batch.done = index + 1
        if len(visits) > visits_before:
            break  # it counts from here on: rows of this batch may not be wanted any more
    if batch.signal == VOID:
        raise BatchVoided
    batch.send_result(batch.done, failure, outputs, timers, visits)
