"""One connection to the sidecar: handshake, the reading thread, keep-alive, and the way out for results.

Threads: a reader takes frames off the socket and hands batches to executors through a queue; a keeper sends EXTEND while
batches make progress. Executors (executor.py) run the handlers and send results. The sidecar decides all else.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from queue import SimpleQueue
from typing import Any, Callable, Dict, Final, List, NoReturn, Optional, Set

from . import error_codes, messages
from .batch import GIVE_WAY, RUN, VOID, Batch, NewOps, ScanPage
from .channel import Channel
from .errors import BatchVoided, ConfigError, MillstreamError, OutputError, ProtocolError, RefusedError
from .external import LOAD_JOB, STORE_JOB, SqlStore
from .hooks import BEGIN_HOOK, FINALIZE_HOOK, Gathered, Hooks
from .schema import Declarations, Schema
from .version import VERSION

log = logging.getLogger("millstream")

# The sidecar answers HELLO at once; a socket that somebody else listens on may not.
HANDSHAKE_SECONDS: Final = 30.0
_LOCK_SECONDS: Final = 1.0
# EXTEND goes out at least so many times within a deadline while there is progress.
_BEATS_PER_DEADLINE: Final = 4
_LONGEST_BEAT: Final = 5.0
_SHORTEST_BEAT: Final = 0.02
# The sidecar takes 1024 unanswered requests from a worker.
_MAX_OPEN_REQUESTS: Final = 512
# Far beyond any batch deadline: a sidecar that answers no GET for so long is not coming back.
_ANSWER_SECONDS: Final = 600.0


class _Answer:
    """Waits for one VALUES or ROWS. Completed once, by the reader, by CANCEL or by the connection's end."""

    __slots__ = ("seq", "frame", "_lock", "_future", "_loop")

    def __init__(self, seq: int, loop: Optional[asyncio.AbstractEventLoop] = None) -> None:
        self.seq = seq
        self.frame: Optional[List[Any]] = None
        self._loop = loop
        self._lock = threading.Lock()
        self._lock.acquire()
        self._future: Optional["asyncio.Future[None]"] = loop.create_future() if loop else None

    def complete(self, frame: Optional[List[Any]]) -> None:
        self.frame = frame
        if self._loop is None or self._future is None:
            self._lock.release()
            return
        future = self._future
        try:
            self._loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(None))
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass

    def wait(self) -> List[Any]:
        if not self._lock.acquire(timeout=_ANSWER_SECONDS):
            raise BatchVoided
        return self._checked()

    async def wait_async(self) -> List[Any]:
        assert self._future is not None
        await self._future
        return self._checked()

    def _checked(self) -> List[Any]:
        if self.frame is None:
            raise BatchVoided
        return self.frame


