"""State in a database of the program's own: ``app.external_store(SqlStore(connect))``, in handlers ``ctx.sql``.

::

    import psycopg
    from millstream.external import SqlStore

    app = millstream.App()
    app.external_store(SqlStore(lambda: psycopg.connect("dbname=ledger")))

    @app.on("payments")
    def pay(ctx, record):
        ctx.sql.execute("UPDATE accounts SET balance = balance + %s WHERE id = %s", (record.value["amount"], record.key))
        ctx.emit("balances", key=record.key, value={"changed": record.value["amount"]})

What handlers do with ``ctx.sql`` becomes visible when the sidecar closes its transaction: then it is committed together with a
checkpoint (one row per task, in a table of this module's) that says how far the input is handled and what was emitted. A
handler that fails takes its own statements back, those of the records before it stay. Do not commit or roll back yourself.

Any DB-API 2 module will do that has savepoints and ``INSERT ... ON CONFLICT``; tried are psycopg 3 (PostgreSQL) and sqlite3
(for the test kit: it lets only one task write at a time).
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Final, Optional, Tuple

from . import messages
from .errors import BatchVoided, ConfigError
from .failures import failure_of

if TYPE_CHECKING:
    from .batch import Batch

log = logging.getLogger("millstream")

LOAD_JOB: Final = "load"
STORE_JOB: Final = "store"
# The failure class that says: it was the database, not the record.
STORE_CLASS: Final = "Store"

_SAVEPOINT: Final = "millstream_item"
_PARAMETERS: Final = {"qmark": "?", "format": "%s", "pyformat": "%s"}
_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


class TaskTransaction:
    """The database's side of one task: a connection, and what of the transaction it holds. One thread at a time uses it."""

    def __init__(self, connection: Any, begin: Optional[str]) -> None:
        self.connection = connection
        self._begin = begin
        self._cursor: Any = None  # of the item at hand, behind its savepoint

    @property
    def cursor(self) -> Any:
        """A cursor for the item at hand. The first use in an item sets a savepoint to come back to."""
        if self._cursor is None:
            cursor = self.connection.cursor()
            if self._begin is not None and not self.connection.in_transaction:
                cursor.execute(self._begin)
            cursor.execute(f"SAVEPOINT {_SAVEPOINT}")
            self._cursor = cursor
        return self._cursor

    def end_item(self) -> None:
        """The item is done: its statements stay. Raises what the database does."""
        if self._cursor is not None:
            self._cursor.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")
            self._forget_cursor()

    def undo_item(self) -> bool:
        """Takes the item's statements back. False: the connection does not work any more, and the transaction with it."""
        if self._cursor is None:
            return not self._lost()
        try:
            cursor = self.connection.cursor()
            cursor.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
            cursor.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")
            cursor.close()
            self._forget_cursor()
        except Exception:
            return False
        return True

    def _lost(self) -> bool:
        """Asked when a handler failed before it had a savepoint: perhaps that was why."""
        if getattr(self.connection, "closed", False):
            return True
        try:
            cursor = self.connection.cursor()
            cursor.execute("SELECT 1")
            cursor.fetchone()
            cursor.close()
        except Exception:
            return True
        return False

    def _forget_cursor(self) -> None:
        cursor, self._cursor = self._cursor, None
        try:
            cursor.close()
        except Exception:  # the handler may have closed it, or left rows unread
            pass

    def close(self) -> None:
        """What is not committed is void. Never raises."""
        try:
            self.connection.close()
        except Exception as error:
            log.debug("closing a connection to the database: %s", error)


