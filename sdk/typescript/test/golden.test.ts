// The golden frames that every implementation of the protocol reads: decoded, encoded, refused as they say.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { ProtocolError } from "millstream";
import { CLOSING, RECORD, TIMER, VISIT, readBatch, readCommitted, readHook, type BatchFrame, type Item, type Row, type Shape } from "../src/batch_frame.js";
import { FrameCutter } from "../src/frames.js";
import { NOT_PREFETCHED, Reader, type Prefetched } from "../src/msgpack.js";
import { windowRow } from "../src/row_keys.js";
import { readWelcome } from "../src/welcome.js";
import { DEFAULT_FRAME_CAP, Kind, errorFrame, extendFrame, goodbyeFrame, numberFrame } from "../src/wire.js";

const FOLDER = new URL(`file://${process.env["MILLSTREAM_SDK_TYPESCRIPT"] ?? process.cwd()}/../../tests/conformance/frames/`);
interface Golden {
  direction: string;
  canonical?: boolean;
  message?: { kind: string; [field: string]: unknown };
  refused?: string;
  frame: string;
}
// Integers beyond 2^53 as bigint: JSON.parse would round them.
const parse = (text: string): Golden =>
  JSON.parse(text.replace(/([:[]\s*)(-?\d{16,})(?=\s*[,\]}\n])/g, '$1"big:$2"'), (_, value) =>
    typeof value === "string" && value.startsWith("big:") ? BigInt(value.slice(4)) : value);
const framesOf = (folder: URL): Map<string, Golden> => new Map(readdirSync(folder).filter((name) => name.endsWith(".json"))
  .map((name) => [name.slice(0, -5), parse(readFileSync(new URL(name, folder), "utf8"))]));
const FRAMES = framesOf(FOLDER);
const TIME_FRAMES = framesOf(new URL("time/", FOLDER));
const HOOK_FRAMES = framesOf(new URL("hooks/", FOLDER));
const VISIT_FRAMES = framesOf(new URL("visits/", FOLDER));
const keyed = { kind: "KeyValue", final: false } as const;
const PLAIN: Shape = { inputs: 8, tables: new Array<typeof keyed>(8).fill(keyed), timers: false, visits: 0, windowed: false };
const VISITED: Shape = { ...PLAIN, visits: 2 };
const TIMED: Shape = { inputs: 1, tables: [{ kind: "Window", final: true }, { kind: "Session", final: false }], timers: true, visits: 0, windowed: true };

function payloadOf(golden: Golden): Buffer {
  const cutter = new FrameCutter(DEFAULT_FRAME_CAP);
  // In pieces, as a socket may give them.
  const data = Buffer.from(golden.frame, "hex");
  for (let at = 0; at < data.length; at += 3) cutter.add(data.subarray(at, at + 3));
  const payload = cutter.next();
  assert.ok(payload !== undefined);
  return payload;
}

function shown(data: Uint8Array | string | null | undefined): unknown {
  if (data === null || data === undefined || typeof data === "string") return data ?? null;
  const text = Buffer.from(data).toString("utf8");
  return Buffer.from(text).equals(Buffer.from(data)) ? text : { hex: Buffer.from(data).toString("hex") };
}

const shownState = (value: Prefetched): unknown => (value === NOT_PREFETCHED ? { notPrefetched: true } : shown(value as Buffer | null));
const shownRow = ({ start, end, value }: Row): unknown => ({ start, end, value: shownState(value) });

function shownItem(item: Item): unknown {
  const { key, timestamp, attempt } = item;
  if (item.kind === TIMER) return { timer: item.name, clock: item.clock, keyIndex: key, time: timestamp, attempt };
  if (item.kind === CLOSING) {
    const { start, end } = item.windows![0]!;
    return { closing: item.store, keyIndex: key, start, end, value: shownState(item.value), attempt };
  }
  if (item.kind === VISIT) return { visit: item.visit, keyIndex: key < 0 ? null : key, time: timestamp, data: shown(item.data), attempt };
  assert.equal(item.kind, RECORD);
  if (item.kind !== RECORD) return undefined;
  const windows = item.windows?.map(({ store, start, end, parts }) =>
    ({ store, start, end, ...(parts && { merged: parts.map((part) => [part.start, part.end]) }) }));
  return {
    input: item.input, offset: item.offset, timestamp, keyIndex: key < 0 ? null : key, value: shown(item.value),
    headers: item.headers.map(([name, value]) => ({ name: shown(name), value: shown(value) })), attempt, ...(windows && { windows }),
  };
}

