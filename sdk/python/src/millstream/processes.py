"""Several worker processes under one parent: started by fork, restarted when they crash, stopped together."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
import time
import traceback
from types import FrameType
from typing import Callable, Dict, Final, List, Optional

log = logging.getLogger("millstream")

_FIRST_BACKOFF: Final = 0.1
_LONGEST_BACKOFF: Final = 5.0
# More crashes than this within the window, and the parent gives up: whoever started it sees the failure.
_MAX_CRASHES: Final = 10
_CRASH_WINDOW_SECONDS: Final = 60.0
# After the workers' own bound for stopping they are killed.
_KILL_GRACE_SECONDS: Final = 5.0
_PR_SET_PDEATHSIG: Final = 1
# An exit code that says: starting again will not help (App.run uses it for ConfigError).
CONFIG_EXIT: Final = 2


def supervise(count: int, work: Callable[[int], None], stop_seconds: float) -> None:
    """Runs `work(number)` in `count` processes until all have ended in good order.

    Call it from the main thread before other threads exist. A crashed process is started again after a pause. Exits with
    the code of a process that cannot run at all, or 1 when they crash again and again.
    """
    _Supervisor(count, work, stop_seconds).run()


class _Supervisor:
    def __init__(self, count: int, work: Callable[[int], None], stop_seconds: float) -> None:
        self._count = count
        self._work = work
        self._stop_seconds = stop_seconds
        self._numbers: Dict[int, int] = {}  # pid -> worker number
        self._due: Dict[int, float] = {}  # worker number -> when to start it again
        self._crashes: List[float] = []
        self._backoff = _FIRST_BACKOFF
        self._stopping_since: Optional[float] = None
        self._exit_code = 0
        self._signalled = False

    def run(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        old = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            for number in range(self._count):
                self._start(number)
            while self._numbers or self._due:
                if self._signalled:
                    self._signalled = False
                    self._stop()
                self._start_due()
                if not self._reap():
                    time.sleep(0.05)  # signals cut it short; fine enough for children that run for days
                self._kill_overdue()
        finally:
            for pid in self._numbers:
                _send(pid, signal.SIGKILL)
            for number, handler in old.items():
                signal.signal(number, handler)
        if self._exit_code:
            sys.exit(self._exit_code)

    def _start(self, number: int) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self._numbers[pid] = number
            return
        code = 1
        try:
            _die_with(parent)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            code = _child(self._work, number)
        finally:
            os._exit(code)

    def _start_due(self) -> None:
        now = time.monotonic()
        for number in [number for number, at in self._due.items() if at <= now]:
            del self._due[number]
            self._start(number)

    def _reap(self) -> bool:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        number = self._numbers.pop(pid, None)
        if number is None:
            return pid != 0  # a child of the program's own
        code = os.waitstatus_to_exitcode(status)
        if code == 0 or self._stopping_since is not None:
            return True
        if code == CONFIG_EXIT:
            self._stop(code)
            return True
        self._restart(number, code)
        return True

    def _restart(self, number: int, code: int) -> None:
        now = time.monotonic()
        self._crashes = [at for at in self._crashes if now - at < _CRASH_WINDOW_SECONDS] + [now]
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        if len(self._crashes) > _MAX_CRASHES:
            log.error("worker %d %s; %d crashes within a minute, giving up", number, how, len(self._crashes))
            self._stop(1)
            return
        if len(self._crashes) == 1:
            self._backoff = _FIRST_BACKOFF
        log.warning("worker %d %s, starting it again in %.1f s", number, how, self._backoff)
        self._due[number] = now + self._backoff
        self._backoff = min(self._backoff * 2, _LONGEST_BACKOFF)

    def _stop(self, code: int = 0) -> None:
        self._exit_code = self._exit_code or code
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()
        self._due.clear()
        for pid in self._numbers:
            _send(pid, signal.SIGTERM)

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        self._signalled = True  # no more than that: it may interrupt anything

    def _kill_overdue(self) -> None:
        since = self._stopping_since
        if since is not None and time.monotonic() - since > self._stop_seconds + _KILL_GRACE_SECONDS:
            for pid in self._numbers:
                _send(pid, signal.SIGKILL)


def _die_with(parent: int) -> None:
    """So that a parent killed by SIGKILL leaves no workers behind; on Linux only."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # it died before that took hold
        os._exit(1)


def _child(work: Callable[[int], None], number: int) -> int:
    """The exit code that the interpreter would give."""
    from .errors import ConfigError, MillstreamError

    try:
        work(number)
        return 0
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except (MillstreamError, ConnectionError) as error:
        print(f"millstream: {error}", file=sys.stderr)
        return CONFIG_EXIT if isinstance(error, ConfigError) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
