"""Handles on keyed state: what ``ctx.state(name)`` returns, and the read-only ones of ``ctx.join`` and ``ctx.lookup``.

Reads are answered from the batch's own writes, then from what came with the batch, then by asking the sidecar. Writes are
encoded and checked at once, and count only if the item that made them succeeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncIterator, Dict, Final, Iterable, Iterator, List, Optional, Tuple

from .errors import NoKeyError, OutputError, StateDecodeError
from .messages import NOT_PREFETCHED, as_bytes
from .schema import StorePort

if TYPE_CHECKING:
    from .batch import Batch
    from .context import AsyncContext, BaseContext

MISSING: Final[Any] = object()
# A write counts its bytes and this many for its framing. It is more than the framing takes: so many also keep a full
# frame below the protocol's bound of 1,048,576 list elements.
OP_OVERHEAD: Final = 64

Row = Tuple[Any, Any]


class StateCells:
    """One store's part of a batch: own writes, what was prefetched, what was fetched since. Shared by all its items."""

    __slots__ = ("port", "writes", "prefetched", "fetched")

    def __init__(self, port: StorePort, prefetched: Optional[List[Any]]) -> None:
        self.port = port
        self.writes: Dict[bytes, Optional[bytes]] = {}
        self.prefetched = prefetched
        self.fetched: Dict[bytes, Optional[bytes]] = {}


class Readable:
    """What all handles share. Not thread-safe; valid only while its handler runs."""

    __slots__ = ("_ctx", "_batch", "_cells", "_writes", "_prefetched", "_port", "_encode", "_decode", "_max")
    # Whether this task writes to it: then another key than the record's own is a barrier for async items.
    _written = False

    def __init__(self, ctx: "BaseContext", cells: StateCells) -> None:
        self._ctx = ctx
        self._batch: "Batch" = ctx._batch
        self._cells = cells
        self._writes = cells.writes
        self._prefetched = cells.prefetched
        self._port = cells.port
        self._encode = cells.port.value.encode
        self._decode = cells.port.value.decode
        self._max = cells.port.max_value_bytes

    @property
    def name(self) -> str:
        return self._port.name

    # -- for the subclasses

    def _foreign(self, key: Any) -> bytes:
        """The bytes of a key passed by the program."""
        raw = self._encode_key(key)
        if self._written and raw != self._ctx._key:
            self._ctx._touch_foreign()
        return raw

    def _encode_key(self, key: Any) -> bytes:
        try:
            raw: bytes = self._port.key.encode(key)
            return raw
        except Exception as error:
            raise OutputError(
                f"{self._port.kind} {self.name!r}: key {key!r:.80} cannot be encoded as {self._port.key.name}: {error}"
            ) from error

    def _known(self, raw: bytes, own: bool) -> Any:
        """The stored bytes, None if absent, MISSING if the sidecar must be asked."""
        data = self._writes.get(raw, MISSING)
        if data is not MISSING:
            return data
        if self._prefetched is not None:
            index = self._ctx._key_index if own else self._batch.key_index(raw)
            if index is not None:
                data = self._prefetched[index]
                if data is not NOT_PREFETCHED:
                    return data
        return self._cells.fetched.get(raw, MISSING)

    def _value(self, raw: bytes, data: Any, default: Any = None) -> Any:
        if data is None:
            return default
        if type(data) is not bytes:
            data = as_bytes(data)
        try:
            return self._decode(data)
        except Exception as error:
            raise StateDecodeError(
                f"{self._port.kind} {self.name!r}: the value of key {raw!r:.80} is not {self._port.value.name}: {error}; it begins "
                f"with {data[:24]!r}. Was its codec changed? app.{self._port.kind}({self.name!r}, value=...)"
            ) from error

    def _row(self, row: Any) -> Row:
        raw = as_bytes(row[0])
        return self._port.key.decode(raw), self._value(raw, row[1])

    def _bounds(self, start: Any, end: Any, prefix: Any) -> Tuple[Optional[bytes], Optional[bytes]]:
        if prefix is not None:
            if start is not None or end is not None:
                raise ValueError("scan() takes either prefix or start and end")
            first = self._encode_key(prefix)
            return first, _after_prefix(first)
        return (
            None if start is None else self._encode_key(start),
            None if end is None else self._encode_key(end),
        )

    def _no_key(self) -> NoKeyError:
        record = self._ctx.record
        if getattr(record, "offset", None) is None:  # the end of a visit
            return NoKeyError(f"{self._port.kind} {self.name!r}: {record!r} has no key, so there is no default key for state; pass key=...")
        return NoKeyError(
            f"{self._port.kind} {self.name!r}: the record (input {record.input!r}, partition {record.task}, offset {record.offset}) "
            "has no key, so there is no default key for state; pass key=..., or send records with keys"
        )