function shownBatch(b: BatchFrame): unknown {
  const state = Object.fromEntries(b.state.flatMap((column, store) =>
    column === undefined ? [] : [[String(store), column.rows?.map((rows) => rows.map(shownRow)) ?? column.values!.map(shownState)]]));
  return { kind: "BATCH", seq: b.seq, task: b.task, flags: b.flags, keys: b.keys.map(shown), items: b.items.map(shownItem), state, watermark: b.watermark ?? null };
}

function read(payload: Buffer, shape = PLAIN): unknown {
  const r = new Reader(payload);
  const fields = r.fields("frame", 1) - 1;
  const kind = r.index("kind", 0xffff);
  if (kind === Kind.BATCH) {
    const batch = readBatch(r, fields, shape);
    r.end();
    return shownBatch(batch);
  }
  if (kind === Kind.WELCOME) {
    const welcome = readWelcome(r);
    r.skip(fields - 1);
    r.end();
    return welcome;
  }
  if (kind === Kind.BEGIN || kind === Kind.FINALIZE) {
    const [seq, task] = readHook(r, fields);
    return { kind: kind === Kind.BEGIN ? "BEGIN" : "FINALIZE", seq, task };
  }
  if (kind === Kind.COMMITTED) return { kind: "COMMITTED", tasks: readCommitted(r, fields) };
  const known: number[] = [Kind.OPEN, Kind.CLOSE, Kind.CANCEL, Kind.VALUES, Kind.ROWS, Kind.PING, Kind.PONG, Kind.ERROR, Kind.GOODBYE];
  if (!known.includes(kind)) throw new ProtocolError(`unexpected ${kind}`);
  r.skip(fields);
  r.end();
  return undefined;
}

test("frames that are received", () => {
  let batches = 0;
  for (const [name, golden] of FRAMES) {
    if (golden.message === undefined || golden.direction === "W->S") continue;
    const got = read(payloadOf(golden));
    if (golden.message.kind !== "BATCH") continue;
    batches += 1;
    const want = JSON.parse(JSON.stringify(golden.message, (_, value) => (typeof value === "bigint" ? `big:${value}` : value)), (key, value) => {
      if (typeof value !== "string" || !value.startsWith("big:")) return value;
      const exact = BigInt(value.slice(4));
      return key === "timestamp" || exact <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(exact) : exact;
    });
    assert.deepEqual(got, want, name);
  }
  assert.ok(batches > 5);
});

test("frames about time", () => {
  for (const [name, golden] of TIME_FRAMES) {
    if (golden.direction === "W->S") continue;
    const got = read(payloadOf(golden), TIMED);
    if (golden.message!.kind === "BATCH") assert.deepEqual(got, golden.message, name);
    else assert.equal(golden.message!.kind, "WELCOME");
  }
  const { stores, timers } = read(payloadOf(TIME_FRAMES.get("welcome")!)) as ReturnType<typeof readWelcome>;
  assert.deepEqual(stores.map(({ type, size, advance, final }) => [type, size, advance, final]), [["Window", 60_000, 10_000, true], ["Session", 0, 0, false]]);
  assert.equal(timers, true);
  const row = (TIME_FRAMES.get("result-row-keys")!.message as unknown as { ops: { [store: string]: { key: { hex: string } }[] } }).ops["0"]![0]!.key.hex;
  assert.equal(windowRow(Buffer.from("k"), 1_700_000_000_000).toString("hex"), row);
  for (const [name, golden] of TIME_FRAMES) {
    if (golden.direction === "W->S" || golden.message!.kind !== "BATCH") continue;
    assert.throws(() => read(payloadOf(golden)), ProtocolError, `${name} where none of it was declared`);
    const payload = payloadOf(golden);
    for (let cut = 0; cut < payload.length; ++cut) assert.throws(() => read(payload.subarray(0, cut), TIMED), ProtocolError, `${name} at ${cut}`);
  }
});

