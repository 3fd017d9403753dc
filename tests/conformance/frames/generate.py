#!/usr/bin/env python3
"""Writes the golden frames: ./generate.py (needs the Python package msgpack; Debian: python3-msgpack).

Frames are built here from their descriptions with Python's MessagePack library, independently of the C++ code that the tests
check against them. README.md describes the files.
"""
import json
import pathlib
import struct
import sys

import msgpack

KINDS = {
    "HELLO": 1, "WELCOME": 2, "OPEN": 3, "CLOSE": 4, "BATCH": 5, "RESULT": 6, "CANCEL": 7, "GET": 8, "VALUES": 9, "SCAN": 10,
    "ROWS": 11, "EXTEND": 12, "BEGIN": 13, "FINALIZE": 14, "COMMITTED": 15, "LOAD": 16, "CHECKPOINT": 17,
    "STORE": 18, "STORED": 19, "PING": 20, "PONG": 21, "ERROR": 22, "GOODBYE": 23,
}
HERE = pathlib.Path(__file__).parent
names = set()


# --- From a description (JSON) to MessagePack.

def raw(value):
    """A key or value: text, {"hex": ...} where it is not UTF-8, or null."""
    if value is None:
        return None
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value.encode()


def state(value):
    if isinstance(value, dict) and value.get("notPrefetched"):
        return msgpack.ExtType(1, b"")
    return raw(value)


def headers(pairs):
    def name(value):  # UTF-8 as str, anything else as bin
        return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
    return [[name(header["name"]), raw(header["value"])] for header in pairs]


def state_rows(rows):
    return [[row["start"], row["end"], state(row["value"])] for row in rows]


def item(record):
    if "timer" in record:
        return [1, record["keyIndex"], record["clock"], record["timer"], record["time"], record["attempt"]]
    if "closing" in record:
        return [2, record["closing"], record["keyIndex"], record["start"], record["end"], state(record["value"]), record["attempt"]]
    if "visit" in record:
        return [3, record["visit"], record["keyIndex"], record["time"], raw(record["data"]), record["attempt"]]
    return record_item(record) + ([[window(w) for w in record["windows"]]] if "windows" in record else [])


def window(w):
    return [w["store"], w["start"], w["end"]] + ([w["merged"]] if "merged" in w else [])


def record_item(record):
    return [0, record["input"], record["offset"], record["timestamp"], record["keyIndex"], raw(record["value"]),
            headers(record["headers"]) if record["headers"] else None, record["attempt"]]


def output(record):
    fields = [record["output"], raw(record["key"]), raw(record["value"]), record["timestamp"],
              headers(record["headers"]) if record["headers"] else None, record["partition"]]
    while len(fields) > 4 and fields[-1] is None:
        fields.pop()
    return fields


def ops(stores, with_item=False):
    return {int(store): [[raw(op["key"]), raw(op["value"])] + ([op["item"]] if with_item else []) for op in writes]
            for store, writes in stores.items()}


def trimmed(fields, least):
    while len(fields) > least and fields[-1] in (None, {}):
        fields.pop()
    return fields


