"""A PostgreSQL server for a test of the external store, and what must be true of it and the log at the end (model and check)."""

import importlib.util
import json
import pathlib
import tempfile

import psycopg

HERE = pathlib.Path(__file__).resolve().parent
WORKER = HERE / "external_worker.py"


def _ledger_database():
    """examples/ledger/database.py, which starts the server."""
    spec = importlib.util.spec_from_file_location("ledger_database", HERE.parents[1] / "examples" / "ledger" / "database.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def servers(monkeypatch):
    """For a fixture: yields one, empty, in a folder that its user can reach; the worker finds it in its environment."""
    made = _ledger_database().Server(tempfile.mkdtemp(prefix="ms-pg-"))
    try:
        made.start()
        with psycopg.connect(made.url) as connection:
            connection.execute("CREATE TABLE sums (key TEXT PRIMARY KEY, count BIGINT NOT NULL, sum BIGINT NOT NULL)")
        monkeypatch.setenv("EXTERNAL_DATABASE", made.url)
        yield made
    finally:
        made.close()


def differences(events, outputs, server):
    """Of `events` [(key, n)] as they lie in the topic, per key in order, and `outputs` [(key, value bytes)] likewise: each output once and
    with what came before it, the rows as at the end. Empty: all is right."""
    expected, told, seen = {}, {}, {}
    for key, n in events:
        count, total = expected.get(key, (0, 0))
        expected[key] = (count + 1, total + n)
        told.setdefault(key, []).append({"n": n, "count": count + 1, "sum": total + n})
    for key, value in outputs:
        seen.setdefault(key, []).append(json.loads(value))
    problems = [f"{key!r}: {len(seen.get(key, []))} outputs, {len(told.get(key, []))} expected: {seen.get(key)} instead of {told.get(key)}"
                for key in told.keys() | seen.keys() if seen.get(key) != told.get(key)]
    with psycopg.connect(server.url) as connection:
        rows = {key.encode(): (count, total) for key, count, total in connection.execute("SELECT key, count, sum FROM sums")}
    return problems if rows == expected else [*problems, f"the database has {rows} instead of {expected}"]
