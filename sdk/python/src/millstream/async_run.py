"""Runs a batch whose handlers are async: items of different keys at the same time, with the outcome of one after the other.

- Items of one key run in their order; items without key are free of each other.
- An item that touches another key than its own is a barrier: it goes on when all earlier items are done, and later ones
  that had begun or ended are cancelled, undone, and run again after it. From then on its handler runs alone in this batch.
- A plain handler in between runs alone as well: all earlier items done, no later one started.
- The first failing item in the batch's order decides: later ones are undone, earlier ones end first.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from typing import Any, Callable, Deque, Dict, Final, List, Optional, Set

from .batch import VOID, Batch, undo
from .context import AsyncContext, BaseContext, Context
from .errors import BatchVoided
from .failures import failure_of
from .messages import ITEM_RECORD, ITEM_TIMER, ITEM_VISIT
from .record import Record

# A coroutine that ignores its cancellation for longer is left behind; nothing it does counts.
_CLEAN_UP_SECONDS: Final = 1.0

_PENDING: Final = 0
_RUNNING: Final = 1
_DONE: Final = 2


class _Dead(List[Any]):
    """Takes the place of the log and outputs of a call that no longer counts."""

    def append(self, entry: Any) -> None:
        raise BatchVoided


class AsyncRun:
    """One batch on the event loop. Use once: ``await AsyncRun(batch, concurrency).run()``."""

    def __init__(self, batch: Batch, concurrency: int) -> None:
        self._batch = batch
        self._ports = batch.schema.ports
        self._limit = 1 if batch.trace else concurrency
        self._count = len(batch.items)
        self._state = [_PENDING] * self._count
        self._contexts: List[Optional[BaseContext]] = [None] * self._count
        self._calls: Dict[int, "asyncio.Task[None]"] = {}  # running items
        self._cancelled: Set["asyncio.Task[None]"] = set()  # calls that no longer count but have not ended
        self._first = 0  # all items before it are done
        self._fence = 0  # the first item not done whose handler runs alone; none after it starts
        self._alone: Set[Callable[..., Any]] = {port.function for port in self._ports if not port.is_async}
        self._barriers: Set[int] = set()
        self._ready: List[int] = []  # heap of pending items whose key is free
        self._behind: Dict[int, Deque[int]] = {}  # key index -> pending items after the one that runs or is ready
        self._failed = self._count  # the first failed item
        self._error: Optional[Exception] = None
        self._fatal: Optional[BaseException] = None
        self._changed = asyncio.Event()
        self._waiters: List["asyncio.Future[None]"] = []
        batch.logs = [[] for _ in range(self._count)]
        batch.timer_logs = [[] for _ in range(self._count)]

    async def run(self) -> None:
        """Sends the RESULT; raises BatchVoided if the batch no longer counts, or what a handler raises beyond Exception."""
        self._requeue()
        try:
            while self._first < self._failed:
                self._start_ready()
                await self._changed.wait()
                self._changed.clear()
                if self._batch.signal == VOID:
                    raise BatchVoided
                if self._fatal is not None:
                    raise self._fatal
        finally:
            await self._cancel_calls()
        self._send()

    async def _cancel_calls(self) -> None:
        """The program's coroutines get a moment to clean up before the sidecar hears that the batch is over."""
        calls = list(self._calls.values())
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls, timeout=_CLEAN_UP_SECONDS)

    # -- called by contexts

    def touch_foreign(self, index: int) -> None:
        """Item `index` uses another key than its own: what comes after it begins anew when it is done."""
        if index in self._barriers:
            return
        self._barriers.add(index)
        self._alone.add(self._ports[self._batch.items[index][1]].function)
        self._fence = self._first
        self._void_after(index)
        self._requeue()

    def reached(self, index: int) -> bool:
        """Whether all items before `index` are done."""
        return self._first >= index

    async def barrier(self, index: int) -> None:
        """Returns when all items before `index` are done."""
        while self._first < index:
            waiter: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    # -- starting

    def _start_ready(self) -> None:
        while self._ready and len(self._calls) < self._limit:
            index = self._ready[0]
            self._advance_fence()
            if index >= self._failed or index > self._fence or (index == self._fence and self._first < index):
                return
            heapq.heappop(self._ready)
            self._start(index)

    def _start(self, index: int) -> None:
        batch = self._batch
        item = batch.items[index]
        port = self._ports[item[1]]
        ctx: BaseContext
        if port.is_async:
            ctx = AsyncContext(batch)
            ctx._run = self
        else:
            ctx = Context(batch)
        key_index = item[4]
        ctx._index = index
        ctx._key_index = key_index
        ctx._key = None if key_index is None else batch.keys[key_index]
        ctx._log = batch.logs[index]
        ctx._timers = batch.timer_logs[index] = []
        ctx._time = item[3]
        if item[0] == ITEM_RECORD:
            ctx.record = Record(item, ctx._key, batch.task, port)
        else:
            ctx.record = batch.due(ctx, item, ctx._key)
        self._contexts[index] = ctx
        self._state[index] = _RUNNING
        if batch.trace:
            batch.link.extend(batch, index)
        self._calls[index] = asyncio.get_running_loop().create_task(self._call(index, port, ctx))

    async def _call(self, index: int, port: Any, ctx: Any) -> None:
        error: Optional[BaseException] = None
        try:
            item = self._batch.items[index]
            if item[0] == ITEM_TIMER and self._batch.passed_over(item, ctx._key):
                pass
            elif item[0] == ITEM_VISIT and item[4] is not None and not await self._there(port, ctx.record):
                pass
            elif port.is_async:
                await port.function(ctx, ctx.record)
                if ctx._deferred:
                    await ctx._barrier()
                if self._batch.schema.has_sessions:
                    await ctx._finish()
            else:
                port.function(ctx, ctx.record)
                if self._batch.schema.has_sessions:
                    ctx._finish()
        except BaseException as raised:
            error = raised
        still_counts = self._contexts[index] is ctx
        if not still_counts:
            self._cancelled.discard(asyncio.current_task())
            return
        del self._calls[index]
        if error is None and ctx._staged > self._batch.result_budget:
            error = self._batch.too_large(ctx._staged)
        if error is None:
            self._finished(index)
        elif isinstance(error, Exception):
            self._fail(index, error)
        elif isinstance(error, asyncio.CancelledError) and not self._voided():
            # Not ours: something the handler awaited was cancelled.
            self._fail(index, RuntimeError("the handler was cancelled by something it awaited"))
        else:
            self._fatal = error
        self._changed.set()

    @staticmethod
    async def _there(port: Any, row: Any) -> bool:
        """Whether a row that is visited still exists."""
        there: bool = await row._there() if port.is_async else row._there()
        return there

    def _voided(self) -> bool:
        current = asyncio.current_task()
        cancelling = getattr(current, "cancelling", None)  # from Python 3.11
        return self._batch.signal == VOID or bool(cancelling and cancelling())

    # -- ending

    def _finished(self, index: int) -> None:
        self._state[index] = _DONE
        self._barriers.discard(index)
        key_index = self._batch.items[index][4]
        behind = self._behind.get(key_index) if key_index is not None else None
        if behind:
            heapq.heappush(self._ready, behind.popleft())
        if index == self._first:
            state = self._state
            first = self._first
            while first < self._count and state[first] == _DONE:
                first += 1
            self._first = self._batch.done = first
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _fail(self, index: int, error: Exception) -> None:
        self._barriers.discard(index)
        self._failed, self._error = index, error
        self._void_after(index - 1)
        self._requeue()

    def _void_after(self, index: int) -> None:
        """Undoes all items after `index`, the last first: they are pending again."""
        for later in range(self._count - 1, index, -1):
            ctx = self._contexts[later]
            if ctx is None:
                continue
            undo(self._batch.logs[later])
            ctx._log = _Dead()
            ctx._outputs = _Dead()
            ctx._timers = _Dead()
            ctx._visits = _Dead()
            self._batch.timer_logs[later] = []
            self._contexts[later] = None
            self._state[later] = _PENDING
            self._barriers.discard(later)
            call = self._calls.pop(later, None)
            if call is not None:
                self._cancelled.add(call)
                call.cancel()

    def _requeue(self) -> None:
        """Sorts the pending items anew into ready ones and those behind another of their key."""
        ready: List[int] = []
        behind: Dict[int, Deque[int]] = {}
        for index in range(self._first, self._count):
            if self._state[index] == _DONE:
                continue
            key_index = self._batch.items[index][4]
            if key_index is None:
                if self._state[index] == _PENDING:
                    ready.append(index)
            elif key_index in behind:
                behind[key_index].append(index)  # in order, so a running item of the key comes before
            else:
                behind[key_index] = deque()
                if self._state[index] == _PENDING:
                    ready.append(index)
        self._ready, self._behind = ready, behind  # ascending, so it is a heap

    def _advance_fence(self) -> None:
        if not self._alone:
            self._fence = self._count
            return
        items, ports, alone = self._batch.items, self._ports, self._alone
        fence = max(self._fence, self._first)
        while fence < self._count and (self._state[fence] == _DONE or ports[items[fence][1]].function not in alone):
            fence += 1
        self._fence = fence

    def _send(self) -> None:
        """All items before `_failed` are done and none after it counts; cut where the RESULT would not fit, and behind an item
        that started or stopped a visit: it counts from there on."""
        done, staged = 0, 0
        outputs: List[Any] = []
        timers: List[Any] = []
        visits: List[Any] = []
        for counted in self._contexts[: self._failed]:
            assert counted is not None
            staged += counted._staged
            if staged > self._batch.result_budget:
                break
            outputs.extend(counted._outputs)
            timers.extend(counted._timers)
            visits.extend(counted._visits)
            done += 1
            if visits:
                break
        for index in range(self._failed - 1, done - 1, -1):
            undo(self._batch.logs[index])
        failure = None
        if self._error is not None and done == self._failed:
            failure = failure_of(self._error)
            self._batch.error = self._error
        self._batch.send_result(done, failure, outputs, timers, visits)
