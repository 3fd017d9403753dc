/**
 * A test kit: feed records to an App, look at state and outputs. No sidecar needed.
 *
 * ```ts
 * const kit = new TestKit(app, { stores: ["counts"], outputs: ["word-counts"] });
 * await kit.feed("words", { key: "anna" });
 * assert.equal(kit.state(counts, "anna"), 1);
 * assert.deepEqual(kit.outputs(totals).map((o) => o.value), [1]);
 * ```
 *
 * The records go through the same code as in production, as frames of the worker protocol: codecs, limits, the prefix rule,
 * reads of own writes. What it does not imitate: retries with backoff, partitions (a kit is one task), and the log itself.
 *
 * @packageDocumentation
 */
import type { App } from "./app.js";
import { BatchRun, type Link, type ScanPage } from "./batch.js";
import type { Codec } from "./codecs.js";
import { textToBytes } from "./codecs.js";
import { ConfigError, MillstreamError, listed } from "./errors.js";
import type { EmitOptions, Output } from "./output.js";
import { Schema } from "./schema.js";
import type { Store } from "./store.js";
import { DEFAULT_FRAME_CAP, Kind, LENGTH_BYTES, Reader, Writer, readBatch, readHeaders, type Failure, type Header, type Port, type ScanRequest } from "./wire.js";

const START = 1_700_000_000_000;
const MAX_BYTES = 1 << 20;
/** Rows per page of a scan: few, so that tests meet paging. */
const PAGE = 3;

/** Names what a manifest would declare; inputs are those with handlers. */
export interface TestSetup {
  stores?: readonly string[];
  outputs?: readonly string[];
  task?: number;
  /** false makes every read of state a question to the sidecar, as for values too large to travel along. */
  prefetch?: boolean;
}

/** Key and value go through the input's codecs; `Uint8Array`s are taken as they are, so that a test can feed what is not valid. */
export interface TestRecord {
  key?: unknown;
  value?: unknown;
  headers?: EmitOptions["headers"];
  /** Default: `now` of the kit. */
  timestamp?: number;
}

/** A record the program emitted. */
export interface Emitted<K = unknown, V = unknown> {
  key: K | null;
  value: V | null;
  rawKey: Buffer | null;
  rawValue: Buffer | null;
  headers: Header[];
  timestamp: number | null;
  partition: number | null;
}

/** Thrown by feed() when a handler failed: what the sidecar would be told. What came before in the batch is kept. */
export class RecordFailed extends MillstreamError {
  constructor(readonly input: string, readonly offset: number, readonly failure: Failure) {
    super(`${failure.class} failure of "${input}" offset ${offset}: ${failure.message}`);
  }
}

/** One task of a processor in memory. */
export class TestKit {
  /** The timestamp of records that are fed without one, in milliseconds since 1970. */
  now = START;
  private readonly schema: Schema;
  private readonly rows: Map<string, Buffer>[];
  private readonly emitted: Emitted[][];
  private readonly offsets: number[];
  private seq = 0;

  constructor(app: App, private readonly setup: TestSetup = {}) {
    const ports = (names: readonly string[]): Port[] => names.map((name) => ({ name, topic: name, type: "KeyValue", max: MAX_BYTES }));
    this.schema = new Schema({
      version: 1, session: 1, processor: "test", inputs: ports(app.inputs), outputs: ports(setup.outputs ?? []), stores: ports(setup.stores ?? []),
      joins: [], lookups: [], frameCap: DEFAULT_FRAME_CAP, deadline: 60_000, minTimestamp: 0, maxTimestamp: 253_402_300_799_999,
    }, app);
    this.rows = this.schema.stores.map(() => new Map());
    this.emitted = this.schema.outputs.map(() => []);
    this.offsets = this.schema.inputs.map(() => 0);
  }

