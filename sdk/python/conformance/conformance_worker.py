"""The conformance worker of the Python SDK: does what docs/reference/conformance.md says.

    millstream conform --profile profile.yaml -- python conformance_worker.py [--async]

With --async the handlers are coroutines.
"""

import asyncio
import os
import sys
import time
from urllib.parse import unquote_to_bytes

import millstream

app = millstream.App(key=millstream.BYTES, value=millstream.BYTES)


def word(text):
    """A word of a script: ~ is null, % alone is empty, %ff a byte."""
    if text == "~":
        return None
    return b"" if text == "%" else unquote_to_bytes(text)


def optional_int(words, at):
    return int(words[at]) if len(words) > at and words[at] != "~" else None


def emit(ctx, words):
    headers = [(name, word(value)) for name, value in (pair.split("=", 1) for pair in words[6:])]
    ctx.emit(words[1], word(words[2]), word(words[3]), headers=headers or None,
             timestamp=optional_int(words, 4), partition=optional_int(words, 5))


def effects(ctx, record, words):
    """Commands that read nothing. False for another one."""
    name = words[0]
    if name == "set":
        ctx.state(words[1]).set(word(words[2]), key=word(words[3]) if len(words) > 3 else None)
    elif name == "set_size":
        ctx.state(words[1]).set(b"x" * int(words[2]))
    elif name == "delete":
        ctx.state(words[1]).delete(key=word(words[2]) if len(words) > 2 else None)
    elif name == "emit":
        emit(ctx, words)
    elif name == "emit_size":
        ctx.emit(words[1], record.key, b"x" * int(words[2]))
    elif name == "info":
        facts = f"{record.input} {record.task} {record.offset} {record.timestamp} {record.attempt}"
        ctx.emit("out", None, facts.encode())
    elif name == "fail":
        raise RuntimeError(word(words[1]).decode())
    elif name == "fail_size":
        raise RuntimeError("x" * int(words[1]))
    elif name == "reject":
        raise millstream.RejectRecord(word(words[1]).decode())
    elif name == "crash":
        os._exit(3)
    else:
        return False
    return True


def show(ctx, record, key, value):
    ctx.emit("reads", record.key if key is None else key, value)


def bounds(words):
    return {"start": word(words[2]), "end": word(words[3]), "limit": int(words[4]), "reverse": words[5] == "reverse"}


def run(ctx, record):
    for line in record.value.decode().split("\n"):
        words = line.split(" ")
        if effects(ctx, record, words):
            continue
        if words[0] == "sleep":
            time.sleep(int(words[1]) / 1000)
            continue
        store = ctx.state(words[1])
        if words[0] == "get":
            key = word(words[2]) if len(words) > 2 else None
            show(ctx, record, key, store.get(key))
        elif words[0] == "get_many":
            keys = [word(text) for text in words[2:]]
            for key, value in zip(keys, store.get_many(keys)):
                show(ctx, record, key, value)
        elif words[0] == "scan":
            for key, value in store.scan(**bounds(words)):
                show(ctx, record, key, value)
        elif words[0] == "count":
            count = b"%d" % (int(store.get(default=b"0")) + 1)
            store.set(count)
            ctx.emit("out", record.key, count)
        else:
            raise ValueError(f"no command {words[0]!r}")


async def run_async(ctx, record):
    for line in record.value.decode().split("\n"):
        words = line.split(" ")
        if effects(ctx, record, words):
            continue
        if words[0] == "sleep":
            await asyncio.sleep(int(words[1]) / 1000)
            continue
        store = ctx.state(words[1])
        if words[0] == "get":
            key = word(words[2]) if len(words) > 2 else None
            show(ctx, record, key, await store.get(key))
        elif words[0] == "get_many":
            keys = [word(text) for text in words[2:]]
            for key, value in zip(keys, await store.get_many(keys)):
                show(ctx, record, key, value)
        elif words[0] == "scan":
            async for key, value in store.scan(**bounds(words)):
                show(ctx, record, key, value)
        elif words[0] == "count":
            count = b"%d" % (int(await store.get(default=b"0")) + 1)
            store.set(count)
            ctx.emit("out", record.key, count)
        else:
            raise ValueError(f"no command {words[0]!r}")


app.on("script")(run_async if "--async" in sys.argv else run)


@app.on("echo")
def echo(ctx, record):
    ctx.emit("out", record.key, record.value, headers=record.headers or None)


@app.on("ints", value=millstream.INT)
def ints(ctx, record):
    ctx.emit("out", record.key, b"%d" % record.value)


if __name__ == "__main__":
    app.run()