class Writable(Readable):
    """What handles on stores add."""

    __slots__ = ()
    _written = True

    def set(self, value: Any, key: Any = None) -> None:
        """Write `value` for `key`, by default the record's own key. ``None`` is refused: use delete().

        Raises OutputError if the value cannot be encoded or is beyond the store's limit.
        """
        raw = self._ctx._key if key is None else self._foreign(key)
        if raw is None:
            raise self._no_key()
        self._write(raw, self._encoded(raw, value))

    def delete(self, key: Any = None) -> None:
        """Forget `key`, by default the record's own. Deleting what is not there is fine."""
        raw = self._ctx._key if key is None else self._foreign(key)
        if raw is None:
            raise self._no_key()
        self._write(raw, None)

    # -- for the subclasses

    def _encoded(self, raw: bytes, value: Any) -> bytes:
        if value is None:
            raise OutputError(f"store {self.name!r}: None cannot be stored; use delete()")
        try:
            data = self._encode(value)
        except Exception as error:
            raise self._unencodable(value, error) from error
        if len(raw) + len(data) > self._max:
            raise OutputError(
                f"store {self.name!r}: key {raw!r:.80} and its value have {len(raw) + len(data)} bytes, "
                f"the limit is {self._max}"
            )
        return data

    def _write(self, raw: bytes, data: Optional[bytes]) -> None:
        ctx = self._ctx
        writes = self._writes
        ctx._log.append((self._cells, raw, data, writes.get(raw, MISSING), ctx._index))
        writes[raw] = data
        ctx._staged += len(raw) + OP_OVERHEAD + (len(data) if data is not None else 0)

    def _unencodable(self, value: Any, error: Exception) -> OutputError:
        return OutputError(
            f"store {self.name!r}: a value of type {type(value).__name__} cannot be encoded as "
            f"{self._port.value.name}: {error}"
        )


class PlainReads(Readable):
    """Reading in a plain (not async) handler."""

    __slots__ = ()

    def get(self, key: Any = None, default: Any = None) -> Any:
        """The value of `key` (by default the record's own), or `default` if there is none.

        Changing the returned object changes nothing: write it back with set().
        """
        ctx = self._ctx
        if key is None:
            raw = ctx._key
            if raw is None:
                raise self._no_key()
            data = self._known(raw, True)
        else:
            raw = self._foreign(key)
            data = self._known(raw, False)
        if data is MISSING:
            data = self._fetch([raw])[0]
        return self._value(raw, data, default)

    def get_many(self, keys: Iterable[Any]) -> List[Any]:
        """The values of `keys` in their order, None where there is none, in as few round trips as possible."""
        raws = [self._foreign(key) for key in keys]
        found = [self._known(raw, False) for raw in raws]
        missing = list(dict.fromkeys(raw for raw, data in zip(raws, found) if data is MISSING))
        if missing:
            fetched = dict(zip(missing, self._fetch(missing)))
            found = [fetched[raw] if data is MISSING else data for raw, data in zip(raws, found)]
        return [self._value(raw, data) for raw, data in zip(raws, found)]

    def scan(
        self, start: Any = None, end: Any = None, *, prefix: Any = None, limit: int = 0, reverse: bool = False
    ) -> Iterator[Row]:
        """Pairs (key, value) of this task with start <= key < end in the order of the key bytes, paged as they are read.

        ``limit=0`` means all. The batch's own writes up to now are seen. Writing while iterating is allowed; whether
        later pages show it depends on the key's place.
        """
        if self._written:
            self._ctx._touch_foreign()
        first, last = self._bounds(start, end, prefix)
        return self._rows(first, last, limit, reverse)

    def _rows(self, first: Optional[bytes], last: Optional[bytes], limit: int, reverse: bool) -> Iterator[Row]:
        cursor: Optional[bytes] = None
        given = 0
        while True:
            want = limit - given if limit else 0
            rows, cursor = self._batch.scan(self._ctx, self._port.id, first, last, want, reverse, cursor)
            for row in rows:
                yield self._row(row)
                given += 1
                if limit and given >= limit:
                    return
            if cursor is None:
                return

    def _fetch(self, raws: List[bytes]) -> List[Any]:
        values = self._batch.get(self._ctx, self._port, raws)
        self._cells.fetched.update(zip(raws, values))
        return values


