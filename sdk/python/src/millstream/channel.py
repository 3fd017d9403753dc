"""Frames over a connected Unix stream socket."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any, Callable, Final, Optional

from . import messages
from .errors import NoSidecarError, ProtocolError

DEFAULT_SOCKET: Final = "/run/millstream/worker.sock"
SOCKET_VARIABLE: Final = "MILLSTREAM_SOCKET"
# sockaddr_un holds 108 bytes with the final zero.
_MAX_PATH: Final = 107
_READ_BUFFER: Final = 256 << 10


def socket_path() -> str:
    return os.environ.get(SOCKET_VARIABLE) or DEFAULT_SOCKET


class Channel:
    """One thread receives; any thread sends (a lock keeps frames whole). Closing wakes both.

    Every call raises ConnectionError once the connection has ended, ProtocolError for a frame that is none.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._reader = connected.makefile("rb", buffering=_READ_BUFFER)
        self._encoder = messages.Encoder()
        self.send_lock = threading.RLock()
        # Until WELCOME tells: enough for any first frame.
        self.frame_cap = messages.HELLO_FRAME_CAP

    @classmethod
    def connect(cls, path: str, timeout: float) -> "Channel":
        """Raises NoSidecarError if nobody listens there."""
        if len(os.fsencode(path)) > _MAX_PATH:
            raise NoSidecarError(f"socket path {path!r} is over {_MAX_PATH} bytes; set {SOCKET_VARIABLE} to a shorter one")
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.settimeout(timeout)
        try:
            connected.connect(path)
        except OSError as error:
            connected.close()
            raise NoSidecarError(f"no sidecar at {path}: {error.strerror or error}") from error
        connected.settimeout(None)
        return cls(connected)

    def receive(self) -> Any:
        """The next frame, decoded."""
        prefix = self._read(messages.LENGTH_BYTES, at_frame_start=True)
        return messages.decode(self._read(messages.frame_length(prefix, self.frame_cap)))

    def receive_within(self, seconds: float) -> Any:
        """The next frame, or ConnectionError after `seconds` of waiting; only before receive() runs elsewhere."""
        timer = threading.Timer(seconds, self.close)
        timer.daemon = True
        timer.start()
        try:
            return self.receive()
        finally:
            timer.cancel()

    def send(self, message: Any, unless: Optional[Callable[[], bool]] = None) -> bool:
        """Sends one frame; False if `unless`, asked under the lock, says that it no longer should be."""
        with self.send_lock:
            if unless is not None and unless():
                return False
            payload = self._encoder.payload(message)
            if len(payload) > self.frame_cap:
                raise ProtocolError(
                    f"a {messages.NAMES.get(message[0])} of {len(payload)} bytes is over the frame cap of "
                    f"{self.frame_cap} bytes", code="FrameTooLarge",
                )
            try:
                self._socket.sendall(self._encoder.prefix(payload) + payload)
            except (OSError, ValueError) as error:
                raise ConnectionError(f"sending to the sidecar failed: {error}") from error
            return True

    def close(self) -> None:
        """Ends the connection; safe to call from any thread, more than once."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def release(self) -> None:
        """Frees the descriptors; by the receiving thread's owner, after it ended."""
        self.close()
        for thing in (self._reader, self._socket):
            try:
                thing.close()
            except OSError:
                pass

    def _read(self, size: int, at_frame_start: bool = False) -> bytes:
        try:
            data: bytes = self._reader.read(size)
        except (OSError, ValueError) as error:
            raise ConnectionError(f"reading from the sidecar failed: {error}") from error
        if len(data) < size:
            if data or not at_frame_start:
                raise ConnectionError("the connection ended in the middle of a frame")
            raise ConnectionError("the sidecar closed the connection")
        return data
