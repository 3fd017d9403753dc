"""The program's side: handlers per input, codecs, and run()."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import socket
import sys
from typing import Any, Callable, Final, Optional, TypeVar

from . import channel, processes
from .codecs import JSON, STR, CodecLike, resolve
from .errors import ConfigError, MillstreamError
from .external import SqlStore
from .hooks import Hooks
from .schema import Declarations, DueHandler, Handler, PortCodecs, check_program, listed
from .worker import STOP_VARIABLE, Worker, managed

F = TypeVar("F", bound=Callable[..., Any])

_MAX_PROCESSES: Final = 256
_MAX_PARALLEL: Final = 256
# Async batches at once on one event loop, if the program does not say.
_ASYNC_PARALLEL: Final = 8


class App:
    """A stream processor's program: handlers for the inputs of its manifest.

    ::

        app = millstream.App()

        @app.on("orders")
        def total(ctx, record):
            spent = ctx.state("totals").get(default=0) + record.value["amount"]
            ctx.state("totals").set(spent)
            ctx.emit("customer-totals", key=record.key, value={"spent": spent})

        app.run()

    `key` and `value` are the codecs wherever none is given; see :mod:`millstream.codecs`. By default keys are ``STR``
    (any bytes survive a round trip exactly) and values ``JSON``.
    """

    def __init__(self, *, key: CodecLike = STR, value: CodecLike = JSON) -> None:
        self._declared = Declarations(resolve(key), resolve(value))

    def on(
        self, input: str, *, key: Optional[CodecLike] = None, value: Optional[CodecLike] = None
    ) -> Callable[[F], F]:
        """Makes a function ``(ctx, record)``, plain or async, the handler of an input. One handler per input.

        All records of one key of an input reach it in order. It may be called more than once for a record (after a crash
        or a failure elsewhere in its batch); what it writes and emits counts exactly once. A plain handler works with
        :class:`millstream.Context`, an async one with :class:`millstream.AsyncContext`.
        """

        if callable(input):
            raise TypeError('@app.on needs the name of an input: @app.on("orders")')
        codecs = self._codecs(key, value)

        def register(function: F) -> F:
            if not callable(function):
                raise TypeError(f'@app.on("{input}") decorates a function, not {function!r}')
            if input in self._declared.handlers:
                other = getattr(self._declared.handlers[input].function, "__name__", "another function")
                raise ConfigError(f"input {input!r} already has a handler: {other}")
            self._declared.handlers[input] = Handler(input, function, _is_async(function), codecs.key, codecs.value)
            return function

        return register

    def begin(self, function: F) -> F:
        """Makes a function ``(ctx)``, plain or async, run when a transaction begins for a task. See finalize()."""
        return self._hook("begin", function)

    def finalize(self, function: F) -> F:
        """Makes a function ``(ctx)``, plain or async, run before a transaction is closed: what it writes and emits joins it.

        ::

            @app.on("clicks")
            def count(ctx, record):
                ctx.gathered[record.key] = ctx.gathered.get(record.key, 0) + 1

            @app.finalize
            def flush(ctx):
                for key, clicks in ctx.gathered.items():
                    ctx.emit("clicks-per-transaction", key=key, value=clicks)

        Gather last in a handler, so that a record that fails gathers nothing. Transactions hold whole batches then, and are
        not closed while one is out: it costs latency. If the hook raises, the transaction is aborted and tried again.
        """
        return self._hook("finalize", function)

    def committed(self, function: F) -> F:
        """Makes a function ``(task)`` run after a transaction with effects of this task is committed. It runs at most once
        per transaction, and not at all if the sidecar ends in between: for side effects that may be left out."""
        return self._hook("committed", function)

    def _hook(self, name: str, function: F) -> F:
        if not callable(function):
            raise TypeError(f"@app.{name} decorates a function, not {function!r}")
        if self._declared.hooks is None:
            self._declared.hooks = Hooks()
        if getattr(self._declared.hooks, name) is not None:
            raise ConfigError(f"there is a function for {name} already")
        setattr(self._declared.hooks, name, function)
        return function

    def on_timer(self, name: str, *, key: Optional[CodecLike] = None) -> Callable[[F], F]:
        """Makes a function ``(ctx, timer)``, plain or async, the handler of timers of that name (``ctx.timers.set``)."""
        return self._on_due("on_timer", self._declared.timers, name, key)

    def on_close(self, store: str) -> Callable[[F], F]:
        """Makes a function ``(ctx, window)``, plain or async, the handler of closing windows or sessions of a store
        (``emit: Final``).

        It is called once per window, in committed effect, when event time has passed its end and grace; for a session its end,
        gap and grace.
        """
        return self._on_due("on_close", self._declared.closings, store, None)

    def on_visit(self, name: str) -> Callable[[F], F]:
        """Makes a function ``(ctx, row)``, plain or async, the handler of the rows of a visit (``ctx.visits.start``).

        It is called for every row of the visit's store in this task, in the order of the key bytes, once in committed
        effect; ``row.value`` is the row as it is then. Records are handled in between.
        """
        return self._on_due("on_visit", self._declared.visits, name, None)

    def on_visit_end(self, name: str) -> Callable[[F], F]:
        """Makes a function ``(ctx, end)``, plain or async, called when a visit has come to the end of the task's rows."""
        return self._on_due("on_visit_end", self._declared.visit_ends, name, None)

    def _on_due(self, what: str, handlers: "dict[str, DueHandler]", name: str, key: Optional[CodecLike]) -> Callable[[F], F]:
        if callable(name):
            raise TypeError(f'@app.{what} needs a name: @app.{what}("...")')
        codecs = self._codecs(key, None)

        def register(function: F) -> F:
            if not callable(function):
                raise TypeError(f'@app.{what}("{name}") decorates a function, not {function!r}')
            if name in handlers:
                raise ConfigError(f"@app.{what}({name!r}) is there twice")
            handlers[name] = DueHandler(function, _is_async(function), codecs.key)
            return function

        return register

    def store(
        self, name: str, *, key: Optional[CodecLike] = None, value: Optional[CodecLike] = None,
        merge: Optional[Callable[[Any, Any], Any]] = None,
    ) -> None:
        """Declares the codecs of a store. Stores with the default codecs need no declaration.

        `merge` makes one value of two when a record connects sessions and its handler does not write one itself.
        """
        codecs = self._codecs(key, value)
        self._declared.stores[name] = PortCodecs(codecs.key, codecs.value, merge)

    def join(self, name: str, *, key: Optional[CodecLike] = None, value: Optional[CodecLike] = None) -> None:
        """Declares the codecs of a join: those its topic is written with. The defaults need no declaration."""
        self._declared.joins[name] = self._codecs(key, value)

    def lookup(self, name: str, *, key: Optional[CodecLike] = None, value: Optional[CodecLike] = None) -> None:
        """Declares the codecs of a lookup: those its topic is written with. The defaults need no declaration."""
        self._declared.lookups[name] = self._codecs(key, value)

    def output(self, name: str, *, key: Optional[CodecLike] = None, value: Optional[CodecLike] = None) -> None:
        """Declares the codecs of an output. Outputs with the default codecs need no declaration."""
        self._declared.outputs[name] = self._codecs(key, value)

    def external_store(self, store: SqlStore) -> None:
        """Keeps the state in a database of the program's, for a processor with ``externalStore: {}``: handlers have ``ctx.sql``.
        See :mod:`millstream.external`. Plain handlers only."""
        if not isinstance(store, SqlStore):
            raise TypeError(f"app.external_store takes a millstream.external.SqlStore, not {store!r}")
        if self._declared.external is not None:
            raise ConfigError("there is an external store already")
        self._declared.external = store

    @property
    def inputs(self) -> "list[str]":
        """The names of the inputs that have handlers."""
        return list(self._declared.handlers)

    def run(
        self, *, processes: int = 1, parallel: Optional[int] = None, concurrency: int = 64,
        socket_path: Optional[str] = None, reconnect_timeout: float = 300.0, stop_timeout: Optional[float] = None,
    ) -> None:
        """Serves the sidecar until it says goodbye or the process is told to stop; then returns.

        Started by ``millstream run`` or in a pod it waits for the sidecar; started alone it ends with a hint. Errors are
        printed and end the program: exit code 2 where program and manifest do not fit, else 1.

        :param processes: worker processes; the sidecar spreads tasks over them. The way to use several cores.
        :param parallel: tasks that one process works on at the same time. For plain handlers each takes a thread (the
            program must be thread-safe then; default 1); async handlers share one event loop (default 8).
        :param concurrency: records of one batch whose async handlers run at the same time, at most.
        :param socket_path: default ``$MILLSTREAM_SOCKET``, else ``/run/millstream/worker.sock``.
        :param reconnect_timeout: seconds to try again after the sidecar went away.
        :param stop_timeout: seconds to go on serving after SIGTERM until the sidecar's GOODBYE; default
            ``$MILLSTREAM_STOP_TIMEOUT``, else 30.
        """
        caller = sys._getframe(1)
        if caller.f_code.co_name == "<module>" and caller.f_globals.get("__name__") != "__main__":
            raise ConfigError(
                f"app.run() was reached by importing {caller.f_globals.get('__name__')}; write "
                'if __name__ == "__main__": above it, so that tests and other modules can import the program'
            )
        _log_to_stderr()
        try:
            self._check_run(processes, parallel, concurrency)
            self._run(processes, parallel, concurrency, socket_path, reconnect_timeout, stop_timeout)
        except MillstreamError as error:
            print(f"millstream: {error}", file=sys.stderr, flush=True)
            sys.exit(2 if isinstance(error, ConfigError) else 1)
        except ConnectionError as error:
            print(f"millstream: {error}", file=sys.stderr, flush=True)
            sys.exit(1)

    def _check_run(self, count: int, parallel: Optional[int], concurrency: int) -> None:
        if not self._declared.handlers:
            raise ConfigError('the program has no handler; write @app.on("input-name") above a function')
        check_program(self._declared)
        for what, number, most in (
            ("processes", count, _MAX_PROCESSES), ("parallel", parallel or 1, _MAX_PARALLEL),
            ("concurrency", concurrency, 100_000),
        ):
            if not 1 <= number <= most:
                raise ConfigError(f"app.run({what}={number}): it must be from 1 to {most}")

    def _run(
        self, count: int, parallel: Optional[int], concurrency: int, path: Optional[str], reconnect: float,
        stop: Optional[float],
    ) -> None:
        stop_seconds = stop if stop is not None else float(os.environ.get(STOP_VARIABLE) or 30)
        any_async = self._declared.any_async
        socket_explicit = path is not None or managed()

        def work(number: int) -> None:
            Worker(
                self._declared,
                path=path or channel.socket_path(),
                name=f"{socket.gethostname()}/{os.getpid()}" + (f"/{number}" if count > 1 else ""),
                threads=parallel or (_ASYNC_PARALLEL if any_async else 1),
                # Plain handlers: one batch more than threads, so that none waits for the socket's round trip.
                ahead=0 if any_async else 1,
                concurrency=concurrency,
                start_seconds=60.0 if socket_explicit else 0.0,
                lost_seconds=reconnect,
                stop_seconds=stop_seconds,
            ).run()

        if count == 1:
            work(0)
        else:
            processes.supervise(count, work, stop_seconds)

    def _codecs(self, key: Optional[CodecLike], value: Optional[CodecLike]) -> PortCodecs:
        defaults = self._declared.defaults
        return PortCodecs(
            defaults.key if key is None else resolve(key), defaults.value if value is None else resolve(value)
        )

    def __repr__(self) -> str:
        return f"App(inputs: {listed(self.inputs)})"


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def _log_to_stderr() -> None:
    """Unless the program set up logging itself."""
    log = logging.getLogger("millstream")
    if not log.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("millstream: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
