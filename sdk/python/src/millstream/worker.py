"""One worker process: connects, serves sessions one after the other, reconnects, and stops in good order."""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, Callable, Dict, Final, Optional

from . import channel, error_codes
from .channel import Channel
from .errors import ConfigError, NoSidecarError, ProtocolError, RefusedError
from .executor import run_batches
from .schema import Declarations
from .session import Session

log = logging.getLogger("millstream")

_CONNECT_SECONDS: Final = 10.0
_FIRST_BACKOFF: Final = 0.05
_LONGEST_BACKOFF: Final = 2.0
# A session that lived so long, or returned a result, was a good one: the next one is tried without delay.
_GOOD_SESSION_SECONDS: Final = 5.0
# A second Ctrl-C sooner than this is the same one seen twice (the terminal signals the whole process group).
_SAME_INTERRUPT_SECONDS: Final = 0.5
# After the bound for stopping the worker says GOODBYE and serves what is in flight for so long.
_LEAVE_SECONDS: Final = 5.0
# Told to stop while HELLO is unanswered: so long for a WELCOME that is on its way.
_HELLO_GRACE_SECONDS: Final = 1.0

STOP_VARIABLE: Final = "MILLSTREAM_STOP_TIMEOUT"


class Worker:
    """Serves until it is told to stop, or the sidecar stays away for too long. Use once; run() from the main thread.

    `start_seconds` bounds the wait for the first connection, `lost_seconds` that for a sidecar that went away,
    `stop_seconds` how long it goes on serving after SIGTERM while no GOODBYE comes.
    """

    def __init__(
        self, declared: Declarations, *, path: str, name: str, threads: int, ahead: int, concurrency: int,
        start_seconds: float, lost_seconds: float, stop_seconds: float,
    ) -> None:
        self._declared = declared
        self._path = path
        self._name = name
        self._threads = threads
        self._parallel = threads + ahead
        self._concurrency = concurrency
        self._start_seconds = start_seconds
        self._lost_seconds = lost_seconds
        self._stop_seconds = stop_seconds
        self._session: Optional[Session] = None
        self._opening: Optional[Channel] = None  # a connection that has no session yet
        self._stop = threading.Event()
        self._interrupted_at: Optional[float] = None
        self._said_waiting = False

    def run(self) -> None:
        """Returns after an orderly end. Raises NoSidecarError, RefusedError, ConfigError."""
        if threading.current_thread() is not threading.main_thread():
            self._serve()  # signals are the main thread's business
            return
        with _Signals(self._on_signal):
            self._serve()

    def stop(self) -> None:
        """Serve until GOODBYE, for at most `stop_seconds`. Safe from any thread, not from a signal handler."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._later(self._stop_seconds, self._leave)
        opening = self._opening
        if opening is not None:
            # A sidecar that does not answer HELLO is not waited for: nothing is in flight.
            self._later(_HELLO_GRACE_SECONDS, lambda: opening.close() if self._opening is opening else None)

    @staticmethod
    def _later(seconds: float, act: Callable[[], object]) -> None:
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()

    # -- sessions

    def _serve(self) -> None:
        wait_until = time.monotonic() + self._start_seconds
        backoff = _FIRST_BACKOFF
        connected_once = False
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                results = self._one_session()
            except (NoSidecarError, ConnectionError, RefusedError, ProtocolError) as error:
                self._give_up_or_log(error, wait_until, connected_once)
            else:
                connected_once = True
                if self._stop.is_set():
                    return
                now = time.monotonic()
                wait_until = now + self._lost_seconds
                if results or now - began > _GOOD_SESSION_SECONDS:
                    backoff = _FIRST_BACKOFF
            # Jitter, so that the workers of a pod do not all knock at once.
            self._stop.wait(backoff * random.uniform(0.5, 1.0))
            backoff = min(backoff * 2, _LONGEST_BACKOFF)

    def _one_session(self) -> int:
        """Serves one connection to its end; the number of results it returned."""
        connection = Channel.connect(self._path, _CONNECT_SECONDS)
        self._opening = connection
        try:
            if self._stop.is_set():
                raise ConnectionError("told to stop")
            session = Session.open(connection, self._declared, self._name, self._parallel)
        except BaseException:
            connection.release()
            raise
        finally:
            self._opening = None
        self._session = session
        self._said_waiting = False
        log.info("connected to %s, processor %s, session %s", self._path, session.schema.processor, session.schema.session)
        session.start()
        try:
            run_batches(session, self._threads, self._declared.any_async, self._concurrency)
        finally:
            session.end()
            session.join()
            self._session = None
        level = logging.INFO if session.said_goodbye or self._stop.is_set() else logging.WARNING
        log.log(level, "session %s ended: %s", session.schema.session, session.end_reason)
        return session.results

    def _give_up_or_log(self, error: Exception, wait_until: float, connected_once: bool) -> None:
        if isinstance(error, RefusedError):
            known = error_codes.find(error.code)
            if known.final:
                raise ConfigError(f"the sidecar refuses this program: {error} ({error.code}). What to do: {known.remedy}") from error
            log.warning("the sidecar does not take this worker yet: %s (%s). What to do: %s", error, error.code, known.remedy)
        if time.monotonic() >= wait_until:
            if isinstance(error, NoSidecarError):
                raise NoSidecarError(missing_sidecar(self._path, connected_once, self._lost_seconds)) from error
            raise error
        if not self._said_waiting:
            self._said_waiting = True
            log.info("waiting for the sidecar: %s", error)

    # -- stopping

    def _leave(self) -> None:
        session = self._session
        if session is not None:
            session.leave("the worker was told to stop")
            self._later(_LEAVE_SECONDS, session.end)

    def _on_signal(self, number: int) -> None:
        now = time.monotonic()
        if number == signal.SIGINT:
            if self._interrupted_at is not None and now - self._interrupted_at > _SAME_INTERRUPT_SECONDS:
                os._exit(130)
            self._interrupted_at = self._interrupted_at or now
        self.stop()


class _Signals:
    """While entered, SIGTERM and SIGINT call `act` on a thread of its own: a signal handler may interrupt anything, also
    code that holds the locks that `act` needs, so the handlers themselves only write a byte to a pipe."""

    def __init__(self, act: Callable[[int], None]) -> None:
        self._act = act
        self._old: Dict[int, Any] = {}
        self._read_end = self._write_end = -1

    def __enter__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        threading.Thread(target=self._watch, args=(self._read_end,), name="millstream-signals", daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._old[number] = signal.signal(number, self._note)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        os.close(self._write_end)  # the watching thread sees the end and closes the other

    def _note(self, number: int, frame: Optional[FrameType]) -> None:
        try:
            os.write(self._write_end, bytes([number]))
        except BlockingIOError:  # thousands unread: one more says nothing new
            pass

    def _watch(self, read_end: int) -> None:
        while data := os.read(read_end, 1):
            self._act(data[0])
        os.close(read_end)


def missing_sidecar(path: str, connected_once: bool, lost_seconds: float) -> str:
    """What to do when nobody listens; with the name of the program that was started."""
    script = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "program.py"
    if connected_once:
        return f"the sidecar at {path} went away and did not come back within {lost_seconds:g} s"
    return f"no sidecar at {path}; run: millstream run -f processor.yaml -- python {script}"


def managed() -> bool:
    """Whether somebody (millstream run, the operator) told this process where the socket is: then it is worth waiting."""
    return bool(os.environ.get(channel.SOCKET_VARIABLE))
