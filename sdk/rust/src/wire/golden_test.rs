//! The golden frames that every implementation of the protocol reads: decoded, encoded, refused as they say.

use super::batch::{Answer, Batch, Column, Content, Rows, Shape, State};
use super::reader::{read_head, Reader};
use super::welcome::Welcome;
use super::write::{self, Failure, NewOp, Scan};
use super::{kind, ProtocolError, Span, LENGTH_BYTES};
use crate::record::{Header, Headers};
use serde_json::{json, Value};

fn frames() -> Vec<(String, Value)> {
    let frames = frames_in("");
    assert!(frames.len() > 50);
    frames
}

/// The frames in a folder below tests/conformance/frames.
pub(super) fn frames_in(folder: &str) -> Vec<(String, Value)> {
    let folder = format!("{}/../../tests/conformance/frames/{folder}", env!("CARGO_MANIFEST_DIR"));
    let mut frames = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the repository around the package") {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            frames.push((name, serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap()));
        }
    }
    frames
}

pub(super) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

pub(super) fn hex(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn shown(data: Option<&[u8]>) -> Value {
    match data {
        None => Value::Null,
        Some(data) => match std::str::from_utf8(data) {
            Ok(text) => json!(text),
            Err(_) => json!({ "hex": hex(data) }),
        },
    }
}

/// What a session with 8 inputs and stores makes of a frame.
fn decode(frame: &[u8]) -> Result<Value, ProtocolError> {
    let length = u32::from_be_bytes(frame[..LENGTH_BYTES].try_into().unwrap()) as usize;
    let refuse = |message: &str| Err(super::bad_frame(message));
    if length == 0 || length > super::DEFAULT_FRAME_CAP {
        return refuse("length");
    }
    let payload = frame[LENGTH_BYTES..].to_vec();
    let mut reader = Reader::new(&payload);
    let (number, fields) = read_head(&mut reader)?;
    let at = reader.position();
    match number {
        kind::BATCH => {
            let shape = Shape { inputs: 8, tables: vec![Rows::Keys; 8], timers: false, visits: 0 };
            Ok(shown_batch(&Batch::read(payload, at, fields, &shape)?))
        }
        kind::VALUES | kind::ROWS => Ok(shown_answer(&Answer::read(payload, at, fields, number == kind::ROWS)?)),
        kind::WELCOME => {
            let welcome = Welcome::read(&mut reader, fields)?;
            Ok(
                json!({"kind": "WELCOME", "session": welcome.session, "processor": welcome.processor, "stores": welcome.stores.len(),
                "joins": welcome.joins.len(), "deadline": welcome.deadline_ms}),
            )
        }
        kind::OPEN | kind::CLOSE | kind::CANCEL | kind::PING | kind::PONG if fields >= 1 => {
            let number = reader.u64("number")?;
            reader.skip(fields - 1)?;
            reader.end()?;
            Ok(json!(number))
        }
        kind::ERROR if fields >= 2 => {
            Ok(json!({"kind": "ERROR", "code": reader.text("code")?, "message": reader.text("message")?}))
        }
        kind::GOODBYE if fields >= 1 => Ok(json!({"kind": "GOODBYE", "reason": reader.text("reason")?})),
        _ => refuse("kind"),
    }
}

fn shown_batch(batch: &Batch) -> Value {
    let bytes = |span: Option<Span>| shown(span.map(|span| span.of(&batch.payload)));
    let items: Vec<Value> = batch
        .items
        .iter()
        .map(|item| {
            let headers: Vec<Value> = Headers::new(item.headers.map(|span| span.of(&batch.payload)))
                .map(|header| json!({"name": shown(Some(header.name)), "value": shown(header.value)}))
                .collect();
            json!({"input": item.of, "offset": item.offset, "timestamp": item.timestamp, "keyIndex": item.key,
                "value": bytes(item.value), "headers": headers, "attempt": item.attempt})
        })
        .collect();
    let mut state = serde_json::Map::new();
    for (store, values) in batch.state.iter().enumerate() {
        let Some(Column::Values(values)) = values else { continue };
        let values = values.iter().map(|value| match value {
            State::Absent => Value::Null,
            State::Value(span) => bytes(Some(*span)),
            State::NotSent => json!({"notPrefetched": true}),
        });
        state.insert(store.to_string(), values.collect());
    }
    let keys: Vec<Value> = batch.keys.iter().map(|key| bytes(Some(*key))).collect();
    json!({"kind": "BATCH", "seq": batch.seq, "task": batch.task, "flags": batch.flags, "keys": keys, "items": items, "state": state,
        "watermark": batch.watermark})
}

fn shown_answer(answer: &Answer) -> Value {
    let bytes = |span: &Span| shown(Some(span.of(&answer.payload)));
    match &answer.content {
        Content::Values(values) => {
            let values: Vec<Value> = values.iter().map(|value| value.as_ref().map_or(Value::Null, bytes)).collect();
            json!({"kind": "VALUES", "seq": answer.seq, "rid": answer.rid, "values": values, "error": answer.error})
        }
        Content::Rows { rows, cursor } => {
            let rows: Vec<Value> = rows.iter().map(|(key, value)| json!({"key": bytes(key), "value": bytes(value)})).collect();
            json!({"kind": "ROWS", "seq": answer.seq, "rid": answer.rid, "rows": rows, "cursor": cursor.as_ref().map_or(Value::Null, bytes),
                "error": answer.error})
        }
    }
}

fn comes_from_a_sidecar(frame: &Value) -> bool {
    frame["direction"] != "W->S"
}

#[test]
fn frames_that_are_received() {
    let mut tested = 0;
    for (name, frame) in frames().iter().filter(|(_, frame)| comes_from_a_sidecar(frame) && frame.get("message").is_some()) {
        tested += 1;
        let got = decode(&unhex(frame["frame"].as_str().unwrap())).unwrap_or_else(|error| panic!("{name}: {}", error.message));
        let message = &frame["message"];
        match message["kind"].as_str().unwrap() {
            "WELCOME" => {
                assert_eq!((&got["session"], &got["processor"]), (&message["session"], &message["processor"]), "{name}");
                assert_eq!(got["stores"], message["stores"].as_array().unwrap().len(), "{name}");
                assert_eq!(got["joins"], message["joins"].as_array().unwrap().len(), "{name}");
                assert_eq!(got["deadline"], message["limits"]["deadline_ms"], "{name}");
            }
            "OPEN" | "CLOSE" => assert_eq!(got, message["task"], "{name}"),
            "CANCEL" => assert_eq!(got, message["seq"], "{name}"),
            "PING" | "PONG" => assert_eq!(got, message["nonce"], "{name}"),
            _ => assert_eq!(&got, message, "{name}"),
        }
    }
    assert!(tested > 30, "{tested}");
}

#[test]
fn frames_that_are_refused() {
    let mut tested = 0;
    for (name, frame) in frames().iter().filter(|(_, frame)| comes_from_a_sidecar(frame) && frame.get("refused").is_some()) {
        tested += 1;
        let got = decode(&unhex(frame["frame"].as_str().unwrap()));
        assert!(got.is_err(), "{name} was taken ({got:?}); the sidecar says: {}", frame["refused"]);
    }
    assert!(tested > 10, "{tested}");
}

#[test]
fn frames_that_are_cut_anywhere_or_have_a_wrong_byte() {
    for (name, frame) in frames().iter().filter(|(_, frame)| comes_from_a_sidecar(frame) && frame.get("message").is_some()) {
        let whole = unhex(frame["frame"].as_str().unwrap());
        for end in LENGTH_BYTES..whole.len() {
            assert!(decode(&whole[..end]).is_err(), "{name} cut after {end} bytes was taken");
        }
        // Whatever it is then: no panic.
        for at in LENGTH_BYTES..whole.len() {
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut wrong = whole.clone();
                wrong[at] ^= flip;
                let _ = decode(&wrong);
            }
        }
    }
}