def fields_of(kind, m):
    if kind == "HELLO":
        hello = {"protocol": m["protocol"], "sdk": m["sdk"], "language": m["language"], "version": m["version"],
                 "capabilities": m["capabilities"]}
        if m["inputs"] is not None:
            hello["inputs"] = m["inputs"]
        hello["parallel"] = m["parallel"]
        if m["name"]:
            hello["name"] = m["name"]
        return [hello]
    if kind == "WELCOME":
        return [{key: m[key] for key in ("protocol", "session", "processor", "inputs", "outputs", "stores", "timers", "visits", "joins", "lookups",
                                         "capabilities", "limits") if key in m}]
    if kind in ("OPEN", "CLOSE"):
        return [m["task"]]
    if kind == "BATCH":
        return [m["seq"], m["task"], m["flags"], [raw(key) for key in m["keys"]], [item(i) for i in m["items"]],
                {int(store): [state_rows(v) if isinstance(v, list) else state(v) for v in values] for store, values in m["state"].items()}, m["watermark"]]
    if kind == "RESULT":
        return [m["seq"], m["done"], m["failure"], ops(m["ops"]), [output(o) for o in m["outputs"]]] + (
            [[[raw(t["key"]), t["clock"], t["name"], t["time"]] for t in m.get("timers", [])]] if "timers" in m or "visits" in m else []) + (
            [[[v["visit"], v["what"], raw(v["data"])] for v in m["visits"]]] if "visits" in m else [])
    if kind == "CANCEL":
        return [m["seq"]]
    if kind in ("BEGIN", "FINALIZE", "LOAD"):
        return [m["seq"], m["task"]]
    if kind == "COMMITTED":
        return [m["tasks"]]
    if kind == "CHECKPOINT":
        return [m["seq"], m["fence"], raw(m["checkpoint"])]
    if kind == "STORE":
        return [m["seq"], m["task"], m["fence"], raw(m["checkpoint"])]
    if kind == "STORED":
        return [m["seq"], m["stored"]]
    if kind == "GET":
        return trimmed([m["seq"], m["rid"], m["store"], [raw(key) for key in m["keys"]], ops(m["newOps"], True)], 4)
    if kind == "VALUES":
        return trimmed([m["seq"], m["rid"], [raw(value) for value in m["values"]], m["error"]], 3)
    if kind == "SCAN":
        return trimmed([m["seq"], m["rid"], m["store"], raw(m["from"]), raw(m["to"]), m["limit"], m["reverse"], raw(m["cursor"]),
                        ops(m["newOps"], True)], 7)
    if kind == "ROWS":
        return trimmed([m["seq"], m["rid"], [[raw(row["key"]), raw(row["value"])] for row in m["rows"]], raw(m["cursor"]), m["error"]], 4)
    if kind == "EXTEND":
        return [m["seq"], m["done"]]
    if kind in ("PING", "PONG"):
        return [m["nonce"]]
    if kind == "ERROR":
        return [m["code"], m["message"]]
    if kind == "GOODBYE":
        return [m["reason"]]
    raise ValueError(kind)


# --- The files.

def frame(payload):
    return struct.pack(">I", len(payload)) + payload