test("frames of visits", () => {
  let batches = 0;
  for (const [name, golden] of VISIT_FRAMES) {
    if (golden.direction === "W->S") continue;
    const payload = payloadOf(golden);
    if (golden.refused !== undefined) {
      assert.throws(() => read(payload, VISITED), ProtocolError, `${name}: ${golden.refused}`);
      continue;
    }
    const got = read(payload, VISITED);
    if (golden.message!.kind !== "BATCH") {
      assert.deepEqual((got as ReturnType<typeof readWelcome>).visits, golden.message!["visits"], name);
      continue;
    }
    batches += 1;
    assert.deepEqual(got, golden.message, name);
    assert.throws(() => read(payload), ProtocolError, `${name} where none was declared`);
    for (let cut = 0; cut < payload.length; ++cut) assert.throws(() => read(payload.subarray(0, cut), VISITED), ProtocolError, `${name} at ${cut}`);
  }
  assert.ok(batches > 1);
});

test("frames of hooks", () => {
  assert.equal(HOOK_FRAMES.size, 4);
  for (const [name, golden] of HOOK_FRAMES) {
    const payload = payloadOf(golden);
    assert.deepEqual(read(payload), golden.message, name);
    for (let cut = 0; cut < payload.length; ++cut) assert.throws(() => read(payload.subarray(0, cut)), ProtocolError, `${name} at ${cut}`);
  }
});

test("frames that are refused", () => {
  let refused = 0;
  for (const [name, golden] of FRAMES) {
    if (golden.refused === undefined || golden.direction === "W->S") continue;
    refused += 1;
    assert.throws(() => read(payloadOf(golden)), ProtocolError, `${name}: ${golden.refused}`);
  }
  assert.ok(refused > 10);
});

test("frames that are sent", () => {
  let sent = 0;
  for (const [name, { message, direction, canonical, frame }] of FRAMES) {
    if (message === undefined || direction === "S->W" || !canonical) continue;
    const m = message as unknown as { [field: string]: never };
    const encoded = message.kind === "EXTEND" ? extendFrame(m["seq"]!, m["done"]!)
      : message.kind === "PING" ? numberFrame(Kind.PING, m["nonce"]!)
      : message.kind === "PONG" ? numberFrame(Kind.PONG, m["nonce"]!)
      : message.kind === "ERROR" ? errorFrame(m["code"]!, m["message"]!)
      : message.kind === "GOODBYE" ? goodbyeFrame(m["reason"]!) : undefined;
    if (encoded === undefined) continue; // the rest of ours is looked at by the conformance suite
    sent += 1;
    assert.equal(encoded.toString("hex"), frame, name);
  }
  assert.ok(sent > 10);
});

test("frames that are cut anywhere", () => {
  for (const [name, golden] of FRAMES) {
    if (golden.message === undefined || golden.direction === "W->S") continue;
    const payload = payloadOf(golden);
    for (let cut = 0; cut < payload.length; ++cut) assert.throws(() => read(payload.subarray(0, cut)), ProtocolError, `${name} at ${cut}`);
  }
});

test("frames with a wrong byte are read or refused, nothing else", () => {
  const all = [...FRAMES].map(([name, golden]) => [name, golden, PLAIN] as const);
  const timed = [...TIME_FRAMES].map(([name, golden]) => [name, golden, TIMED] as const);
  const hooks = [...HOOK_FRAMES].map(([name, golden]) => [name, golden, PLAIN] as const);
  const visits = [...VISIT_FRAMES].map(([name, golden]) => [name, golden, VISITED] as const);
  for (const [name, golden, shape] of [...all, ...timed, ...hooks, ...visits]) {
    if (golden.message === undefined || golden.direction === "W->S") continue;
    const payload = payloadOf(golden);
    for (let at = 0; at < Math.min(payload.length, 1024); ++at) {
      for (const byte of [0x00, 0x7f, 0x80, 0x91, 0xa1, 0xc0, 0xc1, 0xc4, 0xc7, 0xca, 0xcf, 0xd3, 0xd4, 0xdc, 0xde, 0xff]) {
        const wrong = Buffer.from(payload);
        wrong[at] = byte;
        try {
          read(wrong, shape);
        } catch (error) {
          assert.ok(error instanceof ProtocolError, `${name} at ${at}, ${byte}: ${(error as Error).stack}`);
        }
      }
    }
  }
});
