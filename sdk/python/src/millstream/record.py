"""One input record as a handler sees it."""

from __future__ import annotations

import datetime
from typing import Any, Final, List, Optional, Tuple

from .errors import DecodeError
from .schema import InputPort

_UNSET: Final[Any] = object()


class Record:
    """A record. Key and value are decoded when first asked for, by the codecs of its input.

    Valid as long as the program keeps it; read-only. Not meant to be made by programs (tests feed them through
    :class:`millstream.testing.TestKit`).
    """

    __slots__ = ("_item", "_raw_key", "_task", "_port", "_key", "_value")

    def __init__(self, item: List[Any], raw_key: Optional[bytes], task: int, port: InputPort) -> None:
        self._item = item
        self._raw_key = raw_key
        self._task = task
        self._port = port
        self._key = _UNSET
        self._value = _UNSET

    @property
    def key(self) -> Any:
        """The decoded key; None if the record has none. With the default codec (``STR``) any bytes survive exactly."""
        key = self._key
        if key is _UNSET:
            raw = self._raw_key
            if raw is None:
                key = None
            else:
                try:
                    key = self._port.decode_key(raw)
                except Exception as error:
                    raise self._undecodable("key", self._port.handler.key.name, raw, error) from error
            self._key = key
        return key

    @property
    def value(self) -> Any:
        """The decoded value; None for a null value (a tombstone). Raises DecodeError."""
        value = self._value
        if value is _UNSET:
            raw = self._item[5]
            if raw is None:
                value = None
            else:
                if type(raw) is str:
                    raw = raw.encode("utf-8", "surrogateescape")
                try:
                    value = self._port.decode_value(raw)
                except Exception as error:
                    raise self._undecodable("value", self._port.value_codec, raw, error) from error
            self._value = value
        return value

    @property
    def raw_key(self) -> Optional[bytes]:
        """The key's bytes, as they are in the topic."""
        return self._raw_key

    @property
    def raw_value(self) -> Optional[bytes]:
        """The value's bytes, as they are in the topic."""
        raw = self._item[5]
        return raw.encode("utf-8", "surrogateescape") if type(raw) is str else raw

    @property
    def headers(self) -> List[Tuple[str, Optional[bytes]]]:
        """All headers in order; names may repeat, values are bytes or None. A name that is not UTF-8 has lone surrogates
        and turns into the same bytes again when it is emitted."""
        return [
            (
                name.decode("utf-8", "surrogateescape") if type(name) is bytes else name,
                value.encode("utf-8", "surrogateescape") if type(value) is str else value,
            )
            for name, value, *_ in self._item[6] or ()
        ]

    def header(self, name: str, default: Optional[bytes] = None) -> Optional[bytes]:
        """The value of the last header of that name."""
        for found, value in reversed(self.headers):
            if found == name:
                return value
        return default

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970, possibly negative."""
        timestamp: int = self._item[3]
        return timestamp

    @property
    def time(self) -> datetime.datetime:
        """The timestamp as an aware datetime in UTC. Raises OverflowError beyond the years 1 to 9999."""
        return _EPOCH + datetime.timedelta(milliseconds=self.timestamp)

    @property
    def offset(self) -> int:
        offset: int = self._item[2]
        return offset

    @property
    def task(self) -> int:
        """The number of the task, which is the partition of every input."""
        return self._task

    partition = task

    @property
    def input(self) -> str:
        """The input's name in the manifest."""
        return self._port.name

    @property
    def topic(self) -> str:
        return self._port.topic

    @property
    def attempt(self) -> int:
        """1 for the first try of this record, one more after each failure."""
        item = self._item
        return item[7] if len(item) > 7 and item[7] else 1

    def __repr__(self) -> str:
        return (
            f"Record(input={self.input!r}, partition={self._task}, offset={self.offset}, key={self._raw_key!r}, "
            f"timestamp={self.timestamp}, attempt={self.attempt})"
        )

    def _undecodable(self, what: str, codec: str, raw: bytes, error: Exception) -> DecodeError:
        shown = raw[:24]
        more = "..." if len(raw) > 24 else ""
        text = (
            f"the {what} of a record of input {self.input!r} (topic {self.topic!r}, partition {self._task}, "
            f"offset {self.offset}) is not {codec}: {error}; it has {len(raw)} bytes and begins with {shown!r}{more}"
        )
        if raw[:1] == b"\0" and len(raw) > 5 and codec in ("json", "str"):
            schema_id = int.from_bytes(raw[1:5], "big")
            text += (
                f". Byte 0 first: this is probably the framing of a Confluent schema registry (schema id {schema_id}); "
                f'take the bytes with @app.on("{self.input}", {what}=millstream.BYTES) and decode {what}[5:] with that '
                "schema, or pass a codec object of your own that does"
            )
        return DecodeError(text)


_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