pub(super) fn raw(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone().into_bytes()),
        other => Some(unhex(other["hex"].as_str().unwrap())),
    }
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn encode(message: &Value) -> Option<Vec<u8>> {
    let number = |field: &str| message[field].as_u64().unwrap();
    let text = |field: &str| message[field].as_str().unwrap();
    Some(match message["kind"].as_str().unwrap() {
        "EXTEND" => write::extend(number("seq"), number("done")),
        "PING" => write::number(kind::PING, number("nonce")),
        "PONG" => write::number(kind::PONG, number("nonce")),
        "ERROR" => write::texts(kind::ERROR, &[text("code"), text("message")]),
        "GOODBYE" => write::texts(kind::GOODBYE, &[text("reason")]),
        "SCAN" => encode_scan(message),
        "GET" if message["newOps"].as_object().map_or(true, serde_json::Map::is_empty) => {
            let keys: Vec<Vec<u8>> = list(&message["keys"]).iter().map(|key| raw(key).unwrap()).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            write::get(number("seq"), number("rid"), number("store") as usize, &keys)
        }
        "RESULT" => encode_result(message),
        _ => return None, // HELLO: the conformance suite looks at ours. GET with writes: nothing of ours says them there.
    })
}

fn encode_scan(message: &Value) -> Vec<u8> {
    let (from, to, cursor) = (raw(&message["from"]), raw(&message["to"]), raw(&message["cursor"]));
    let mut ops = Vec::new();
    for (store, list) in message["newOps"].as_object().unwrap() {
        for op in list.as_array().unwrap() {
            ops.push((store.parse().unwrap(), raw(&op["key"]).unwrap(), raw(&op["value"]), op["item"].as_u64().unwrap() as u32));
        }
    }
    let new_ops =
        ops.iter().map(|(store, key, value, item)| NewOp { store: *store, key, value: value.as_deref(), item: *item }).collect();
    let number = |field: &str| message[field].as_u64().unwrap();
    let scan = Scan {
        store: number("store") as usize,
        from: from.as_deref(),
        to: to.as_deref(),
        limit: number("limit") as usize,
        reverse: message["reverse"].as_bool().unwrap(),
        cursor: cursor.as_deref(),
        new_ops,
    };
    write::scan(number("seq"), number("rid"), &scan)
}

