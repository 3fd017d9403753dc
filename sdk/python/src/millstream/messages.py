"""The frames of the worker protocol, version 1, as this SDK uses them.

A frame is a 4-byte big-endian length and one MessagePack array ``[kind, field...]``. Fields are positional; further ones at
the end are ignored. The binding text is docs/reference/protocol.md. Nothing here does I/O.
"""

from __future__ import annotations

import struct
import warnings
from typing import Any, Final, List, Optional, Tuple, Union

import msgpack

from .errors import ProtocolError

if getattr(msgpack.Packer, "__module__", "").endswith("fallback"):
    warnings.warn(
        "millstream: only msgpack's pure-Python fallback is loaded, which is 20 times slower; install a wheel of msgpack "
        "for this platform (pip install --force-reinstall --only-binary :all: msgpack)",
        RuntimeWarning,
        stacklevel=2,
    )

MIN_VERSION: Final = 1
MAX_VERSION: Final = 1
# Until WELCOME tells the cap, no frame may be larger than this.
HELLO_FRAME_CAP: Final = 64 << 10
DEFAULT_FRAME_CAP: Final = 16 << 20
# The hard end of what a WELCOME may ask for: a 4-byte length could say 4 GiB.
MAX_FRAME_CAP: Final = 1 << 30

HELLO: Final = 1
WELCOME: Final = 2
OPEN: Final = 3
CLOSE: Final = 4
BATCH: Final = 5
RESULT: Final = 6
CANCEL: Final = 7
GET: Final = 8
VALUES: Final = 9
SCAN: Final = 10
ROWS: Final = 11
EXTEND: Final = 12
BEGIN: Final = 13
FINALIZE: Final = 14
COMMITTED: Final = 15
LOAD: Final = 16
CHECKPOINT: Final = 17
STORE: Final = 18
STORED: Final = 19
PING: Final = 20
PONG: Final = 21
ERROR: Final = 22
GOODBYE: Final = 23

NAMES: Final = {
    HELLO: "HELLO", WELCOME: "WELCOME", OPEN: "OPEN", CLOSE: "CLOSE", BATCH: "BATCH", RESULT: "RESULT", CANCEL: "CANCEL",
    GET: "GET", VALUES: "VALUES", SCAN: "SCAN", ROWS: "ROWS", EXTEND: "EXTEND", BEGIN: "BEGIN", FINALIZE: "FINALIZE",
    COMMITTED: "COMMITTED", LOAD: "LOAD", CHECKPOINT: "CHECKPOINT", STORE: "STORE", STORED: "STORED",
    PING: "PING", PONG: "PONG", ERROR: "ERROR", GOODBYE: "GOODBYE",
}
# Fewest elements of the array (kind included) that a frame from the sidecar must have.
_MIN_FIELDS: Final = {
    WELCOME: 2, OPEN: 2, CLOSE: 2, BATCH: 7, CANCEL: 2, VALUES: 4, ROWS: 5, BEGIN: 3, FINALIZE: 3, COMMITTED: 2, LOAD: 3, STORE: 5, PING: 2, PONG: 2, ERROR: 3, GOODBYE: 2,
}

FLAG_TRACE: Final = 1
ITEM_RECORD: Final = 0
ITEM_TIMER: Final = 1
ITEM_CLOSING: Final = 2
ITEM_VISIT: Final = 3
NOT_PREFETCHED_EXT: Final = 1


class _NotPrefetched:
    """A state value that was not sent along: ask for it by GET."""

    def __repr__(self) -> str:
        return "NOT_PREFETCHED"


NOT_PREFETCHED: Final = _NotPrefetched()

# A name is text, or bytes where it may not be UTF-8.
HeaderRows = List[Tuple[Union[str, bytes], Optional[bytes]]]

_LENGTH = struct.Struct(">I")
LENGTH_BYTES: Final = _LENGTH.size


def _ext_hook(code: int, data: bytes) -> Any:
    if code == NOT_PREFETCHED_EXT:
        return NOT_PREFETCHED
    raise ProtocolError(f"unknown MessagePack extension type {code}")


def frame_length(prefix: bytes, cap: int) -> int:
    """The payload length a frame announces; refused over `cap` before anything is allocated."""
    length: int = _LENGTH.unpack(prefix)[0]
    if length > cap:
        raise ProtocolError(f"frame of {length} bytes is over the cap of {cap} bytes", code="FrameTooLarge")
    if length == 0:
        raise ProtocolError("empty frame")
    return length


def decode(payload: bytes) -> List[Any]:
    """One frame from the sidecar as a list ``[kind, field...]``; its shape is checked as far as the kind demands.

    Raises ProtocolError. Byte strings stay ``bytes``; text with bytes that are not UTF-8 keeps them as surrogates.
    """
    try:
        message = msgpack.unpackb(
            payload, raw=False, unicode_errors="surrogateescape", strict_map_key=False, ext_hook=_ext_hook
        )
    except ProtocolError:
        raise
    except Exception as error:  # msgpack raises a dozen kinds
        raise ProtocolError(f"frame is not MessagePack: {type(error).__name__}: {error}") from error
    if type(message) is not list or not message or type(message[0]) is not int:
        raise ProtocolError("frame is not an array [kind, field...]")
    kind = message[0]
    least = _MIN_FIELDS.get(kind)
    if least is None:
        raise ProtocolError(f"unexpected frame kind {kind} ({NAMES.get(kind, 'unknown')})")
    if len(message) < least:
        raise ProtocolError(f"{NAMES[kind]} has {len(message) - 1} fields, at least {least - 1} are needed")
    return message


class Encoder:
    """Packs frames; reuses one buffer. Not thread-safe: the owner serialises calls."""

    def __init__(self) -> None:
        self._packer = msgpack.Packer(autoreset=True)

    def payload(self, message: Any) -> bytes:
        packed: bytes = self._packer.pack(message)
        return packed

    @staticmethod
    def prefix(payload: bytes) -> bytes:
        return _LENGTH.pack(len(payload))


def output_row(
    output: int, key: Optional[bytes], value: Optional[bytes], timestamp: Optional[int],
    headers: Optional[HeaderRows], partition: Optional[int],
) -> Tuple[Any, ...]:
    """An output of RESULT; what is nil at the end is left out."""
    if partition is not None:
        return (output, key, value, timestamp, headers or None, partition)
    if headers:
        return (output, key, value, timestamp, headers)
    return (output, key, value, timestamp)


def get_frame(seq: int, rid: int, store: int, keys: List[bytes]) -> List[Any]:
    return [GET, seq, rid, store, keys]


def scan_frame(
    seq: int, rid: int, store: int, first: Optional[bytes], last: Optional[bytes], limit: int, reverse: bool,
    cursor: Optional[bytes], new_ops: Any,
) -> List[Any]:
    frame = [SCAN, seq, rid, store, first, last, limit, reverse]
    if new_ops:
        return [*frame, cursor, new_ops]
    return frame if cursor is None else [*frame, cursor]


def result_frame(
    seq: int, done: int, failure: Any, ops: Any, outputs: Any, timers: Any = None, visits: Any = None
) -> List[Any]:
    frame = [RESULT, seq, done, failure, ops, outputs]
    if visits:
        return [*frame, timers or [], visits]
    return [*frame, timers] if timers else frame


def as_bytes(data: Any) -> bytes:
    """A byte string field. Senders write ``bin``; ``str`` is taken too."""
    if type(data) is bytes:
        return data
    if type(data) is str:
        return data.encode("utf-8", "surrogateescape")
    raise ProtocolError(f"expected a byte string, got {type(data).__name__}")