  /** Records of one input as one batch. Rejects with RecordFailed. */
  async feed(input: string, ...records: TestRecord[]): Promise<void> {
    const id = this.schema.inputs.findIndex((port) => port.name === input);
    if (id < 0) throw new ConfigError(`no input "${input}"; inputs: ${listed(this.schema.inputs.map((port) => port.name))}`);
    for (let left = records; left.length > 0; ) {
      const link = new KitLink(this.rows);
      const payload = new Reader(this.batch(id, left));
      const fields = payload.fields("frame", 1) - 1;
      payload.int("kind");
      const run = new BatchRun(this.schema, link, readBatch(payload, fields, this.rows.length, this.schema.inputs.length));
      const { done, failure } = this.apply(new Reader((await run.run()).subarray(LENGTH_BYTES)));
      this.offsets[id]! += done + (failure === undefined ? 0 : 1);
      if (failure !== undefined) throw new RecordFailed(input, this.offsets[id]! - 1, failure);
      left = left.slice(done); // all, or as many as fit one RESULT
    }
  }

  /** The committed value of a key, undefined if there is none. */
  state<K, V>(store: Store<K, V>, key: K): V | undefined {
    const { codecs } = store as unknown as Coded<K, V>;
    const raw = this.rowsOf(store.name).get(latin1(codecs.key.encode(key)));
    return raw === undefined ? undefined : codecs.value.decode(raw);
  }

  /** Prepares a test. */
  setState<K, V>(store: Store<K, V>, key: K, value: V): void {
    const { codecs } = store as unknown as Coded<K, V>;
    this.rowsOf(store.name).set(latin1(codecs.key.encode(key)), Buffer.from(codecs.value.encode(value)));
  }

  /** What was emitted to an output so far, in order, decoded by its codecs. */
  outputs<K, V>(output: Output<K, V>): Emitted<K, V>[] {
    const id = this.schema.outputIds.get(output.name);
    if (id === undefined) throw new ConfigError(`no output "${output.name}"; outputs: ${listed(this.schema.outputIds.keys())}`);
    const { codecs } = output as unknown as Coded<K, V>;
    return this.emitted[id]!.map((one) => ({
      ...one,
      key: one.rawKey === null ? null : codecs.key.decode(one.rawKey),
      value: one.rawValue === null ? null : codecs.value.decode(one.rawValue),
    }));
  }

  private rowsOf(store: string): Map<string, Buffer> {
    const id = this.schema.storeIds.get(store);
    if (id === undefined) throw new ConfigError(`no store "${store}"; stores: ${listed(this.schema.storeIds.keys())}`);
    return this.rows[id]!;
  }

  // What a sidecar would send.
  private batch(input: number, records: readonly TestRecord[]): Buffer {
    const { key: keyCodec, value: valueCodec } = this.schema.inputs[input]!.registered;
    const keys = new Map<string, { place: number; raw: Uint8Array }>();
    const items = new Writer();
    records.forEach((record, n) => {
      const key = encoded(keyCodec, record.key);
      items.list(8).int(0).int(input).int(this.offsets[input]! + n).int(record.timestamp ?? this.now);
      if (key === null) {
        items.nil();
      } else {
        const known = keys.get(latin1(key)) ?? { place: keys.size, raw: key };
        keys.set(latin1(key), known);
        items.int(known.place);
      }
      items.maybeBin(encoded(valueCodec, record.value));
      const headers = record.headers ?? [];
      items.list(headers.length);
      for (const [name, value] of headers) {
        items.list(2).bin(typeof name === "string" ? textToBytes(name) : name).maybeBin(typeof value === "string" ? textToBytes(value) : value);
      }
      items.int(1);
    });
    const w = new Writer(1024).list(8).int(Kind.BATCH).int(++this.seq).int(this.setup.task ?? 0).int(0).list(keys.size);
    for (const { raw } of keys.values()) w.bin(raw);
    w.list(records.length).raw(items.bytes);
    const stores = this.setup.prefetch === false ? [] : this.rows;
    w.map(stores.length);
    stores.forEach((rows, id) => {
      w.int(id).list(keys.size);
      for (const key of keys.keys()) w.maybeBin(rows.get(key) ?? null);
    });
    return w.nil().bytes;
  }