/// As batches do, from the same pieces.
pub(super) fn encode_result(message: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let (timers, visits) = (list(&message["timers"]), list(&message["visits"]));
    let fields = if !visits.is_empty() { 7 } else { 5 + u32::from(!timers.is_empty()) };
    write::begin_frame(&mut out, kind::RESULT, fields);
    write::put_u64(&mut out, message["seq"].as_u64().unwrap());
    write::put_u64(&mut out, message["done"].as_u64().unwrap());
    let failure = message["failure"].as_object().map(|failure| Failure {
        class: ["Decode", "Handler", "Output"].into_iter().find(|class| failure["class"] == *class).unwrap(),
        error: failure["error"].as_str().unwrap().to_owned(),
        message: failure["message"].as_str().unwrap().to_owned(),
        retriable: failure["retriable"].as_bool().unwrap(),
    });
    write::put_failure(&mut out, failure.as_ref());
    let ops = message["ops"].as_object().unwrap();
    write::put_map(&mut out, ops.len() as u32);
    for (store, list) in ops {
        write::put_u64(&mut out, store.parse().unwrap());
        write::put_array(&mut out, list.as_array().unwrap().len() as u32);
        for op in list.as_array().unwrap() {
            write::put_array(&mut out, 2);
            write::put_maybe(&mut out, raw(&op["key"]).as_deref());
            write::put_maybe(&mut out, raw(&op["value"]).as_deref());
        }
    }
    write::put_array(&mut out, list(&message["outputs"]).len() as u32);
    for output in list(&message["outputs"]) {
        let headers: Vec<_> =
            list(&output["headers"]).iter().map(|header| (raw(&header["name"]).unwrap(), raw(&header["value"]))).collect();
        let headers: Vec<Header<'_>> = headers.iter().map(|(name, value)| Header { name, value: value.as_deref() }).collect();
        let fields = if output["partition"].is_null() { 4 + u32::from(!headers.is_empty()) } else { 6 };
        write::put_array(&mut out, fields);
        write::put_u64(&mut out, output["output"].as_u64().unwrap());
        write::put_maybe(&mut out, raw(&output["key"]).as_deref());
        write::put_maybe(&mut out, raw(&output["value"]).as_deref());
        match output["timestamp"].as_i64() {
            Some(time) => write::put_i64(&mut out, time),
            None => write::put_nil(&mut out),
        }
        if fields > 4 {
            crate::output::put_headers(&mut out, &headers);
        }
        if fields > 5 {
            write::put_i64(&mut out, output["partition"].as_i64().unwrap());
        }
    }
    if fields > 5 {
        write::put_array(&mut out, timers.len() as u32);
    }
    for timer in timers {
        let (key, name) = (raw(&timer["key"]).unwrap(), timer["name"].as_str().unwrap());
        write::put_timer(&mut out, &key, timer["clock"] == 1, name, timer["time"].as_i64());
    }
    if fields > 6 {
        write::put_array(&mut out, visits.len() as u32);
    }
    for visit in visits {
        let number = |field: &str| visit[field].as_u64().unwrap();
        write::put_visit(&mut out, number("visit") as usize, number("what"), raw(&visit["data"]).as_deref());
    }
    write::end_frame(&mut out);
    out
}

#[test]
fn frames_that_are_sent() {
    let mut tested = 0;
    for (name, frame) in frames() {
        if frame.get("message").is_none() || frame["direction"] == "S->W" || frame["canonical"] != true {
            continue;
        }
        let Some(encoded) = encode(&frame["message"]) else { continue };
        tested += 1;
        assert_eq!(hex(&encoded), frame["frame"].as_str().unwrap(), "{name}");
    }
    assert!(tested > 20, "{tested}");
}