class SqlStore:
    """A database for the state of a processor with ``externalStore: {}``. Thread-safe; give it to one App.

    :param connect: makes a new DB-API connection that is not in autocommit mode. Called once per task whenever one comes to this
        worker: connections are not shared between tasks. A connect timeout of some seconds is a good idea.
    :param table: where the checkpoints are kept, one row per processor and task; made if it is not there. Whoever restores a
        backup restores it together with the data.
    """

    def __init__(self, connect: Callable[[], Any], *, table: str = "millstream_checkpoints") -> None:
        if not callable(connect):
            raise TypeError(f"SqlStore takes a function that makes a connection, not {connect!r}")
        if not _TABLE.fullmatch(table):
            raise ConfigError(f"SqlStore(table={table!r}): a name of letters, digits and _, perhaps behind that of a schema")
        self._connect = connect
        self._table = table
        self._lock = threading.Lock()  # guards _tasks
        self._tasks: Dict[int, TaskTransaction] = {}
        self._keep_open = False  # the test kit's: the connection may be the whole database

    # -- what a session does; each raises what the database raises

    def load(self, processor: str, task: int) -> Tuple[int, Optional[bytes]]:
        """Takes the task over: a new connection, the fence raised. Gives the fence and the checkpoint, None if there is none."""
        self.drop(task)
        connection = self._connect()
        transaction = TaskTransaction(connection, "BEGIN IMMEDIATE" if _driver_of(connection) == "sqlite3" else None)
        try:
            if getattr(connection, "autocommit", False) is True:
                raise ConfigError("SqlStore: the connection is in autocommit mode, and a transaction has to hold many statements")
            self._make_table(connection)
            mark = _parameter_of(connection)
            cursor = connection.cursor()
            # Waits for a commit of the old owner that is under way, and decides: what it has not committed yet it never will.
            cursor.execute(
                f"INSERT INTO {self._table} (processor, task, fence, checkpoint) VALUES ({mark}, {mark}, 1, NULL) "
                f"ON CONFLICT (processor, task) DO UPDATE SET fence = {self._table.split('.')[-1]}.fence + 1",
                (processor, task),
            )
            cursor.execute(f"SELECT fence, checkpoint FROM {self._table} WHERE processor = {mark} AND task = {mark}", (processor, task))
            fence, checkpoint = cursor.fetchone()
            cursor.close()
            connection.commit()
        except BaseException:
            if not self._keep_open:
                transaction.close()
            raise
        with self._lock:
            self._tasks[task] = transaction
        return int(fence), None if checkpoint is None else bytes(checkpoint)

    def store(self, processor: str, task: int, fence: int, checkpoint: bytes) -> bool:
        """Commits what the task's handlers did, with the checkpoint. False: another owner has raised the fence, nothing was
        committed."""
        transaction = self.transaction(task)
        if transaction is None:
            raise ConfigError(f"STORE of task {task}, which has no connection")  # LOAD comes first
        connection = transaction.connection
        mark = _parameter_of(connection)
        cursor = connection.cursor()
        cursor.execute(
            f"UPDATE {self._table} SET checkpoint = {mark} WHERE processor = {mark} AND task = {mark} AND fence = {mark}",
            (checkpoint, processor, task, fence),
        )
        stored = bool(cursor.rowcount == 1)
        cursor.close()
        if stored:
            connection.commit()
        else:
            connection.rollback()
        return stored

    def transaction(self, task: int) -> Optional[TaskTransaction]:
        """None before LOAD."""
        with self._lock:
            return self._tasks.get(task)

    def drop(self, task: int, only: Optional[TaskTransaction] = None) -> None:
        """The task leaves, or its transaction is void: rolls back. A handler that still runs gets an error; it does not count.
        `only`: if it is still this one."""
        with self._lock:
            transaction = self._tasks.get(task)
            if transaction is None or (only is not None and transaction is not only):
                return
            del self._tasks[task]
        if self._keep_open:
            transaction.connection.rollback()
        else:
            transaction.close()

    def drop_all(self) -> None:
        with self._lock:
            tasks = list(self._tasks)
        for task in tasks:
            self.drop(task)

    def _make_table(self, connection: Any) -> None:
        try:
            self._look_at_table(connection)
            return
        except Exception:
            connection.rollback()
        try:
            cursor = connection.cursor()
            # BYTEA is PostgreSQL's word; SQLite takes any.
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} (processor TEXT NOT NULL, task INTEGER NOT NULL, "
                "fence BIGINT NOT NULL, checkpoint BYTEA, PRIMARY KEY (processor, task))"
            )
            cursor.close()
            connection.commit()
        except Exception:  # several tasks make it at once: one of them succeeds
            connection.rollback()
            self._look_at_table(connection)

    def _look_at_table(self, connection: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(f"SELECT fence, checkpoint FROM {self._table} WHERE 1 = 0")
        cursor.fetchall()
        cursor.close()
        connection.rollback()


def run_job(batch: "Batch", store: SqlStore) -> None:
    """Answers LOAD or STORE. Raises BatchVoided when it no longer counts."""
    processor = batch.schema.processor
    try:
        if batch.hook == LOAD_JOB:
            fence, checkpoint = store.load(processor, batch.task)
            answer = [messages.CHECKPOINT, batch.seq, fence, checkpoint]
        else:
            assert batch.job is not None
            answer = [messages.STORED, batch.seq, store.store(processor, batch.task, *batch.job)]
    except Exception as error:
        batch.error = error
        store.drop(batch.task)
        answer = messages.result_frame(batch.seq, 0, failure_of(error), {}, [])
    loaded = store.transaction(batch.task) if batch.hook == LOAD_JOB else None
    try:
        batch.link.result(batch, answer)
    except BatchVoided:
        if loaded is not None:  # CLOSE came before there was anything to close
            store.drop(batch.task, only=loaded)
        raise


def store_failure(error: Exception) -> Dict[str, Any]:
    """Of a batch whose transaction went with the connection: no record is to blame."""
    return {**failure_of(error), "class": STORE_CLASS, "retriable": True}


def _driver_of(connection: Any) -> str:
    """The name of the DB-API module that the connection, or its base, belongs to."""
    for kind in type(connection).__mro__:
        name = kind.__module__.split(".")[0]
        if getattr(sys.modules.get(name), "paramstyle", None) is not None:
            return name
    raise ConfigError(
        f"SqlStore: {type(connection).__module__}.{type(connection).__name__} is no connection of a DB-API module: there is no "
        "paramstyle beside it"
    )


def _parameter_of(connection: Any) -> str:
    """How the connection's module marks a parameter."""
    driver = _driver_of(connection)
    style = sys.modules[driver].paramstyle
    if style not in _PARAMETERS:
        raise ConfigError(f"SqlStore: {driver} has the paramstyle {style}; supported are {', '.join(_PARAMETERS)}")
    return _PARAMETERS[style]


__all__ = ["SqlStore"]
