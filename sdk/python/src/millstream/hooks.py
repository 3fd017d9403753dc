"""Hooks on transactions: ``@app.begin``, ``@app.finalize``, ``@app.committed``.

The sidecar asks with BEGIN and FINALIZE, which run like a batch of no items, and tells with COMMITTED. What a program gathers
for a task over several records is in ``ctx.gathered``, which is emptied whenever the sidecar drops what it has of the task.
"""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Final, List, Optional

from .batch import VOID, Batch, undo
from .context import AsyncContext, BaseContext, Context
from .errors import BatchVoided
from .failures import failure_of

BEGIN_HOOK: Final = "begin"
FINALIZE_HOOK: Final = "finalize"
COMMITTED_HOOK: Final = "committed"


@dataclass
class Hooks:
    """The program's functions; None where it has none."""

    begin: Optional[Callable[..., Any]] = None
    finalize: Optional[Callable[..., Any]] = None
    committed: Optional[Callable[..., Any]] = None

    def capabilities(self) -> List[str]:
        return [name for name in (BEGIN_HOOK, FINALIZE_HOOK, COMMITTED_HOOK) if getattr(self, name) is not None]


class _NoRecord:
    """Stands in for the record in messages about what a hook does."""

    key = value = None

    def __init__(self, hook: str, task: int) -> None:
        self.input = f"({hook})"
        self.task = task
        self.offset = -1
        self._item = (0, 0, -1, int(time.time() * 1000))


class _OnItsOwn:
    """What an async context asks of its run: there is nothing else in this batch."""

    def touch_foreign(self, index: int) -> None:
        pass

    def reached(self, index: int) -> bool:
        return True

    async def barrier(self, index: int) -> None:
        pass


def _context(batch: Batch, is_async: bool) -> BaseContext:
    ctx: Any
    if is_async:
        ctx = AsyncContext(batch)
        ctx._run = _OnItsOwn()
    else:
        ctx = Context(batch)
    ctx.record = _NoRecord(batch.hook or "", batch.task)
    ctx._time = ctx.record._item[3]
    batch.logs.append(ctx._log)
    return ctx  # type: ignore[no-any-return]


def _finish(batch: Batch, ctx: BaseContext, error: Optional[Exception]) -> None:
    if error is None and ctx._staged > batch.result_budget:
        error = batch.too_large(ctx._staged)
    if error is not None:
        undo(ctx._log)
        ctx._outputs.clear()
        ctx._timers.clear()
        batch.error = error
    elif batch.hook == FINALIZE_HOOK:
        batch.link.gathered(batch.task).clear()
    if batch.signal == VOID:
        raise BatchVoided
    batch.send_result(0, None if error is None else failure_of(error), ctx._outputs, list(ctx._timers))


def run_hook(batch: Batch, hooks: Hooks) -> None:
    """Runs a plain hook and sends its RESULT. Raises BatchVoided when it no longer counts."""
    function = getattr(hooks, batch.hook or "")
    ctx = _context(batch, is_async=False)
    error = None
    try:
        function(ctx)
    except Exception as raised:
        error = raised
    _finish(batch, ctx, error)


async def run_hook_async(batch: Batch, hooks: Hooks) -> None:
    """As run_hook, on the event loop; the hook may be plain or async."""
    function = getattr(hooks, batch.hook or "")
    is_async = inspect.iscoroutinefunction(function)
    ctx = _context(batch, is_async)
    error = None
    try:
        if is_async:
            await function(ctx)
        else:
            function(ctx)
    except Exception as raised:
        error = raised
    _finish(batch, ctx, error)


class Gathered:
    """What programs gather, by task."""

    def __init__(self) -> None:
        self._by_task: Dict[int, Dict[Any, Any]] = {}

    def of(self, task: int) -> Dict[Any, Any]:
        return self._by_task.setdefault(task, {})

    def drop(self, task: int) -> None:
        """A handler that still runs keeps the old one; nothing of it counts."""
        self._by_task.pop(task, None)
