"""The golden frames that every implementation of the protocol reads: decoded, encoded, refused as they say."""

import json
import pathlib

import pytest

import millstream
from millstream import messages
from millstream.batch import Batch
from millstream.errors import MillstreamError
from millstream.record import Record
from millstream.schema import Declarations, Schema

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests" / "conformance" / "frames"
FRAMES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
RECEIVED = {n: f for n, f in FRAMES.items() if "message" in f and f["direction"] != "W->S"}
# Not: HELLO (a plain map; test_handshake looks at ours), GET with new writes (this SDK tells them with SCAN only, since GET
# asks for keys that it did not write).
SENT = {
    n: f for n, f in FRAMES.items() if "message" in f and f["direction"] != "S->W" and f["canonical"]
    and f["message"]["kind"] != "HELLO" and not (f["message"]["kind"] == "GET" and f["message"]["newOps"])
}
REFUSED = {n: f for n, f in FRAMES.items() if "refused" in f and f["direction"] != "W->S"}


def test_there_are_frames():
    assert RECEIVED and SENT and REFUSED


def shown(data):
    if data is None:
        return None
    data = messages.as_bytes(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def raw(shown_bytes):
    if shown_bytes is None:
        return None
    return bytes.fromhex(shown_bytes["hex"]) if isinstance(shown_bytes, dict) else shown_bytes.encode()


def schema_for(frame):
    """One with as many inputs and stores as the frame speaks of."""
    app = millstream.App()
    inputs = 1 + max([item["input"] for item in frame.get("items", ())], default=0)
    stores = 1 + max([int(id) for id in frame.get("state", ())], default=0)
    for number in range(inputs):
        app.on(f"i{number}")(lambda ctx, record: None)
    return Schema.from_welcome({
        "protocol": 1, "session": 1, "processor": "p", "inputs": [{"name": f"i{n}"} for n in range(inputs)], "outputs": [],
        "stores": [{"name": f"s{n}"} for n in range(stores)],
    }, app._declared)


def payload_of(frame, cap=16 << 20):
    data = bytes.fromhex(frame["frame"])
    length = messages.frame_length(data[:4], cap)
    assert len(data) - 4 >= length
    return data[4 : 4 + length]


def batch_shown(decoded, wanted):
    batch = Batch(decoded, schema_for(wanted), None)
    records = [
        Record(item, None if item[4] is None else batch.keys[item[4]], batch.task, batch.schema.inputs[item[1]])
        for item in batch.items
    ]
    return {
        "kind": "BATCH", "seq": batch.seq, "task": batch.task, "flags": decoded[3], "keys": [shown(key) for key in batch.keys],
        "items": [
            {"input": item[1], "offset": record.offset, "timestamp": record.timestamp, "keyIndex": item[4],
             "value": shown(record.raw_value),
             "headers": [{"name": shown(name), "value": shown(value)} for name, value in record.headers], "attempt": record.attempt}
            for item, record in zip(batch.items, records)
        ],
        "state": {
            str(cells.port.id): [
                {"notPrefetched": True} if value is messages.NOT_PREFETCHED else shown(value) for value in cells.prefetched
            ]
            for cells in batch.cells if cells.prefetched is not None
        },
        "watermark": batch.watermark,
    }


def received_shown(decoded, wanted):
    kind, *fields = decoded
    fields += [None] * 8
    name = messages.NAMES[kind]
    if name == "BATCH":
        return batch_shown(decoded, wanted)
    if name in ("OPEN", "CLOSE"):
        return {"kind": name, "task": fields[0]}
    if name == "CANCEL":
        return {"kind": name, "seq": fields[0]}
    if name in ("PING", "PONG"):
        return {"kind": name, "nonce": fields[0]}
    if name == "ERROR":
        return {"kind": name, "code": fields[0], "message": fields[1]}
    if name == "GOODBYE":
        return {"kind": name, "reason": fields[0]}
    if name == "VALUES":
        return {"kind": name, "seq": fields[0], "rid": fields[1], "values": [shown(value) for value in fields[2]],
                "error": fields[3]}
    assert name == "ROWS"
    return {"kind": name, "seq": fields[0], "rid": fields[1],
            "rows": [{"key": shown(key), "value": shown(value)} for key, value, *_ in fields[2]],
            "cursor": shown(fields[3]), "error": fields[4]}


@pytest.mark.parametrize("name", [n for n, f in RECEIVED.items() if f["message"]["kind"] != "WELCOME"])
def test_received(name):
    wanted = RECEIVED[name]["message"]
    got = received_shown(messages.decode(payload_of(RECEIVED[name])), wanted)
    assert {key: got[key] for key in wanted} == wanted


@pytest.mark.parametrize("name", [n for n, f in RECEIVED.items() if f["message"]["kind"] == "WELCOME"])
def test_received_welcome(name):
    wanted = RECEIVED[name]["message"]
    declared = Declarations(millstream.STR, millstream.JSON)
    app = millstream.App()
    for entry in wanted["inputs"]:
        app.on(entry["name"])(lambda ctx, record: None)
    declared.handlers = app._declared.handlers
    unbuilt = [s for s in wanted["stores"] if s["type"] != "KeyValue"]
    fields = messages.decode(payload_of(RECEIVED[name]))[1]
    if unbuilt or wanted["protocol"] != 1:
        with pytest.raises(millstream.ConfigError):
            Schema.from_welcome(fields, declared)
        fields = {**fields, "protocol": 1,
                  "stores": [{**store, "type": "KeyValue"} for store in fields["stores"]]}
    schema = Schema.from_welcome(fields, declared)
    assert [(p.name, p.topic) for p in schema.inputs] == [(e["name"], e["topic"]) for e in wanted["inputs"]]
    assert [p.name for p in schema.outputs] == [e["name"] for e in wanted["outputs"]]
    assert [p.name for p in schema.stores] == [e["name"] for e in wanted["stores"]]
    assert [p.name for p in schema.readable] == [e["name"] for e in wanted["stores"] + wanted["joins"] + wanted["lookups"]]
    assert [p.id for p in schema.readable] == list(range(len(schema.readable)))
    assert (schema.session, schema.processor) == (wanted["session"], wanted["processor"])


def ops_of(message, what, with_item):
    return {
        int(store): [(raw(op["key"]), raw(op["value"]), op["item"]) if with_item else (raw(op["key"]), raw(op["value"]))
                     for op in ops]
        for store, ops in (message.get(what) or {}).items()
    }


def frame_sent(message):
    kind = message["kind"]
    if kind == "RESULT":
        failure = message["failure"]
        outputs = [
            messages.output_row(o["output"], raw(o["key"]), raw(o["value"]), o["timestamp"],
                                [(raw(h["name"]).decode(), raw(h["value"])) for h in o["headers"]], o["partition"])
            for o in message["outputs"]
        ]
        return messages.result_frame(message["seq"], message["done"], failure, ops_of(message, "ops", False), outputs)
    if kind == "GET":
        return messages.get_frame(message["seq"], message["rid"], message["store"], [raw(key) for key in message["keys"]])
    if kind == "SCAN":
        return messages.scan_frame(message["seq"], message["rid"], message["store"], raw(message["from"]), raw(message["to"]),
                                   message["limit"], message["reverse"], raw(message["cursor"]),
                                   ops_of(message, "newOps", True))
    fields = {"EXTEND": ("seq", "done"), "PING": ("nonce",), "PONG": ("nonce",), "ERROR": ("code", "message"),
              "GOODBYE": ("reason",)}[kind]
    return [getattr(messages, kind), *(message[field] for field in fields)]


@pytest.mark.parametrize("name", SENT)
def test_sent(name):
    payload = messages.Encoder().payload(frame_sent(SENT[name]["message"]))
    assert (messages.Encoder.prefix(payload) + payload).hex() == SENT[name]["frame"]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    frame = REFUSED[name]
    with pytest.raises((MillstreamError, AssertionError)):
        decoded = messages.decode(payload_of(frame))
        if decoded[0] == messages.WELCOME:
            Schema.from_welcome(decoded[1], Declarations(millstream.STR, millstream.JSON))
        else:
            Batch(decoded, schema_for({"items": [{"input": 3}], "state": {"3": []}}), None)