def write(name, about, direction, frame_bytes, **more):
    assert name not in names, name
    names.add(name)
    content = {"about": about, "direction": direction, **more, "frame": frame_bytes.hex()}
    (HERE / f"{name}.json").parent.mkdir(exist_ok=True)
    (HERE / f"{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def direction_of(kind):
    if kind in ("HELLO", "RESULT", "GET", "SCAN", "EXTEND", "CHECKPOINT", "STORED"):
        return "W->S"
    return "both" if kind in ("PING", "PONG", "ERROR", "GOODBYE") else "S->W"


def golden(name, about, kind, message):
    payload = msgpack.packb([KINDS[kind], *fields_of(kind, message)], use_bin_type=True)
    write(name, about, direction_of(kind), frame(payload), canonical=True, message={"kind": kind, **message})


def variant(name, about, kind, message, payload):
    """Another legal way to write `message`: receivers take it, senders would not write it."""
    write(name, about, direction_of(kind), frame(payload), canonical=False, message={"kind": kind, **message})


def refused(name, about, direction, payload, problem, whole=None):
    write(name, about, direction, frame(payload) if whole is None else whole, refused=problem)


def record(offset, key_index, value, **more):
    return {"input": 0, "offset": offset, "timestamp": 1700000000000 + offset, "keyIndex": key_index, "value": value, "headers": [],
            "attempt": 1, **more}


def out(key, value, **more):
    return {"output": 0, "key": key, "value": value, "timestamp": 1700000000000, "headers": [], "partition": None, **more}


HELLO = {"protocol": [1, 1], "sdk": "millstream-python", "language": "python", "version": "0.1.0", "capabilities": [],
         "inputs": None, "parallel": 1, "name": ""}
LIMITS = {"frame": 16777216, "deadline_ms": 60000, "min_timestamp": -62135596800000, "max_timestamp": 253402300799999}
WELCOME = {"protocol": 1, "session": 4711, "processor": "totals", "inputs": [], "outputs": [], "stores": [], "joins": [], "lookups": [],
           "capabilities": [], "limits": LIMITS}
BATCH = {"seq": 1, "task": 0, "flags": 0, "keys": [], "items": [], "state": {}, "watermark": None}
RESULT = {"seq": 1, "done": 1, "failure": None, "ops": {}, "outputs": []}
SCAN = {"seq": 7, "rid": 1, "store": 0, "from": None, "to": None, "limit": 0, "reverse": False, "cursor": None, "newOps": {}}
EDGE_INTS = [0, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, 9223372036854775807]


def good_frames():
    golden("hello-minimal", "the least an SDK says", "HELLO", HELLO)
    golden("hello-full", "everything an SDK may say", "HELLO",
           {**HELLO, "protocol": [1, 3], "capabilities": ["future"], "inputs": ["orders", "paiements-é"], "parallel": 16, "name": "pod-0/1"})
    golden("hello-no-inputs", "an empty list of handlers is not the same as none given", "HELLO", {**HELLO, "inputs": []})
    golden("welcome-minimal", "a processor of nothing", "WELCOME", WELCOME)
    golden("welcome-full", "ids are indexes; stores, joins and lookups share one id space; session at its largest", "WELCOME",
           {**WELCOME, "session": 2**53 - 1, "inputs": [{"name": "orders", "topic": "shop.orders"}, {"name": "loop", "topic": "totals-loop"}],
            "outputs": [{"name": "totals", "topic": "totals", "max_bytes": 1048576}, {"name": "alerts", "topic": "alerts", "max_bytes": 0}],
            "stores": [{"name": "totals", "type": "KeyValue", "prefetched": True, "max_value_bytes": 1048576},
                       {"name": "archive", "type": "KeyValue", "prefetched": False, "max_value_bytes": 65536}],
            "joins": [{"name": "customers", "topic": "customers"}], "lookups": [{"name": "rates", "topic": "rates"}],
            "capabilities": ["future"]})
    for kind in ("OPEN", "CLOSE"):
        golden(f"{kind.lower()}-task-0", "task 0", kind, {"task": 0})
        golden(f"{kind.lower()}-task-largest", "the largest partition number", kind, {"task": 2147483647})

    golden("batch-empty", "no items, no keys, no state", "BATCH", BATCH)
    golden("batch-one-record", "one record with its state absent", "BATCH",
           {**BATCH, "keys": ["anna"], "items": [record(17, 0, "x")], "state": {"0": [None]}})
    golden("batch-null-and-empty-keys", "a null key has index nil; the empty key is a key", "BATCH",
           {**BATCH, "keys": [""], "items": [record(0, None, "null key"), record(1, 0, "empty key")], "state": {"0": ["5"]}})
    golden("batch-tombstone", "a null value (tombstone) and an empty value differ", "BATCH",
           {**BATCH, "keys": ["k"], "items": [record(0, 0, None), record(1, 0, "")], "state": {"0": [""]}})
    golden("batch-binary", "keys, values and states need not be UTF-8", "BATCH",
           {**BATCH, "keys": [{"hex": "ff00fe"}, {"hex": "c328"}], "items": [record(0, 0, "\0"), record(1, 1, {"hex": "80ff"})],
            "state": {"0": [{"hex": "deadbeef"}, None]}})
    golden("batch-headers", "repeated names keep their order, values may be null or binary, names may be empty or not UTF-8", "BATCH",
           {**BATCH, "keys": ["k"], "items": [record(0, 0, "v", headers=[
               {"name": "trace", "value": "1"}, {"name": "trace", "value": "2"}, {"name": "none", "value": None}, {"name": "", "value": ""},
               {"name": "bin", "value": {"hex": "ff"}}, {"name": "schlüssel", "value": "x"}, {"name": {"hex": "ff"}, "value": "y"}])]})
    golden("batch-times", "negative, zero and far timestamps; the largest offset", "BATCH",
           {**BATCH, "keys": ["k"], "watermark": -1, "items": [
               record(0, 0, "v", timestamp=t) for t in (-1, -33, -129, -32769, -2147483649, -62135596800000, -9223372036854775808)] + [
               record(9223372036854775807, 0, "v", timestamp=9223372036854775807)]})
    golden("batch-state", "absent, empty, present and not sent along, in two stores", "BATCH",
           {**BATCH, "flags": 1, "watermark": 1700000000000, "keys": ["a", "b", "c", "d"],
            "items": [record(i, i, "v") for i in range(4)],
            "state": {"0": [None, "", "5", {"notPrefetched": True}], "1": [{"notPrefetched": True}] * 4}})
    golden("batch-retry", "a second attempt, flagged trace, of another input", "BATCH",
           {**BATCH, "flags": 1, "keys": ["k"], "items": [record(5, 0, "v", input=3, attempt=2)]})
    golden("batch-shared-keys", "twenty records of three keys: arrays beyond 15 elements", "BATCH",
           {**BATCH, "keys": ["a", "b", "c"], "items": [record(i, i % 3, str(i)) for i in range(20)]})
    golden("batch-long-value", "values beyond 255 bytes", "BATCH", {**BATCH, "keys": ["k" * 300], "items": [record(0, 0, "v" * 256)]})

    golden("result-empty", "a batch without effects", "RESULT", RESULT)
    golden("result-effects", "writes in order, a delete, outputs", "RESULT",
           {**RESULT, "seq": 9007199254740993, "done": 3,
            "ops": {"0": [{"key": "anna", "value": "43"}, {"key": "bob", "value": None}], "2": [{"key": "", "value": ""}]},
            "outputs": [out("anna", "43"), out(None, "no key"), out("gone", None)]})
    golden("result-output-fields", "no timestamp (the sidecar's clock), negative timestamp, headers, a partition without headers", "RESULT",
           {**RESULT, "outputs": [out("k", "v", timestamp=None), out("k", "v", timestamp=-1),
                                  out("k", "v", headers=[{"name": "h", "value": "1"}, {"name": "h", "value": None}]),
                                  out("k", "v", partition=2), out("k", "v", output=300, headers=[{"name": "h", "value": ""}], partition=0)]})
    golden("result-binary", "keys and values that are not UTF-8", "RESULT",
           {**RESULT, "ops": {"0": [{"key": {"hex": "ff"}, "value": {"hex": "00ff"}}]}, "outputs": [out({"hex": "80"}, {"hex": "c0af"})]})
    golden("result-failure", "the first two items count, the third failed", "RESULT",
           {**RESULT, "done": 2, "failure": {"class": "Handler", "error": "ValueError", "message": "Traceback …\nValueError: no", "retriable": True},
            "ops": {"0": [{"key": "a", "value": "1"}]}, "outputs": [out("a", "1")]})
    golden("result-decode-failure", "a value that cannot be read is not retried", "RESULT",
           {**RESULT, "done": 0, "failure": {"class": "Decode", "error": "JSONDecodeError", "message": "not JSON: b'\\x00'", "retriable": False}})
    golden("result-output-failure", "an output that is too large", "RESULT",
           {**RESULT, "done": 0, "failure": {"class": "Output", "error": "TooLarge", "message": "", "retriable": False}})

    for number in EDGE_INTS + [2**64 - 1]:
        golden(f"ping-{number}", "the shortest form of every size of integer", "PING", {"nonce": number})
    golden("pong", "the nonce of the PING", "PONG", {"nonce": 4294967296})
    golden("cancel", "one number", "CANCEL", {"seq": 12})
    golden("extend", "ten items done", "EXTEND", {"seq": 12, "done": 10})

    golden("get", "keys of one store", "GET", {"seq": 7, "rid": 1, "store": 2, "keys": ["a", "", {"hex": "ff"}], "newOps": {}})
    golden("get-new-ops", "writes since the last frame of this seq, each with its item", "GET",
           {"seq": 7, "rid": 2, "store": 0, "keys": ["a"],
            "newOps": {"0": [{"key": "a", "value": "1", "item": 0}, {"key": "b", "value": None, "item": 3}]}})
    golden("values", "present, absent, empty", "VALUES", {"seq": 7, "rid": 1, "values": ["1", None, "", {"hex": "ff"}], "error": None})
    golden("values-cancelled", "the batch is void", "VALUES", {"seq": 7, "rid": 1, "values": [], "error": "cancelled"})
    golden("scan-all", "everything, as much as fits a page", "SCAN", SCAN)
    golden("scan-range", "a range, from the end", "SCAN", {**SCAN, "from": "a", "to": {"hex": "ff"}, "limit": 100, "reverse": True})
    golden("scan-next-page", "with the cursor of the last ROWS", "SCAN", {**SCAN, "cursor": {"hex": "ff01"}})
    golden("scan-new-ops", "new ops without a cursor: nil holds its place", "SCAN",
           {**SCAN, "newOps": {"1": [{"key": "k", "value": "v", "item": 1}]}})
    golden("rows", "a page with more behind it", "ROWS",
           {"seq": 7, "rid": 1, "rows": [{"key": "a", "value": "1"}, {"key": {"hex": "ff"}, "value": ""}], "cursor": "next", "error": None})
    golden("rows-end", "the last page", "ROWS", {"seq": 7, "rid": 1, "rows": [], "cursor": None, "error": None})
    golden("rows-cancelled", "the batch is void", "ROWS", {"seq": 7, "rid": 1, "rows": [], "cursor": None, "error": "cancelled"})

    golden("error", "the sender closes the connection after it", "ERROR", {"code": "BadFrame", "message": "RESULT: seq: expected an integer from 0, found nil"})
    golden("error-empty", "no words", "ERROR", {"code": "", "message": ""})
    golden("goodbye", "an orderly end", "GOODBYE", {"reason": "the sidecar ends"})


def time_frames():
    """In a folder of their own: for SDKs that have windows and timers."""
    golden("time/welcome", "windows, sessions, timers", "WELCOME",
           {**WELCOME, "timers": True, "stores": [
               {"name": "minutes", "type": "Window", "prefetched": True, "max_value_bytes": 1048576,
                "window": {"size": 60000, "advance": 10000, "grace": 5000, "retention": 3600000, "final": True}},
               {"name": "visits", "type": "Session", "prefetched": True, "max_value_bytes": 1048576,
                "session": {"gap": 1800000, "grace": 0, "retention": 1800000}}]})
    golden("closings/welcome", "sessions that are given when they close", "WELCOME",
           {**WELCOME, "capabilities": ["sessionClosings"], "stores": [
               {"name": "visits", "type": "Session", "prefetched": True, "max_value_bytes": 1048576,
                "session": {"gap": 1800000, "grace": 0, "retention": 1800000, "final": True}}]})
    golden("time/batch-windows", "two open windows, one of them new; one record is late; a session that connects two", "BATCH",
           {**BATCH, "keys": ["k"], "watermark": 1700000000000,
            "items": [record(0, 0, "v", windows=[{"store": 0, "start": 1699999990000, "end": 1700000050000},
                                                 {"store": 0, "start": 1700000000000, "end": 1700000060000},
                                                 {"store": 1, "start": -5, "end": 1700000000000, "merged": [[-5, 3], [10, 10]]}]),
                      record(1, 0, "late")],
            "state": {"0": [[{"start": 1699999990000, "end": 1700000050000, "value": "7"}]],
                      "1": [[{"start": -5, "end": 3, "value": "a"}, {"start": 10, "end": 10, "value": {"notPrefetched": True}}]]}})
    golden("time/batch-timer", "timers of both clocks, one long ago", "BATCH",
           {**BATCH, "keys": ["k", {"hex": "ff"}], "items": [
               {"timer": "remind", "clock": 0, "keyIndex": 0, "time": 1700000000000, "attempt": 1},
               {"timer": "", "clock": 1, "keyIndex": 1, "time": -1, "attempt": 3}]})
    golden("time/batch-closing", "windows that close, with and without their value", "BATCH",
           {**BATCH, "keys": ["k"], "items": [
               {"closing": 0, "keyIndex": 0, "start": 0, "end": 60000, "value": "42", "attempt": 1},
               {"closing": 0, "keyIndex": 0, "start": 60000, "end": 120000, "value": {"notPrefetched": True}, "attempt": 1}]})
    golden("time/result-timers", "set, set again, cancel", "RESULT",
           {**RESULT, "timers": [{"key": "k", "clock": 0, "name": "remind", "time": 1700000000000},
                                 {"key": "k", "clock": 0, "name": "remind", "time": -1},
                                 {"key": {"hex": "ff"}, "clock": 1, "name": "", "time": None}]})
    golden("time/result-row-keys", "a write to a window: the key, then its start", "RESULT",
           {**RESULT, "ops": {"0": [{"key": {"hex": "6b" + "0000018bcfe56800"}, "value": "8"}]}})


def hook_frames():
    """The same: for SDKs that have hooks on transactions."""
    golden("hooks/begin", "a transaction begins", "BEGIN", {"seq": 12, "task": 3})
    golden("hooks/finalize", "and is about to be closed", "FINALIZE", {"seq": 4294967296, "task": 0})
    golden("hooks/committed", "of two tasks, up to these batches", "COMMITTED", {"tasks": [[0, 12], [3, 4294967296]]})
    golden("hooks/committed-nothing", "no task", "COMMITTED", {"tasks": []})


def visit_frames():
    """The same: for SDKs that have visits."""
    golden("visits/welcome", "two visits of one store", "WELCOME",
           {**WELCOME, "stores": [{"name": "accounts", "type": "KeyValue", "prefetched": True, "max_value_bytes": 1048576}],
            "visits": [{"name": "interest", "store": 0}, {"name": "audit", "store": 0}], "capabilities": ["visits"]})
    golden("visits/hello", "a worker that takes rows of visits", "HELLO", {**HELLO, "capabilities": ["visits"]})
    golden("visits/batch-rows", "rows, the last of them not sent along, and records behind them", "BATCH",
           {**BATCH, "keys": ["a", {"hex": "ff"}], "items": [
               {"visit": 0, "keyIndex": 0, "time": 1700000000000, "data": "2", "attempt": 1},
               {"visit": 0, "keyIndex": 1, "time": 1700000000000, "data": "2", "attempt": 1},
               record(0, 0, "v")],
            "state": {"0": ["5", {"notPrefetched": True}]}})
    golden("visits/batch-end", "the end of a visit without data, long ago, its second attempt", "BATCH",
           {**BATCH, "items": [{"visit": 1, "keyIndex": None, "time": -1, "data": None, "attempt": 2}]})
    golden("visits/result", "start without, with empty and with binary data; stop, pause, resume", "RESULT",
           {**RESULT, "visits": [{"visit": 0, "what": 0, "data": None}, {"visit": 0, "what": 0, "data": ""},
                                 {"visit": 1, "what": 0, "data": {"hex": "ff00"}}, {"visit": 1, "what": 1, "data": None},
                                 {"visit": 0, "what": 2, "data": None}, {"visit": 300, "what": 3, "data": None}]})
    golden("visits/result-with-timer", "behind timers", "RESULT",
           {**RESULT, "timers": [{"key": "k", "clock": 0, "name": "t", "time": 1}], "visits": [{"visit": 0, "what": 1, "data": None}]})
    pack = lambda value: msgpack.packb(value, use_bin_type=True)
    variant("visits/variant-short", "nil for timers, data left out, further fields", "RESULT",
            {**RESULT, "visits": [{"visit": 0, "what": 2, "data": None}, {"visit": 1, "what": 0, "data": "d"}]},
            pack([6, 1, 1, None, {}, [], None, [[0, 2], [1, 0, b"d", "later"]]]))
    refused("visits/refused-what", "something that cannot be done to a visit", "W->S", pack([6, 1, 1, None, {}, [], [], [[0, 4, None]]]), "what of a visit")
    refused("visits/refused-data", "data for something that ends", "W->S", pack([6, 1, 1, None, {}, [], [], [[0, 1, b"d"]]]), "start of a visit")
    refused("visits/refused-long-data", "data of 4,097 bytes", "W->S", pack([6, 1, 1, None, {}, [], [], [[0, 0, b"d" * 4097]]]), "at most 4096")
    refused("visits/refused-key-index", "a row with a key that is not there", "S->W",
            pack([5, 1, 0, 0, [b"k"], [[3, 0, 1, 0, None, 1]], {}, None]), "key index")


def external_frames():
    """The same: for SDKs that have external stores."""
    golden("external/load", "a task takes over its checkpoint", "LOAD", {"seq": 12, "task": 3})
    golden("external/checkpoint", "the database had one", "CHECKPOINT", {"seq": 12, "fence": 4294967296, "checkpoint": {"hex": "00ff"}})
    golden("external/checkpoint-none", "the database had none", "CHECKPOINT", {"seq": 4294967296, "fence": 1, "checkpoint": None})
    golden("external/checkpoint-empty", "an empty one is not none", "CHECKPOINT", {"seq": 12, "fence": 1, "checkpoint": ""})
    golden("external/store", "the transaction is to be committed", "STORE", {"seq": 13, "task": 3, "fence": 2, "checkpoint": {"hex": "95ff"}})
    golden("external/store-long", "a checkpoint with a 16-bit length", "STORE", {"seq": 13, "task": 0, "fence": 1 << 40, "checkpoint": "x" * 300})
    golden("external/stored", "it is", "STORED", {"seq": 13, "stored": True})
    golden("external/stored-not", "the fence is another's", "STORED", {"seq": 13, "stored": False})


def variants():
    pack = lambda value: msgpack.packb(value, use_bin_type=True)
    variant("variant-str-keys", "keys and values written as str instead of bin", "RESULT",
            {**RESULT, "ops": {"0": [{"key": "k", "value": "v"}]}, "outputs": [out("k", "v")]},
            pack([6, 1, 1, None, {0: [["k", "v"]]}, [[0, "k", "v", 1700000000000]]]))
    variant("variant-bin-texts", "texts and map keys written as bin", "HELLO", HELLO,
            pack([1, {k.encode(): ([x for x in v] if isinstance(v, list) else v.encode() if isinstance(v, str) else v)
                      for k, v in HELLO.items() if k not in ("inputs", "name")}]))
    variant("variant-long-integers", "integers in longer forms than needed", "EXTEND", {"seq": 1, "done": 2},
            bytes.fromhex("93" "0c" "cf0000000000000001" "d300000000000000" "02"))
    variant("variant-long-lengths", "array 32, bin 32 and map 32 where the short forms would do", "RESULT",
            {**RESULT, "ops": {"0": [{"key": "k", "value": None}]}},
            bytes.fromhex("dd00000006" "06" "01" "01" "c0" "df00000001" "00" "dd00000001" "dc0002" "c6000000016b" "c0" "dd00000000"))
    variant("variant-extra-fields", "further fields everywhere a tuple or a map ends: a later version's", "RESULT",
            {**RESULT, "failure": {"class": "Handler", "error": "E", "message": "m", "retriable": True},
             "ops": {"0": [{"key": "k", "value": "v"}]}, "outputs": [out("k", "v", headers=[{"name": "h", "value": "x"}], partition=1)]},
            pack([6, 1, 1, {"class": "Handler", "error": "E", "message": "m", "retriable": True, "later": [1, {"a": [2.5, None, True]}]},
                  {0: [[b"k", b"v", 9, "later"]]}, [[0, b"k", b"v", 1700000000000, [["h", b"x", 1]], 1, {"later": [1]}]],
                  [], [], msgpack.ExtType(5, b"later"), {"deep": [[[[1]]]]}]))
    variant("variant-extra-batch-fields", "further fields of items and of the batch", "BATCH",
            {**BATCH, "keys": ["k"], "items": [record(0, 0, "v")], "state": {"0": [None]}},
            pack([5, 1, 0, 0, [b"k"], [[0, 0, 0, 1700000000000, 0, b"v", None, 1, None, [1, 2]]], {0: [None]}, None, "later"]))
    variant("variant-unknown-map-keys", "maps with keys of a later version", "WELCOME", WELCOME,
            pack([2, {"later": {"x": [1]}, **WELCOME, "limits": {**LIMITS, "later": 1}}]))
    variant("variant-nil-optionals", "optional fields at the end written as nil", "GET",
            {"seq": 7, "rid": 1, "store": 0, "keys": ["k"], "newOps": {}}, pack([8, 7, 1, 0, [b"k"], None]))
    variant("variant-nil-timers", "timers given as nil", "RESULT", RESULT, pack([6, 1, 1, None, {}, [], None]))
    variant("variant-short-output", "an output without a timestamp field at all", "RESULT",
            {**RESULT, "outputs": [out("k", "v", timestamp=None)]}, pack([6, 1, 1, None, {}, [[0, b"k", b"v"]]]))
    variant("variant-hello-least", "HELLO with nothing but the versions", "HELLO",
            {**HELLO, "sdk": "", "language": "", "version": ""}, pack([1, {"protocol": [1, 1]}]))
    variant("variant-ext-with-data", "\"not sent along\" with data in the extension: ignored", "BATCH",
            {**BATCH, "keys": ["k"], "state": {"0": [{"notPrefetched": True}]}},
            pack([5, 1, 0, 0, [b"k"], [], {0: [msgpack.ExtType(1, b"abcd")]}, None]))


def refused_frames():
    pack = lambda value: msgpack.packb(value, use_bin_type=True)
    refused("refused-length-zero", "an empty frame", "both", b"", "length 0")
    refused("refused-over-cap", "a length of 2^31; nothing follows, nothing may be allocated", "both", b"", "beyond the cap",
            whole=bytes.fromhex("80000000"))
    refused("refused-not-an-array", "a map instead of an array", "both", pack({"kind": 6}), "expected an array")
    refused("refused-empty-array", "no kind", "both", pack([]), "at least 1")
    refused("refused-unused-byte", "0xc1", "both", b"\xc1", "0xc1")
    refused("refused-unknown-kind", "kind 77", "both", pack([77, 1]), "kind 77")
    refused("refused-huge-kind", "a kind beyond 32 bits", "both", pack([2**40, 1]), "kind")
    refused("refused-negative-kind", "kind -1", "both", pack([-1, 1]), "kind")
    refused("refused-trailing-bytes", "bytes after the array", "both", pack([20, 1]) + b"\x00", "follow")
    refused("refused-cut-array", "the array ends early", "both", b"\x92\x14", "left in the frame")
    refused("refused-cut-integer", "an integer is cut off", "both", b"\x92\x14\xcf\x00", "cut off")
    refused("refused-cut-string", "a string longer than the frame", "both", b"\x92\x17\xd9\xffabc", "left in the frame")
    refused("refused-batch-to-sidecar", "a kind of the other direction", "W->S", pack([5, 1, 0, 0, [], [], {}, None]), "never sent to a sidecar")
    refused("refused-result-to-worker", "a kind of the other direction", "S->W", pack([6, 1, 0, None, {}, []]), "never sent to a worker")
    refused("refused-too-few-fields", "RESULT without outputs", "W->S", pack([6, 1, 0, None, {}]), "at least 5")
    refused("refused-negative-seq", "seq -1", "W->S", pack([12, -1, 0]), "seq")
    refused("refused-float-seq", "seq 1.0", "W->S", pack([12, 1.0, 0]), "floating point")
    refused("refused-nil-seq", "seq nil", "W->S", pack([12, None, 0]), "nil")
    refused("refused-done-beyond-32-bits", "done 2^32", "W->S", pack([12, 1, 2**32]), "done")
    refused("refused-key-nil", "an op without a key", "W->S", pack([6, 1, 1, None, {0: [[None, b"v"]]}, []]), "key")
    refused("refused-key-integer", "an op with a number for a key", "W->S", pack([6, 1, 1, None, {0: [[5, b"v"]]}, []]), "the integer 5")
    refused("refused-op-too-short", "an op without a value", "W->S", pack([6, 1, 1, None, {0: [[b"k"]]}, []]), "at least 2")
    refused("refused-repeated-store", "one store twice", "W->S", bytes.fromhex("9606" "01" "01" "c0" "82" "0090" "0090" "90"), "twice")
    refused("refused-repeated-map-key", "parallel twice in HELLO", "W->S",
            b"\x92\x01\x83" + pack("protocol") + pack([1, 1]) + pack("parallel") + pack(1) + pack("parallel") + pack(2), "twice")
    refused("refused-hello-no-versions", "HELLO without protocol", "W->S", pack([1, {"sdk": "x"}]), "protocol")
    refused("refused-hello-range", "minimum above maximum", "W->S", pack([1, {"protocol": [2, 1]}]), "above")
    refused("refused-hello-parallel-0", "no task at once", "W->S", pack([1, {"protocol": [1, 1], "parallel": 0}]), "parallel")
    refused("refused-timers", "a timer whose clock is a text", "W->S", pack([6, 1, 1, None, {}, [], [["set", b"k", "event", "t", 5]]]), "clock")
    refused("refused-output-too-short", "an output without a value", "W->S", pack([6, 1, 1, None, {}, [[0, b"k"]]]), "at least 3")
    refused("refused-negative-partition", "partition -1", "W->S", pack([6, 1, 1, None, {}, [[0, b"k", b"v", 0, None, -1]]]), "partition")
    refused("refused-header-value", "a number as a header's value", "W->S", pack([6, 1, 1, None, {}, [[0, b"k", b"v", 0, [["h", 5]]]]]), "header value")
    refused("refused-array-count", "an array that claims 2^32-1 outputs in a frame of 10 bytes", "W->S",
            bytes.fromhex("9606" "01" "01" "c0" "80" "ddffffffff"), "left in the frame")
    refused("refused-map-count", "a map that claims 2^32-1 stores", "W->S", bytes.fromhex("9606" "01" "01" "c0" "dfffffffff" "90"), "left in the frame")
    refused("refused-deep-nesting", "a further field nested 100 deep", "W->S", b"\x99" + pack([6, 1, 1, None, {}, [], [], []])[1:] + b"\x91" * 100 + b"\xc0", "nested")
    refused("refused-key-index", "an item with a key that is not there", "S->W", pack([5, 1, 0, 0, [b"k"], [[0, 0, 0, 0, 1, b"v", None, 1]], {}, None]), "key index")
    refused("refused-state-count", "state for two keys of three", "S->W", pack([5, 1, 0, 0, [b"a", b"b", b"c"], [], {0: [None, None]}, None]), "values for 3 keys")
    refused("refused-state-ext", "an extension that is not \"not sent along\"", "S->W", pack([5, 1, 0, 0, [b"a"], [], {0: [msgpack.ExtType(2, b"")]}, None]), "extension")
    refused("refused-timer-item", "a timer item whose clock is a text", "S->W", pack([5, 1, 0, 0, [b"k"], [[1, 0, "event", "t", 5, None, None, None]], {}, None]), "timer")
    refused("refused-offset", "an offset beyond 63 bits", "S->W", pack([5, 1, 0, 0, [b"k"], [[0, 0, 2**63, 0, 0, b"v", None, 1]], {}, None]), "offset")
    refused("refused-welcome-no-session", "WELCOME without session", "S->W", pack([2, {"protocol": 1}]), "session")


if __name__ == "__main__":
    for old in HERE.glob("**/*.json"):
        old.unlink()
    good_frames()
    time_frames()
    hook_frames()
    visit_frames()
    external_frames()
    variants()
    refused_frames()
    print(f"{len(names)} frames", file=sys.stderr)
