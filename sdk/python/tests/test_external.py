"""An external store: LOAD and STORE on the wire, savepoints, fences, and the test kit. The database is SQLite in a file."""

import sqlite3

import pytest

import millstream
from fake_sidecar import CANCEL, CLOSE, HELLO, OPEN, RESULT, WELCOME, records, welcome
from millstream.external import SqlStore
from millstream.testing import RecordFailed, TestKit

LOAD, CHECKPOINT, STORE, STORED = 16, 17, 18, 19
EXTERNAL = {"stores": (), "capabilities": ["externalStore"]}


@pytest.fixture
def database(tmp_path):
    """connect() to a file with an empty table `accounts`; threads of the worker use its connections."""
    path = tmp_path / "state.db"

    def connect():
        return sqlite3.connect(path, timeout=10.0, check_same_thread=False)

    with connect() as made:
        made.execute("CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
    return connect


def program(connect):
    app = millstream.App()
    app.external_store(SqlStore(connect))

    @app.on("in")
    def pay(ctx, record):
        ctx.sql.execute(
            "INSERT INTO accounts VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET balance = balance + excluded.balance",
            (record.key, record.value),
        )
        if record.value < 0:
            raise ValueError("only payments")
        ctx.sql.execute("SELECT balance FROM accounts WHERE id = ?", (record.key,))
        ctx.emit("out", key=record.key, value=ctx.sql.fetchone()[0])

    return app


def balances(connect):
    connection = connect()
    try:
        return dict(connection.execute("SELECT id, balance FROM accounts"))
    finally:
        connection.close()


def load(sidecar, seq, task=0):
    sidecar.send(LOAD, seq, task)
    return sidecar.receive()


def test_hello_names_the_capability(serve, database):
    sidecar = serve(program(database), **EXTERNAL)
    assert sidecar.hello["capabilities"] == ["externalStore"]


def test_state_becomes_visible_with_its_checkpoint(serve, database):
    sidecar = serve(program(database), **EXTERNAL)
    assert load(sidecar, 1) == [CHECKPOINT, 1, 1, None]
    result = sidecar.run(2, (b"anna", b"3"), (b"anna", b"4"), state={})
    assert result == [RESULT, 2, 2, None, {}, [[0, b"anna", b"3", 1000], [0, b"anna", b"7", 1001]]]
    assert balances(database) == {}
    sidecar.send(STORE, 3, 0, 1, b"first")
    assert sidecar.receive() == [STORED, 3, True]
    assert balances(database) == {"anna": 7}
    assert load(sidecar, 4) == [CHECKPOINT, 4, 2, b"first"]


def test_a_failed_item_takes_its_own_statements_back(serve, database):
    sidecar = serve(program(database), **EXTERNAL)
    load(sidecar, 1)
    result = sidecar.run(2, (b"anna", b"3"), (b"bob", b"-1"), (b"carl", b"1"), state={})
    assert result[2] == 1 and result[3]["class"] == "Handler"
    sidecar.send(STORE, 3, 0, 1, b"c")
    assert sidecar.receive() == [STORED, 3, True]
    assert balances(database) == {"anna": 3}


def test_an_older_owner_commits_nothing(serve, database):
    sidecar = serve(program(database), **EXTERNAL)
    load(sidecar, 1)
    other = SqlStore(database)
    assert other.load("test", 0) == (2, None)
    sidecar.run(2, (b"anna", b"3"), state={})
    sidecar.send(STORE, 3, 0, 1, b"old")
    assert sidecar.receive() == [STORED, 3, False]
    assert balances(database) == {}
    assert other.store("test", 0, 2, b"new")
    other.drop_all()


def test_close_rolls_back_and_load_begins_anew(serve, database):
    sidecar = serve(program(database), **EXTERNAL)
    load(sidecar, 1)
    sidecar.run(2, (b"anna", b"3"), state={})
    sidecar.send(CLOSE, 0)
    sidecar.send(OPEN, 0)
    assert load(sidecar, 3) == [CHECKPOINT, 3, 2, None]
    sidecar.run(4, (b"bob", b"1"), state={})
    sidecar.send(STORE, 5, 0, 2, b"c")
    assert sidecar.receive() == [STORED, 5, True]
    assert balances(database) == {"bob": 1}


def test_a_cancelled_load_is_answered_by_an_empty_result(serve, database):
    """Held back by a handler that blocks the only thread."""
    import threading

    go = threading.Event()
    app = millstream.App()
    app.external_store(SqlStore(database))

    @app.on("in")
    def block(ctx, record):
        go.wait(20)

    sidecar = serve(app, options={"ahead": 1}, **EXTERNAL)
    load(sidecar, 1, task=0)
    sidecar.batch(2, *records((b"a", b"1")), state={})
    sidecar.send(LOAD, 3, 1)
    sidecar.send(CANCEL, 3)
    go.set()
    assert sidecar.expect(RESULT)[1] == 2
    assert sidecar.expect(RESULT) == [RESULT, 3, 0, None, {}, []]


def test_a_database_that_cannot_be_reached(serve, tmp_path):
    sidecar = serve(program(lambda: sqlite3.connect(tmp_path / "no" / "such" / "folder.db")), **EXTERNAL)
    answer = load(sidecar, 1)
    assert answer[:3] == [RESULT, 1, 0] and answer[3]["error"] == "OperationalError"


class Flaky(sqlite3.Connection):
    """As a connection whose server goes away: `lost` makes every statement fail."""

    lost = False

    def cursor(self, *args, **kwargs):
        if self.lost:
            raise sqlite3.OperationalError("server closed the connection unexpectedly")
        return super().cursor(*args, **kwargs)


def test_a_lost_connection_is_nobodys_failure(serve, database, tmp_path):
    opened = []

    def connect():
        opened.append(sqlite3.connect(tmp_path / "state.db", check_same_thread=False, factory=Flaky))
        return opened[-1]

    sidecar = serve(program(connect), **EXTERNAL)
    load(sidecar, 1)
    assert sidecar.run(2, (b"anna", b"3"), state={})[2] == 1
    opened[-1].lost = True
    result = sidecar.run(3, (b"bob", b"1"), state={})
    assert result[2] == 0 and result[3]["class"] == "Store" and "closed the connection" in result[3]["message"]
    sidecar.send(STORE, 4, 0, 1, b"c")
    answer = sidecar.receive()
    assert answer[:3] == [RESULT, 4, 0] and answer[3]["error"] == "OperationalError"
    assert balances(database) == {}, "what was committed would be half of a transaction"


def test_a_connection_lost_in_an_item(serve, database, tmp_path):
    opened = []

    def connect():
        opened.append(sqlite3.connect(tmp_path / "state.db", check_same_thread=False, factory=Flaky))
        return opened[-1]

    app = millstream.App()
    app.external_store(SqlStore(connect))

    @app.on("in")
    def pay(ctx, record):
        ctx.sql.execute("INSERT INTO accounts VALUES ('a', 1)")
        opened[-1].lost = True
        raise sqlite3.OperationalError("server closed the connection unexpectedly")

    sidecar = serve(app, **EXTERNAL)
    load(sidecar, 1)
    result = sidecar.run(2, (b"anna", b"3"), state={})
    assert result[2] == 0 and result[3]["class"] == "Store" and result[3]["retriable"] is True
    assert result[5] == []


def test_a_program_without_a_store_refuses_the_manifest(sidecar):
    from conftest import Running

    app = millstream.App()
    app.on("in")(lambda ctx, record: None)
    running = Running(app, sidecar)
    connection = sidecar.accept()
    connection.expect(HELLO)
    connection.send(WELCOME, welcome(**EXTERNAL))
    running.join()
    assert "app.external_store" in str(running.error)


def test_a_manifest_without_it_refuses_the_program(sidecar, database):
    from conftest import Running

    running = Running(program(database), sidecar)
    connection = sidecar.accept()
    connection.expect(HELLO)
    connection.send(WELCOME, welcome(stores=()))
    running.join()
    assert "externalStore: {} under spec" in str(running.error)


def test_what_does_not_go_together(database):
    app = program(database)
    with pytest.raises(millstream.ConfigError, match="already"):
        app.external_store(SqlStore(database))
    with pytest.raises(TypeError):
        millstream.App().external_store(database)
    with pytest.raises(millstream.ConfigError, match="letters"):
        SqlStore(database, table="a; DROP TABLE b")
    app.finalize(lambda ctx: None)
    with pytest.raises(millstream.ConfigError, match="finalize"):
        TestKit(app, outputs=["out"], external_store=True)


def test_the_kit_commits_behind_every_batch(database):
    connection = database()
    kit = TestKit(program(lambda: connection), outputs=["out"], external_store=True)
    kit.feed("in", key="anna", value=3)
    kit.feed("in", key="anna", value=4)
    assert balances(database) == {"anna": 7}
    assert [o.value for o in kit.outputs("out")] == [3, 7]
    with pytest.raises(RecordFailed, match="only payments"):
        kit.feed("in", key="bob", value=-1)
    assert balances(database) == {"anna": 7}
    connection.close()


def test_ctx_sql_without_a_store():
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        ctx.sql.execute("SELECT 1")

    with pytest.raises(RecordFailed, match="app.external_store"):
        TestKit(app).feed("in", 1)
