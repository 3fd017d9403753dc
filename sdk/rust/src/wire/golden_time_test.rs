//! The golden frames of windows, sessions, timers and visits.

use super::batch::{Batch, Column, ItemKind, OpenWindow, Rows, Shape, State};
use super::golden_test::{encode_result, frames_in, hex, list, raw, shown, unhex};
use super::reader::{read_head, Reader};
use super::welcome::{VisitPort, Welcome};
use super::{Span, LENGTH_BYTES};
use serde_json::{json, Value};

fn bytes_of(frame: &Value) -> Vec<u8> {
    unhex(frame["frame"].as_str().unwrap())[LENGTH_BYTES..].to_vec()
}

fn state(batch: &Batch, value: &State) -> Value {
    match value {
        State::Absent => Value::Null,
        State::Value(span) => shown(Some(span.of(&batch.payload))),
        State::NotSent => json!({"notPrefetched": true}),
    }
}

fn window(batch: &Batch, window: &OpenWindow, session: bool) -> Value {
    let mut shown = json!({"store": window.table, "start": window.start, "end": window.end});
    if session {
        let parts = &batch.parts[window.parts.0 as usize..window.parts.1 as usize];
        shown["merged"] = parts.iter().map(|(start, end)| json!([start, end])).collect();
    }
    shown
}

fn items(batch: &Batch, tables: &[Rows]) -> Vec<Value> {
    let bytes = |span: Option<Span>| shown(span.map(|span| span.of(&batch.payload)));
    let mut shown_items = Vec::new();
    for item in &batch.items {
        shown_items.push(match item.kind {
            ItemKind::Record => {
                let windows = &batch.windows[item.windows.0 as usize..item.windows.1 as usize];
                let mut record = json!({"input": item.of, "offset": item.offset, "timestamp": item.timestamp, "keyIndex": item.key,
                    "value": bytes(item.value), "headers": [], "attempt": item.attempt});
                if !windows.is_empty() {
                    let sessions = |open: &OpenWindow| tables[open.table as usize].are_sessions();
                    record["windows"] = windows.iter().map(|open| window(batch, open, sessions(open))).collect();
                }
                record
            }
            ItemKind::Timer => json!({"timer": bytes(item.name), "clock": i32::from(item.wall_clock), "keyIndex": item.key,
                "time": item.timestamp, "attempt": item.attempt}),
            ItemKind::Closing => {
                let value = item.value.map_or_else(|| json!({"notPrefetched": true}), |value| bytes(Some(value)));
                json!({"closing": item.of, "keyIndex": item.key, "start": item.offset, "end": item.timestamp + 1, "value": value,
                    "attempt": item.attempt})
            }
            ItemKind::Visit => json!({"visit": item.of, "keyIndex": item.key, "time": item.timestamp, "data": bytes(item.value),
                "attempt": item.attempt}),
            ItemKind::Hook => panic!("no frame has one"),
        });
    }
    shown_items
}

/// The rows of a store in a BATCH, per key.
fn rows(batch: &Batch, rows: &[(u32, i64, i64, State)]) -> Value {
    let mut keys = vec![json!([]); batch.keys.len()];
    for (key, start, end, value) in rows {
        let row = json!({"start": start, "end": end, "value": state(batch, value)});
        keys[*key as usize].as_array_mut().unwrap().push(row);
    }
    Value::Array(keys)
}

