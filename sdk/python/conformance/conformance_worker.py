"""The conformance worker of the Python SDK: does what docs/reference/conformance.md says.

    millstream conform --profile profile.yaml -- python conformance_worker.py [--async]

With --async the handlers are coroutines.
"""

import asyncio
import inspect
import os
import sqlite3
import sys
import time
from urllib.parse import unquote_to_bytes

import millstream
from millstream.external import SqlStore

# What the case at hand is about: handlers of timers, say, belong to manifests with timers.
NEEDS = os.environ.get("CONFORMANCE_NEEDS", "").split(",")
ASYNC = "--async" in sys.argv and "externalStore" not in NEEDS  # which is for plain handlers
app = millstream.App(key=millstream.BYTES, value=millstream.BYTES)


def word(text):
    """A word of a script: ~ is null, % alone is empty, %ff a byte."""
    if text == "~":
        return None
    return b"" if text == "%" else unquote_to_bytes(text)


def at(words, index, otherwise=None):
    return words[index] if len(words) > index else otherwise


def optional_int(words, index):
    return int(words[index]) if at(words, index, "~") != "~" else None


def optional_word(words, index):
    return word(words[index]) if len(words) > index else None


def emit(ctx, words):
    headers = [(name, word(value)) for name, value in (pair.split("=", 1) for pair in words[6:])]
    ctx.emit(words[1], word(words[2]), word(words[3]), headers=headers or None,
             timestamp=optional_int(words, 4), partition=optional_int(words, 5))


def info(ctx, record):
    facts = f"{record.input} {record.task} {record.offset} {record.timestamp} {record.attempt}"
    ctx.emit("out", None, facts.encode())


def effects(ctx, key, words, record):
    """Commands that read nothing. False for another one."""
    name = words[0]
    if name == "set":
        ctx.state(words[1]).set(word(words[2]), key=optional_word(words, 3))
    elif name == "set_size":
        ctx.state(words[1]).set(b"x" * int(words[2]))
    elif name == "delete":
        ctx.state(words[1]).delete(key=optional_word(words, 2))
    elif name == "emit":
        emit(ctx, words)
    elif name == "emit_size":
        ctx.emit(words[1], key, b"x" * int(words[2]))
    elif name == "info":
        info(ctx, record)
    elif name == "fail":
        raise RuntimeError(word(words[1]).decode())
    elif name == "fail_size":
        raise RuntimeError("x" * int(words[1]))
    elif name == "reject":
        raise millstream.RejectRecord(word(words[1]).decode())
    elif name == "gather":
        ctx.gathered.setdefault("texts", []).append(word(words[1]).decode())
    elif name == "sql_count":
        ctx.sql.execute(
            "INSERT INTO counts VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET number = number + 1", (key,))
        ctx.sql.execute("SELECT number FROM counts WHERE name = ?", (key,))
        ctx.emit("out", key, b"%d" % ctx.sql.fetchone()[0])
    elif name == "sql_lose":
        ctx.sql.connection.close()
    elif name == "crash":
        os._exit(3)
    else:
        return time_effects(ctx, words)
    return True


def time_effects(ctx, words):
    """The same, of windows, sessions, timers and visits."""
    name = words[0]
    if name == "timer":
        ctx.timers.set(words[1], int(words[2]), clock=at(words, 3, "event"), key=optional_word(words, 4))
    elif name == "cancel":
        ctx.timers.cancel(words[1], clock=at(words, 2, "event"), key=optional_word(words, 3))
    elif name == "set_windows":
        for window in ctx.windows(words[1]):
            window.set(word(words[2]))
    elif name == "delete_windows":
        for window in ctx.windows(words[1]):
            window.delete()
    elif name == "set_window":
        ctx.window(words[1], int(words[2])).set(word(words[3]))
    elif name == "set_session":
        ctx.session(words[1]).set(word(words[2]))
    elif name == "visit":
        change(ctx.visits, words)
    elif name == "visit_size":
        ctx.visits.start(words[1], b"x" * int(words[2]))
    elif name == "watermark":
        ctx.emit("out", None, None if ctx.watermark is None else b"%d" % ctx.watermark)
    else:
        return False
    return True


def change(visits, words):
    if words[2] == "start":
        visits.start(words[1], optional_word(words, 3))
    else:
        {"stop": visits.stop, "pause": visits.pause, "resume": visits.resume}[words[2]](words[1])


async def settled(value):
    """What a plain context gives at once, and an async one when awaited."""
    return await value if inspect.isawaitable(value) else value


async def rows_of(rows):
    return [row async for row in rows] if hasattr(rows, "__aiter__") else list(rows)


def show(ctx, key, value):
    ctx.emit("reads", key, value)


def span(window, value=None):
    bounds = b"%d..%d" % (window.start, window.end)
    return bounds if value is None else bounds + b"=" + value


def handle(ctx, words):
    if words[0] == "join":
        return ctx.join(words[1])
    return ctx.lookup(words[1]) if words[0] in ("lookup", "scan_table") else ctx.state(words[1])