  // Reads a RESULT as a sidecar would.
  private apply(r: Reader): { done: number; failure: Failure | undefined } {
    r.fields("RESULT", 6);
    r.int("kind");
    r.int("seq");
    const done = r.number("done");
    const failure = r.nil() ? undefined : readFailure(r);
    for (let stores = r.map("ops"); stores > 0; --stores) {
      const rows = this.rows[r.number("store")]!;
      for (let ops = r.list("ops"); ops > 0; --ops) {
        r.fields("op", 2);
        const key = latin1(r.bytes("key"));
        const value = r.maybeBytes("value");
        if (value === null) rows.delete(key);
        else rows.set(key, value);
      }
    }
    for (let count = r.list("outputs"); count > 0; --count) {
      const fields = r.fields("output", 4);
      const id = r.number("output");
      const [rawKey, rawValue] = [r.maybeBytes("key"), r.maybeBytes("value")];
      const timestamp = r.nil() ? null : r.number("timestamp");
      const headers = fields > 4 && !r.nil() ? readHeaders(r) : [];
      const partition = fields > 5 && !r.nil() ? r.number("partition") : null;
      this.emitted[id]!.push({ key: null, value: null, rawKey, rawValue, headers, timestamp, partition });
    }
    r.end();
    return { done, failure };
  }
}

interface Coded<K, V> {
  codecs: { key: Codec<K>; value: Codec<V> };
}

function readFailure(r: Reader): Failure {
  const failure: Failure = { class: "Handler", error: "", message: "", retriable: true };
  for (let fields = r.map("failure"); fields > 0; --fields) {
    const field = r.text("failure") as keyof Failure;
    if (field === "retriable") failure.retriable = r.bool(field);
    else failure[field] = r.text(field) as never;
  }
  return failure;
}

function encoded(codec: Codec<unknown>, value: unknown): Uint8Array | null {
  if (value === null || value === undefined) return null;
  return value instanceof Uint8Array ? value : codec.encode(value);
}

function latin1(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.length).toString("latin1");
}

/** Answers from committed state and the batch's own writes. */
class KitLink implements Link {
  private readonly scratch: Map<string, Uint8Array | null>[];
  constructor(private readonly rows: readonly Map<string, Buffer>[]) {
    this.scratch = rows.map(() => new Map());
  }

  async get(_: BatchRun, store: number, keys: readonly Uint8Array[]): Promise<(Buffer | null)[]> {
    return keys.map((key) => this.rows[store]!.get(latin1(key)) ?? null);
  }

  async scan(_: BatchRun, request: ScanRequest): Promise<ScanPage> {
    for (const [store, ops] of request.newOps) for (const op of ops) this.scratch[store]!.set(latin1(op.key), op.value);
    const merged = new Map<string, Uint8Array | null>([...this.rows[request.store]!, ...this.scratch[request.store]!]);
    const [from, to, cursor] = [request.from, request.to, request.cursor].map((bound) => (bound === null ? null : latin1(bound)));
    const found = [...merged]
      .filter(([key, value]) => value !== null && (from == null || key >= from) && (to == null || key < to))
      .filter(([key]) => cursor == null || (request.reverse ? key < cursor : key > cursor))
      .sort(([a], [b]) => (a < b ? -1 : 1));
    if (request.reverse) found.reverse();
    const page = found.slice(0, request.limit > 0 ? Math.min(request.limit, PAGE) : PAGE);
    return {
      rows: page.map(([key, value]) => [Buffer.from(key, "latin1"), Buffer.from(value!)]),
      cursor: found.length > page.length ? Buffer.from(page.at(-1)![0], "latin1") : null,
    };
  }

  /** Nobody waits in a kit. */
  extend(): void {}
}
