"""A scripted sidecar over a real Unix socket: tests say which frames it sends and look at those it gets.

It knows nothing of the SDK's code; it packs and unpacks frames by the published layout.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import tempfile
from typing import Any, Dict, List, Optional

import msgpack

HELLO, WELCOME, OPEN, CLOSE, BATCH, RESULT, CANCEL, GET, VALUES, SCAN, ROWS, EXTEND = range(1, 13)
PING, PONG, ERROR, GOODBYE = range(20, 24)
NOT_PREFETCHED = msgpack.ExtType(1, b"")
TIMEOUT = 20.0


def welcome(
    inputs=("in",), stores=("s",), outputs=("out",), session=1, prefetched=True, max_value=1 << 20, max_bytes=1 << 20,
    frame=16 << 20, deadline_ms=60_000, protocol=1, **more: Any,
) -> Dict[str, Any]:
    fields: Dict[str, Any] = {
        "protocol": protocol, "session": session, "processor": "test",
        "inputs": [{"name": n, "topic": "topic-" + n} for n in inputs],
        "outputs": [{"name": n, "topic": "topic-" + n, "max_bytes": max_bytes} for n in outputs],
        "stores": [{"name": n, "type": "KeyValue", "prefetched": prefetched, "max_value_bytes": max_value} for n in stores],
        "joins": [], "lookups": [], "capabilities": [],
        "limits": {"frame": frame, "deadline_ms": deadline_ms, "min_timestamp": 0, "max_timestamp": 1 << 50},
    }
    fields.update(more)
    return fields


def records(*items: Any, offset: int = 0) -> tuple:
    """(keys, items) of records given as (key, value) or (key, value, {"headers", "timestamp", "input", "attempt"})."""
    keys: List[bytes] = []
    rows = []
    for n, item in enumerate(items):
        key, value, more = (*item, {})[:3]
        index = None
        if key is not None:
            if key not in keys:
                keys.append(key)
            index = keys.index(key)
        rows.append([0, more.get("input", 0), offset + n, more.get("timestamp", 1000 + n), index, value,
                     more.get("headers"), more.get("attempt", 1)])
    return keys, rows


class Connection:
    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        connected.settimeout(TIMEOUT)
        self._buffer = connected.makefile("rb")

    def receive(self) -> Optional[List[Any]]:
        """The next frame, None at the end of the connection."""
        try:
            prefix = self._buffer.read(4)
        except ConnectionResetError:  # the peer died with frames unread
            return None
        if len(prefix) < 4:
            return None
        return msgpack.unpackb(self._buffer.read(struct.unpack(">I", prefix)[0]), raw=False, strict_map_key=False)

    def expect(self, kind: int) -> List[Any]:
        frame = self.receive()
        assert frame is not None and frame[0] == kind, f"expected kind {kind}, got {frame!r:.300}"
        return frame

    def send(self, *fields: Any) -> None:
        payload = msgpack.packb(list(fields))
        self.raw(struct.pack(">I", len(payload)) + payload)

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def batch(self, seq: int, keys: List[bytes], items: List[Any], state: Optional[Dict[int, Any]] = None,
              task: int = 0, trace: bool = False, more: tuple = ()) -> None:
        state = {0: [None] * len(keys)} if state is None else state
        self.send(BATCH, seq, task, 1 if trace else 0, keys, items, state, None, *more)

    def run(self, seq: int, *items: Any, **more: Any) -> List[Any]:
        """Sends a batch and gives its RESULT."""
        self.batch(seq, *records(*items), **more)
        return self.expect(RESULT)

    def handshake(self, **fields: Any) -> Dict[str, Any]:
        hello = self.expect(HELLO)
        self.send(WELCOME, welcome(**fields))
        self.send(OPEN, 0)
        return hello[1]

    def close(self) -> None:
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._buffer.close()
        self.socket.close()


class FakeSidecar:
    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="ms")
        self.path = os.path.join(self.folder, "w.sock")
        self._listener: Optional[socket.socket] = None
        self._connections: List[Connection] = []
        self.listen()

    def listen(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(16)
        self._listener.settimeout(TIMEOUT)

    def stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            os.unlink(self.path)

    def accept(self) -> Connection:
        assert self._listener is not None
        connection = Connection(self._listener.accept()[0])
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self.stop_listening()
        shutil.rmtree(self.folder, ignore_errors=True)