#[test]
fn frames_that_are_received() {
    let tables = vec![Rows::Windows { closes: true }, Rows::Sessions { closes: false }];
    let shape = Shape { inputs: 1, tables: tables.clone(), timers: true, visits: 0 };
    let mut tested = 0;
    for (name, frame) in frames_in("time").iter().filter(|(_, frame)| frame["message"]["kind"] == "BATCH") {
        tested += 1;
        let payload = bytes_of(frame);
        let mut reader = Reader::new(&payload);
        let (_, fields) = read_head(&mut reader).unwrap();
        let at = reader.position();
        let batch = Batch::read(payload, at, fields, &shape).unwrap_or_else(|error| panic!("{name}: {}", error.message));
        let message = &frame["message"];
        assert_eq!(Value::Array(items(&batch, &tables)), message["items"], "{name}");
        assert_eq!(json!(batch.watermark), message["watermark"], "{name}");
        for (store, column) in batch.state.iter().enumerate() {
            let expected = &message["state"][store.to_string()];
            match column {
                Some(Column::Rows(found)) => assert_eq!(&rows(&batch, found), expected, "{name}"),
                None => assert!(expected.is_null(), "{name}: the state of store {store} was not read"),
                Some(Column::Values(_)) => panic!("{name}: store {store} has rows"),
            }
        }
    }
    assert_eq!(tested, 3);
}

#[test]
fn welcome() {
    let [(_, frame)] = &frames_in("time").into_iter().filter(|(name, _)| name == "welcome").collect::<Vec<_>>()[..] else {
        panic!("there is one");
    };
    let payload = bytes_of(frame);
    let mut reader = Reader::new(&payload);
    let (_, fields) = read_head(&mut reader).unwrap();
    let welcome = Welcome::read(&mut reader, fields).unwrap();
    assert!(welcome.timers);
    let stores: Vec<_> = welcome.stores.iter().map(|store| (&store.name[..], &store.kind[..], store.closes)).collect();
    assert_eq!(stores, [("minutes", "Window", true), ("visits", "Session", false)]);
}

#[test]
fn frames_that_are_sent() {
    let mut tested = 0;
    for (name, frame) in frames_in("time").iter().filter(|(_, frame)| frame["message"]["kind"] == "RESULT") {
        tested += 1;
        assert!(list(&frame["message"]["timers"]).iter().all(|timer| raw(&timer["key"]).is_some()));
        assert_eq!(hex(&encode_result(&frame["message"])), frame["frame"].as_str().unwrap(), "{name}");
    }
    assert_eq!(tested, 2);
}

#[test]
fn frames_of_visits() {
    let shape = Shape { inputs: 1, tables: vec![Rows::Keys], timers: false, visits: 2 };
    let (mut batches, mut results) = (0, 0);
    for (name, frame) in frames_in("visits") {
        let message = &frame["message"];
        if frame["direction"] == "W->S" {
            if frame["canonical"] == true && message["kind"] == "RESULT" {
                results += 1;
                assert_eq!(hex(&encode_result(message)), frame["frame"].as_str().unwrap(), "{name}");
            }
            continue;
        }
        let payload = bytes_of(&frame);
        let mut reader = Reader::new(&payload);
        let (_, fields) = read_head(&mut reader).unwrap();
        let at = reader.position();
        if message["kind"] == "WELCOME" {
            let port = |name: &str| VisitPort { name: name.to_owned(), store: 0 };
            assert_eq!(Welcome::read(&mut reader, fields).unwrap().visits, [port("interest"), port("audit")]);
            continue;
        }
        let read = |payload: &[u8], shape: &Shape| Batch::read(payload.to_vec(), at, fields, shape);
        if message.is_null() {
            assert!(read(&payload, &shape).is_err(), "{name}: {}", frame["refused"]);
            continue;
        }
        batches += 1;
        let batch = read(&payload, &shape).unwrap_or_else(|error| panic!("{name}: {}", error.message));
        assert_eq!(Value::Array(items(&batch, &shape.tables)), message["items"], "{name}");
        assert!(read(&payload, &Shape { visits: 0, ..shape.clone() }).is_err(), "{name} where none was declared");
        for end in at..payload.len() {
            assert!(read(&payload[..end], &shape).is_err(), "{name} cut after {end} bytes was taken");
        }
    }
    assert!(batches > 1 && results > 0, "{batches} {results}");
}
