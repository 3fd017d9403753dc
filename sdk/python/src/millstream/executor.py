"""Runs a session's batches: plain handlers in threads, async ones on an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Callable, Dict, List, Optional

from .async_run import AsyncRun
from .batch import Batch, run_plain
from .errors import BatchVoided
from .external import LOAD_JOB, STORE_JOB, run_job
from .hooks import run_hook, run_hook_async
from .session import Session

def run_batches(session: Session, threads: int, any_async: bool, concurrency: int) -> None:
    """Runs batches until the session ends. What handlers raise beyond Exception (SystemExit ...) comes out of here."""
    if any_async:
        asyncio.run(_AsyncExecutor(session, concurrency).run())
    elif threads == 1:
        _PlainExecutor(session).run()
    else:
        _run_in_threads(session, threads)


class _PlainExecutor:
    """One thread, one batch at a time. The next batch is already here, so the socket's round trip costs nothing; one that
    waits too long behind a slow batch is given its turn or handed back by the session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self) -> None:
        session = self._session
        queue = session.batches
        while True:
            batch = queue.get()
            if batch is None:
                queue.put(None)  # for the other threads of this session
                return
            try:
                if session.begin(batch):
                    if batch.hook is None:
                        run_plain(batch)
                    elif session.external is not None and batch.hook in (LOAD_JOB, STORE_JOB):
                        run_job(batch, session.external)
                    else:
                        run_hook(batch, session.hooks)
            except BatchVoided:
                session.forget(batch)


def _run_in_threads(session: Session, threads: int) -> None:
    raised: List[BaseException] = []

    def work() -> None:
        try:
            _PlainExecutor(session).run()
        except BaseException as error:
            raised.append(error)
            session.end()  # no GOODBYE: to the sidecar it is a crash, so that a record that does this is found

    workers = [threading.Thread(target=work, name=f"millstream-{n}", daemon=True) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        # In slices: a join without timeout would keep signal handlers from running.
        while worker.is_alive():
            worker.join(0.5)
    if raised:
        raise raised[0]


class _AsyncExecutor:
    """All batches of the session on one event loop, one coroutine each."""

    def __init__(self, session: Session, concurrency: int) -> None:
        self._session = session
        self._concurrency = concurrency
        self._running: Dict[int, "asyncio.Task[None]"] = {}

    async def run(self) -> None:
        loop = asyncio.get_running_loop()

        def cancel_soon(batch: Batch) -> None:
            _call(loop, self._cancel, batch)

        self._session.on_void = cancel_soon
        arrived = asyncio.Event()
        inbox: List[Optional[Batch]] = []
        pump = threading.Thread(target=self._pump, args=(loop, inbox, arrived), name="millstream-pump", daemon=True)
        pump.start()
        raised: List[BaseException] = []
        ended = False
        while not ended and not raised:
            await arrived.wait()
            arrived.clear()
            while inbox:
                batch = inbox.pop(0)
                if batch is None:
                    ended = True
                else:
                    self._start(batch, raised, arrived)
        if raised:
            self._session.end()  # no GOODBYE: to the sidecar it is a crash, so that a record that does this is found
        for task in list(self._running.values()):
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running.values()))
        if raised:
            raise raised[0]

    def _pump(
        self, loop: asyncio.AbstractEventLoop, inbox: List[Optional[Batch]], arrived: asyncio.Event
    ) -> None:
        """Carries batches from the reader's queue to the loop."""
        while True:
            batch = self._session.batches.get()
            inbox.append(batch)
            if not _call(loop, arrived.set) or batch is None:
                return

    def _start(self, batch: Batch, raised: List[BaseException], arrived: asyncio.Event) -> None:
        async def run() -> None:
            try:
                if self._session.begin(batch):
                    if batch.hook is None:
                        await AsyncRun(batch, self._concurrency).run()
                    else:
                        await run_hook_async(batch, self._session.hooks)
            except (BatchVoided, asyncio.CancelledError):
                self._session.forget(batch)
            except BaseException as error:
                raised.append(error)
                arrived.set()
            finally:
                self._running.pop(batch.seq, None)

        def ended(task: "asyncio.Task[None]") -> None:
            if task.cancelled():  # before its first step
                self._running.pop(batch.seq, None)
                self._session.forget(batch)

        task = self._running[batch.seq] = asyncio.get_running_loop().create_task(run())
        task.add_done_callback(ended)

    def _cancel(self, batch: Batch) -> None:
        task = self._running.get(batch.seq)
        if task is not None:
            task.cancel()


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> bool:
    try:
        loop.call_soon_threadsafe(function, *args)
        return True
    except RuntimeError:  # closed
        return False