async def read(ctx, key, words):
    name, store = words[0], handle(ctx, words)
    if name in ("get", "join", "lookup"):
        other = optional_word(words, 2)
        show(ctx, key if other is None else other, await settled(store.get(other)))
    elif name == "get_many":
        keys = [word(text) for text in words[2:]]
        for one, value in zip(keys, await settled(store.get_many(keys))):
            show(ctx, one, value)
    elif name in ("scan", "scan_table"):
        rows = store.scan(start=word(words[2]), end=word(words[3]), limit=int(words[4]), reverse=words[5] == "reverse")
        for one, value in await rows_of(rows):
            show(ctx, one, value)
    elif name == "count":
        count = b"%d" % (int(await settled(store.get(default=b"0"))) + 1)
        store.set(count)
        ctx.emit("out", key, count)
    else:
        raise ValueError(f"no command {name!r}")


async def time_reads(ctx, key, words):
    name = words[0]
    if name == "windows":
        for window in ctx.windows(words[1]):
            show(ctx, key, span(window, await settled(window.get())))
    elif name == "count_windows":
        for window in ctx.windows(words[1]):
            count = b"%d" % (int(await settled(window.get(default=b"0"))) + 1)
            window.set(count)
            ctx.emit("out", key, span(window, count))
    elif name == "window":
        show(ctx, key, await settled(ctx.window(words[1], int(words[2])).get()))
    elif name == "session":
        session = ctx.session(words[1])
        values = None if session is None else await settled(session.values())
        show(ctx, key, None if session is None else span(session, b",".join(values) if values else None))
    elif name == "count_session":
        session = ctx.session(words[1])
        count = b"%d" % (sum(int(value) for value in await settled(session.values())) + 1)
        session.set(count)
        ctx.emit("out", key, span(session, count))
    else:
        return False
    return True


async def run(ctx, key, script, record=None):
    for line in script.decode().split("\n"):
        words = line.split(" ")
        if words[0] == "sleep":
            seconds = int(words[1]) / 1000
            await asyncio.sleep(seconds) if ASYNC else time.sleep(seconds)
        elif not effects(ctx, key, words, record) and not await time_reads(ctx, key, words):
            await read(ctx, key, words)


async def run_stored(ctx, key):
    """What a timer or a closing window does: the script that the key has in `scripts`."""
    script = await settled(ctx.state("scripts").get())
    if script is not None:
        await run(ctx, key, script)


def handler(function):
    """A coroutine function as a handler, or as a plain one: then nothing in it ever waits."""
    if ASYNC:
        return function

    def plain(*arguments):
        try:
            function(*arguments).send(None)
        except StopIteration:
            return
        raise AssertionError("a plain handler does not wait")

    return plain


@app.on("script")
@handler
async def script(ctx, record):
    await run(ctx, record.key, record.value, record)


@app.on("echo")
def echo(ctx, record):
    ctx.emit("out", record.key, record.value, headers=record.headers or None)


@app.on("ints", value=millstream.INT)
def ints(ctx, record):
    ctx.emit("out", record.key, b"%d" % record.value)


@handler
async def due(ctx, timer):
    ctx.emit("out", timer.key, f"{timer.name} {timer.clock} {timer.time} {timer.attempt}".encode())
    await run_stored(ctx, timer.key)


@handler
async def closed(ctx, window):
    ctx.emit("out", window.key, span(window, await settled(window.get())))
    await run_stored(ctx, window.key)


def facts(visit):
    return f"{visit.visit} {visit.time} {visit.attempt} ".encode() + (b"~" if visit.data is None else visit.data)


@handler
async def visited(ctx, row):
    ctx.emit("out", row.key, facts(row))
    show(ctx, row.key, await settled(row.value() if ASYNC else row.value))
    await run_stored(ctx, row.key)


@handler
async def visit_ended(ctx, end):
    ctx.emit("out", None, facts(end))


@handler
async def finalize(ctx):
    for text in ctx.gathered.get("texts", []):
        if text == "fail":
            raise RuntimeError(text)
        if text.startswith("count:"):
            key = text[6:].encode()
            counts = ctx.state("counts")
            counts.set(b"%d" % (int(await settled(counts.get(key, default=b"0"))) + 1), key=key)
        else:
            ctx.emit("out", None, text.encode())


if "timers" in NEEDS:
    app.on_timer("tick")(due)
    app.on_timer("other")(due)
if "visits" in NEEDS:
    app.on_visit("walk")(visited)
    app.on_visit_end("walk")(visit_ended)
if "closings" in NEEDS:
    app.on_close("final")(closed)
if "sessionClosings" in NEEDS:
    app.on_close("stays")(closed)
if "sessions" in NEEDS:
    app.store("visits", merge=lambda earlier, later: earlier + b"+" + later)
if "externalStore" in NEEDS:
    DATABASE = "file:conformance?mode=memory&cache=shared"

    def connect():
        return sqlite3.connect(DATABASE, uri=True, check_same_thread=False)

    keeper = connect()  # it lives as long as a connection to it
    keeper.execute("CREATE TABLE counts (name BLOB PRIMARY KEY, number INTEGER NOT NULL)")
    app.external_store(SqlStore(connect))
if "hooks" in NEEDS:
    app.begin(lambda ctx: None)
    app.finalize(finalize)
    app.committed(lambda task: None)

if __name__ == "__main__":
    app.run()
