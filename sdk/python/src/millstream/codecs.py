"""Codecs: how keys and values become bytes and back.

A codec is any object with ``name``, ``encode(value) -> bytes`` and ``decode(data) -> value``. Null keys and values never
reach a codec: they are ``None`` on both sides. The ready-made ones:

======== ======================================================= =====================================================
name     Python value                                            bytes
======== ======================================================= =====================================================
``JSON`` what ``json`` knows; ``NaN`` and infinity are refused    compact UTF-8 JSON
``STR``  ``str``; bytes that are not UTF-8 become lone surrogates UTF-8; any byte string survives a round trip exactly
         (``surrogateescape``). ``bytes`` are passed through.
``INT``  ``int`` of 64 bits                                       8 bytes big-endian, as Kafka's LongSerializer; in scans
                                                                 negative numbers come after positive ones
``BYTES`` ``bytes``                                               as they are
======== ======================================================= =====================================================

Wherever a codec is asked for, its name in lower case (``"json"``) is taken too.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Callable, Final, Protocol, Union, runtime_checkable


@runtime_checkable
class Codec(Protocol):
    """Both methods may raise anything; the message reaches the sidecar's first error. They must be thread-safe."""

    name: str

    def encode(self, value: Any) -> bytes: ...

    def decode(self, data: bytes) -> Any: ...


def _compact_encoder(ensure_ascii: bool) -> Callable[[Any], str]:
    """JSONEncoder.encode, but with its C encoder made once instead of at every call, which halves the time."""
    plain = json.JSONEncoder(separators=(",", ":"), ensure_ascii=ensure_ascii, allow_nan=False)
    strings = json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring
    try:
        # No table of open containers (None): a value that contains itself ends in RecursionError.
        make = json.encoder.c_make_encoder  # type: ignore[attr-defined]
        pieces = make(None, plain.default, strings, None, ":", ",", False, False, False)
        if "".join(pieces({"a": [1, "b"]}, 0)) != '{"a":[1,"b"]}':
            return plain.encode
    except (AttributeError, TypeError):  # another Python, or another signature
        return plain.encode
    return lambda value: "".join(pieces(value, 0))


class JsonCodec:
    """Compact JSON. Numbers keep Python's exactness (integers of any size); key order is the program's."""

    name = "json"

    def __init__(self) -> None:
        self._raw_decode = json.JSONDecoder().raw_decode
        self._loads = json.JSONDecoder().decode
        self._dumps = _compact_encoder(ensure_ascii=False)
        # For text with lone surrogates, e.g. a key that is not UTF-8 inside a value.
        self._dumps_ascii = _compact_encoder(ensure_ascii=True)

    def encode(self, value: Any) -> bytes:
        if type(value) is int:
            return b"%d" % value
        try:
            return self._dumps(value).encode("utf-8")
        except UnicodeEncodeError:
            return self._dumps_ascii(value).encode("ascii")

    def decode(self, data: bytes) -> Any:
        text = str(data, "utf-8")
        try:
            value, end = self._raw_decode(text)
        except json.JSONDecodeError:
            return self._loads(text)  # skips leading blanks; else raises with the position
        if end == len(text):
            return value
        return self._loads(text)


class StrCodec:
    name = "str"

    def encode(self, value: Any) -> bytes:
        if type(value) is str:
            return value.encode("utf-8", "surrogateescape")
        if isinstance(value, bytes):
            return bytes(value)
        if isinstance(value, str):
            return str(value).encode("utf-8", "surrogateescape")
        raise TypeError(
            f"the str codec takes str or bytes, not {type(value).__name__}; convert it, or declare another codec "
            "(millstream.INT, millstream.JSON ...)"
        )

    def decode(self, data: bytes) -> str:
        return str(data, "utf-8", "surrogateescape")


class IntCodec:
    name = "int"
    _pack = struct.Struct(">q")

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"the int codec takes int, not {type(value).__name__}")
        try:
            return self._pack.pack(value)
        except struct.error:
            raise OverflowError(f"{value} does not fit 64 bits; declare millstream.JSON") from None

    def decode(self, data: bytes) -> int:
        if len(data) != 8:
            raise ValueError(f"an int is 8 bytes big-endian, these are {len(data)} bytes")
        value: int = self._pack.unpack(data)[0]
        return value


class BytesCodec:
    name = "bytes"

    def encode(self, value: Any) -> bytes:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        raise TypeError(f"the bytes codec takes bytes, not {type(value).__name__}")

    def decode(self, data: bytes) -> bytes:
        return data


JSON: Final = JsonCodec()
STR: Final = StrCodec()
INT: Final = IntCodec()
BYTES: Final = BytesCodec()

_BY_NAME: Final = {codec.name: codec for codec in (JSON, STR, INT, BYTES)}

CodecLike = Union[str, Codec]


def resolve(codec: CodecLike) -> Codec:
    """The codec itself, or the ready-made one of that name."""
    if isinstance(codec, str):
        try:
            return _BY_NAME[codec]
        except KeyError:
            raise ValueError(f"no codec {codec!r}; there are {', '.join(_BY_NAME)}, or pass an object") from None
    if not callable(getattr(codec, "encode", None)) or not callable(getattr(codec, "decode", None)):
        raise TypeError(f"a codec has encode(value) and decode(data); {codec!r} has not")
    return codec