class Store(PlainReads, Writable):
    """State in a plain (not async) handler."""

    __slots__ = ()


class Table(PlainReads):
    """A join or lookup in a plain handler: read-only. Others write to its topic, and reads that ask the sidecar see it."""

    __slots__ = ()


class AsyncReads(Readable):
    """Reading in an async handler."""

    __slots__ = ()
    _ctx: "AsyncContext"

    async def get(self, key: Any = None, default: Any = None) -> Any:
        """As :meth:`Store.get`."""
        ctx = self._ctx
        if key is None:
            raw = ctx._key
            if raw is None:
                raise self._no_key()
            data = self._known(raw, True)
        else:
            raw = self._foreign(key)
            if self._written and raw != ctx._key:
                await ctx._barrier()
            data = self._known(raw, False)
        if data is MISSING:
            data = (await self._fetch([raw]))[0]
        return self._value(raw, data, default)

    async def get_many(self, keys: Iterable[Any]) -> List[Any]:
        """As :meth:`Store.get_many`."""
        raws = [self._foreign(key) for key in keys]
        if self._written and any(raw != self._ctx._key for raw in raws):
            await self._ctx._barrier()
        found = [self._known(raw, False) for raw in raws]
        missing = list(dict.fromkeys(raw for raw, data in zip(raws, found) if data is MISSING))
        if missing:
            fetched = dict(zip(missing, await self._fetch(missing)))
            found = [fetched[raw] if data is MISSING else data for raw, data in zip(raws, found)]
        return [self._value(raw, data) for raw, data in zip(raws, found)]

    async def scan(
        self, start: Any = None, end: Any = None, *, prefix: Any = None, limit: int = 0, reverse: bool = False
    ) -> AsyncIterator[Row]:
        """As :meth:`Store.scan`, for ``async for``. Of a store always a barrier."""
        first, last = self._bounds(start, end, prefix)
        if self._written:
            self._ctx._touch_foreign()
            await self._ctx._barrier()
        cursor: Optional[bytes] = None
        given = 0
        while True:
            want = limit - given if limit else 0
            rows, cursor = await self._batch.scan_async(self._ctx, self._port.id, first, last, want, reverse, cursor)
            for row in rows:
                yield self._row(row)
                given += 1
                if limit and given >= limit:
                    return
            if cursor is None:
                return

    async def _fetch(self, raws: List[bytes]) -> List[Any]:
        values = await self._batch.get_async(self._ctx, self._port, raws)
        self._cells.fetched.update(zip(raws, values))
        return values


class AsyncStore(AsyncReads, Writable):
    """State in an ``async`` handler: reads are awaited, writes are not.

    Reading or writing another key than the record's own waits until all earlier records of the batch are done, and later
    ones that had already begun are cancelled and run again afterwards, so the outcome is that of one after the other.
    """

    __slots__ = ()
    _ctx: "AsyncContext"

    def _write(self, raw: bytes, data: Optional[bytes]) -> None:
        """A write to another key waits, unseen, until all earlier items are done: they may still read that key."""
        ctx = self._ctx
        if raw != ctx._key and ctx._must_defer():
            ctx._deferred.append((self, raw, data))
        else:
            super()._write(raw, data)


class AsyncTable(AsyncReads):
    """A join or lookup in an async handler: read-only, and no barrier."""

    __slots__ = ()


def _after_prefix(prefix: bytes) -> Optional[bytes]:
    """The first byte string after all that begin with `prefix`; None if there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