class Session:
    """Made by :meth:`open`, which does the handshake; then start(), and batches come out of `batches` until None.

    `end_reason` and `said_goodbye` tell how it ended. It implements the Link of its batches.
    """

    def __init__(
        self, channel: Channel, schema: Schema, parallel: int, hooks: Optional[Hooks] = None, external: Optional[SqlStore] = None,
    ) -> None:
        self.schema = schema
        self.hooks = hooks or Hooks()
        self.external = external
        self._gathered = Gathered()
        self.batches: "SimpleQueue[Optional[Batch]]" = SimpleQueue()
        # Called from the reader for batches that become void, e.g. to cancel coroutines.
        self.on_void: Callable[[Batch], None] = lambda batch: None
        self.said_goodbye = False
        self.end_reason = ""
        self._leaving = False  # GOODBYE was said by either side: disconnect once nothing is in flight
        self.results = 0
        self._channel = channel
        self._parallel = parallel
        self._in_flight: Dict[int, Batch] = {}
        self._tasks: Set[int] = set()
        self._answers: Dict[int, _Answer] = {}
        self._next_rid = 1
        self._asking = asyncio.Semaphore(_MAX_OPEN_REQUESTS)  # of coroutines; a thread has one at a time
        self._lock = threading.Lock()  # guards _in_flight, _answers, _next_rid, _ended
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, name="millstream-reader", daemon=True)
        self._keeper = threading.Thread(target=self._keep, name="millstream-keeper", daemon=True)

    @classmethod
    def open(cls, channel: Channel, declared: Declarations, name: str, parallel: int) -> "Session":
        """HELLO and WELCOME. Raises RefusedError, ConfigError (told to the sidecar too), ProtocolError, ConnectionError."""
        channel.send([messages.HELLO, {
            "protocol": [messages.MIN_VERSION, messages.MAX_VERSION],
            "sdk": "millstream-python",
            "language": "python",
            "version": VERSION,
            "capabilities": declared.capabilities,
            "inputs": list(declared.handlers),
            "parallel": parallel,
            "name": name,
        }])
        # A WELCOME with hundreds of names is larger than a first frame from the worker may be.
        channel.frame_cap = messages.DEFAULT_FRAME_CAP
        answer = channel.receive_within(HANDSHAKE_SECONDS)
        if answer[0] == messages.ERROR:
            raise RefusedError(str(answer[1]), str(answer[2]))
        if answer[0] == messages.GOODBYE:
            raise ConnectionError("the sidecar is going away")
        try:
            if answer[0] != messages.WELCOME:
                raise ProtocolError(f"expected WELCOME, got {messages.NAMES[answer[0]]}")
            schema = Schema.from_welcome(answer[1], declared)
        except (ConfigError, ProtocolError) as error:
            _tell(channel, error)
            raise
        channel.frame_cap = schema.limits.frame
        return cls(channel, schema, parallel, declared.hooks, declared.external)

    def start(self) -> None:
        self._reader.start()
        self._keeper.start()

    def end(self, error: Optional[Exception] = None) -> None:
        """Ends the connection, telling `error`. Batches in flight become void. Safe from any thread, more than once."""
        # Under the lock, so that nothing follows an ERROR; not if a send hangs there, which the close ends.
        locked = self._channel.send_lock.acquire(timeout=_LOCK_SECONDS)
        try:
            if locked and error is not None and not self._ended.is_set():
                _tell(self._channel, error)
        finally:
            self._channel.close()
            if locked:
                self._channel.send_lock.release()

    def join(self) -> None:
        """After end(), or when `batches` gave None: waits for the threads and frees the socket."""
        self._channel.close()
        self._reader.join()
        self._keeper.join()
        self._channel.release()

    def leave(self, reason: str) -> None:
        """Asks for nothing more: what is in flight is served, then the connection ends. Safe from any thread."""
        try:
            self._channel.send([messages.GOODBYE, reason])
        except (MillstreamError, ConnectionError):
            pass
        self._close_when_idle()

    def begin(self, batch: Batch) -> bool:
        """Called by the executor before the first item; False: the batch became void while it waited, and was ended."""
        with self._lock:
            batch.waiting_since = 0.0
            if batch.signal != VOID:
                return True
        self.forget(batch)
        return False

    def forget(self, batch: Batch) -> None:
        """For a batch that became void: ends it with an empty RESULT, which the sidecar drops."""
        with self._lock:
            known = self._in_flight.pop(batch.seq, None) is not None
        if known and not self._ended.is_set():
            try:
                self._channel.send(messages.result_frame(batch.seq, 0, None, {}, []))
            except (MillstreamError, ConnectionError):
                pass  # the reader sees it too
        self._close_if_left()

    # -- Link

    def get(self, batch: Batch, store: int, keys: List[bytes]) -> List[Any]:
        answer = self._ask(batch, lambda rid: messages.get_frame(batch.seq, rid, store, keys))
        return self._values(answer.wait(), len(keys))

    async def get_async(self, batch: Batch, store: int, keys: List[bytes]) -> List[Any]:
        loop = asyncio.get_running_loop()
        async with self._asking:
            answer = self._ask(batch, lambda rid: messages.get_frame(batch.seq, rid, store, keys), loop)
            return self._values(await answer.wait_async(), len(keys))

    def scan(
        self, batch: Batch, store: int, first: Optional[bytes], last: Optional[bytes], limit: int, reverse: bool,
        cursor: Optional[bytes], new_ops: NewOps,
    ) -> ScanPage:
        answer = self._ask(batch, self._scan_frame(batch, store, first, last, limit, reverse, cursor, new_ops))
        return self._page(answer.wait())

    async def scan_async(
        self, batch: Batch, store: int, first: Optional[bytes], last: Optional[bytes], limit: int, reverse: bool,
        cursor: Optional[bytes], new_ops: NewOps,
    ) -> ScanPage:
        frame = self._scan_frame(batch, store, first, last, limit, reverse, cursor, new_ops)
        async with self._asking:
            answer = self._ask(batch, frame, asyncio.get_running_loop())
            return self._page(await answer.wait_async())

    def gathered(self, task: int) -> Dict[Any, Any]:
        return self._gathered.of(task)

    def extend(self, batch: Batch, done: int) -> None:
        batch.extended = done
        self._send(batch, [messages.EXTEND, batch.seq, done])

    def result(self, batch: Batch, message: List[Any]) -> None:
        def void_else_finish() -> bool:
            if batch.signal == VOID:
                return True
            # Finished before the frame leaves: the next batch of the task may arrive before send() returns.
            batch.finished = True
            with self._lock:
                self._in_flight.pop(batch.seq, None)
            return False

        try:
            if not self._channel.send(message, unless=void_else_finish):
                raise BatchVoided
        except ConnectionError as error:
            raise BatchVoided from error
        except ProtocolError as error:
            # Our own arithmetic of sizes is wrong; end the session rather than leave the sidecar waiting.
            self.end(error=error)
            raise BatchVoided from error
        self.results += 1
        self._close_if_left()

    # -- asking

    @staticmethod
    def _scan_frame(
        batch: Batch, store: int, first: Optional[bytes], last: Optional[bytes], limit: int, reverse: bool,
        cursor: Optional[bytes], new_ops: NewOps,
    ) -> Callable[[int], List[Any]]:
        return lambda rid: messages.scan_frame(batch.seq, rid, store, first, last, limit, reverse, cursor, new_ops)

    def _ask(
        self, batch: Batch, frame: Callable[[int], List[Any]], loop: Optional[asyncio.AbstractEventLoop] = None
    ) -> _Answer:
        answer = _Answer(batch.seq, loop)
        with self._lock:
            if batch.signal == VOID or self._ended.is_set():
                raise BatchVoided
            rid = self._next_rid
            self._next_rid += 1
            self._answers[rid] = answer
        try:
            self._send(batch, frame(rid))
        except BaseException:
            with self._lock:
                self._answers.pop(rid, None)
            raise
        return answer

    def _send(self, batch: Batch, message: List[Any]) -> None:
        try:
            if not self._channel.send(message, unless=lambda: batch.signal == VOID or batch.finished):
                raise BatchVoided
        except ConnectionError as error:
            raise BatchVoided from error
        except ProtocolError as error:
            raise OutputError(str(error)) from error

    def _values(self, frame: List[Any], count: int) -> List[Any]:
        _refuse_error(frame, 4)
        values = frame[3]
        if frame[0] != messages.VALUES or type(values) is not list or len(values) != count:
            self._wrong_answer(f"GET of {count} keys was answered with {frame!r:.120}")
        return values

    def _page(self, frame: List[Any]) -> ScanPage:
        _refuse_error(frame, 5)
        rows, cursor = frame[3], frame[4]
        if frame[0] != messages.ROWS or type(rows) is not list or not isinstance(cursor, (bytes, str, type(None))):
            self._wrong_answer(f"SCAN was answered with {frame!r:.120}")
        return rows, None if cursor is None else messages.as_bytes(cursor)

    def _wrong_answer(self, what: str) -> NoReturn:
        error = ProtocolError(what)
        self.end_reason = what
        self.end(error=error)
        raise BatchVoided from error

    # -- the reading thread

    def _read(self) -> None:
        try:
            while True:
                if not self._dispatch(self._channel.receive()):
                    break
        except ConnectionError as error:
            self.end_reason = self.end_reason or str(error)
        except Exception as error:
            wrong = error if isinstance(error, ProtocolError) else ProtocolError(
                f"a frame is not what this SDK expects: {type(error).__name__}: {error}")
            self.end_reason = str(wrong)
            self.end(error=wrong)
        self._finish()

    def _dispatch(self, frame: List[Any]) -> bool:
        """False when the connection is over."""
        kind = frame[0]
        if kind == messages.BATCH:
            batch = Batch(frame, self.schema, self)
            if self.external is not None:
                batch.sql = self.external.transaction(batch.task)
                if batch.sql is None:
                    raise ProtocolError(f"batch {batch.seq} of task {batch.task} came before LOAD was answered")
            self._take(batch)
        elif kind in (messages.VALUES, messages.ROWS):
            with self._lock:
                answer = self._answers.pop(frame[2], None)
            if answer is not None:  # else its batch was cancelled meanwhile
                answer.complete(frame)
        elif kind == messages.CANCEL:
            self._void([frame[1]])  # the executor ends it with forget()
        elif kind in (messages.BEGIN, messages.FINALIZE):
            name = BEGIN_HOOK if kind == messages.BEGIN else FINALIZE_HOOK
            if name not in self.hooks.capabilities():
                raise ProtocolError(f"{messages.NAMES[kind]}, which this worker did not ask for")
            self._take(Batch([messages.BATCH, frame[1], frame[2], 0, [], [], {}, None], self.schema, self, name))
        elif kind in (messages.LOAD, messages.STORE):
            if self.external is None:
                raise ProtocolError(f"{messages.NAMES[kind]}, which this worker did not ask for")
            job = Batch(
                [messages.BATCH, frame[1], frame[2], 0, [], [], {}, None], self.schema, self,
                LOAD_JOB if kind == messages.LOAD else STORE_JOB,
            )
            if kind == messages.STORE:
                if type(frame[3]) is not int:
                    raise ProtocolError(f"STORE {frame[1]} has {frame[3]!r} as fence")
                job.job = (frame[3], messages.as_bytes(frame[4]))
            self._take(job)
        elif kind == messages.COMMITTED:
            self._committed(frame[1])
        elif kind == messages.OPEN:
            self._tasks.add(frame[1])
            self._gathered.drop(frame[1])
        elif kind == messages.CLOSE:
            self._tasks.discard(frame[1])
            self._gathered.drop(frame[1])
            with self._lock:
                seqs = [seq for seq, batch in self._in_flight.items() if batch.task == frame[1]]
            self._void(seqs)
            if self.external is not None:  # its locks in the database are in the next owner's way
                self.external.drop(frame[1])
        elif kind == messages.PING:
            self._channel.send([messages.PONG, frame[1]])
        elif kind == messages.ERROR:
            self.end_reason = f"the sidecar ended the session: {frame[2]} ({frame[1]}). What to do: {error_codes.find(str(frame[1])).remedy}"
            return False
        elif kind == messages.GOODBYE:
            self.said_goodbye = True
            self.end_reason = f"the sidecar said goodbye: {frame[1]}"
            self._close_when_idle()
        elif kind != messages.PONG:
            raise ProtocolError(f"unexpected {messages.NAMES[kind]}")
        return True

    def _committed(self, tasks: List[Any]) -> None:
        """On the reading thread: it has to be short."""
        if self.hooks.committed is None:
            raise ProtocolError("COMMITTED, which this worker did not ask for")
        for task, _seq in tasks:
            try:
                self.hooks.committed(task)
            except Exception:
                log.exception("the committed hook failed for task %s; the transaction is committed all the same", task)

    def _take(self, batch: Batch) -> None:
        with self._lock:
            if batch.seq in self._in_flight:
                raise ProtocolError(f"batch {batch.seq} came twice")
            # A cancelled batch that a handler has yet to let go of no longer counts: the sidecar sends the next at once.
            valid = [other for other in self._in_flight.values() if other.signal != VOID]
            if len(valid) >= self._parallel:
                raise ProtocolError(f"batch {batch.seq} is more than the {self._parallel} this worker takes at once")
            if any(other.task == batch.task for other in valid):
                raise ProtocolError(f"batch {batch.seq}: one of task {batch.task} is still in flight")
            self._in_flight[batch.seq] = batch
        batch.waiting_since = time.monotonic()
        self.batches.put(batch)

    def _close_when_idle(self) -> None:
        self._leaving = True
        self._close_if_left()

    def _close_if_left(self) -> None:
        if self._leaving and not self._in_flight:
            self._channel.close()

    def _void(self, seqs: List[int]) -> None:
        with self._lock:
            batches = [batch for seq in seqs if (batch := self._in_flight.get(seq))]
            for batch in batches:
                batch.signal = VOID
            rids = [rid for rid, answer in self._answers.items() if answer.seq in seqs]
            answers = [self._answers.pop(rid) for rid in rids]
        for answer in answers:
            answer.complete(None)
        for batch in batches:
            self.on_void(batch)

    def _finish(self) -> None:
        with self._lock:
            self._ended.set()
            seqs = list(self._in_flight)
        self._void(seqs)
        with self._lock:
            self._in_flight.clear()
            answers = list(self._answers.values())
            self._answers.clear()
        for answer in answers:
            answer.complete(None)
        if self.external is not None:
            self.external.drop_all()
        self._channel.close()
        self.batches.put(None)

    # -- the keeping thread

    def _keep(self) -> None:
        beat = self.schema.limits.deadline_ms / 1000 / _BEATS_PER_DEADLINE
        beat = min(max(beat, _SHORTEST_BEAT), _LONGEST_BEAT)
        while not self._ended.wait(beat):
            self._beat(beat)

    def _beat(self, beat: float) -> None:
        """EXTEND for what made progress; and batches that wait behind others must not pass their deadline.

        First those that run are asked to end early, between two items. Where one item takes too long for that, the
        waiting batch is handed back: a RESULT of no items, so that the sidecar sends it again.
        """
        now = time.monotonic()
        hand_back = []
        with self._lock:
            batches = list(self._in_flight.values())
            for batch in batches:
                if batch.hook is None and batch.waiting_since and (
                    now - batch.waiting_since > self.schema.limits.deadline_ms / 2000
                ):
                    batch.signal = VOID
                    hand_back.append(batch)
        for batch in hand_back:
            self.forget(batch)
        starved = any(batch.waiting_since and now - batch.waiting_since > beat for batch in batches)
        for batch in batches:
            if batch.trace:
                continue  # says EXTEND itself, before each item
            done = batch.done
            if done > batch.extended:
                try:
                    self.extend(batch, done)
                except (MillstreamError, BatchVoided):
                    continue  # finished meanwhile; or the connection ended, which the reader sees and says better
            if starved and not batch.waiting_since and batch.signal == RUN:
                batch.signal = GIVE_WAY


def _tell(channel: Channel, error: Exception) -> None:
    """ERROR to the sidecar, which keeps the first one and shows it."""
    code = error.code if isinstance(error, ProtocolError) else "WorkerFailed"
    try:
        channel.send([messages.ERROR, code, str(error)[:4096]])
    except (MillstreamError, ConnectionError):
        pass


def _refuse_error(frame: List[Any], at: int) -> None:
    """The optional error at the end of VALUES and ROWS."""
    error = frame[at] if len(frame) > at else None
    if error == "cancelled":
        raise BatchVoided
    if error is not None:
        raise MillstreamError(f"the sidecar could not read the state: {error}")
