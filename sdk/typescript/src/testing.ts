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
 * reads of own writes, windows, sessions, timers, visits, hooks. Event time is that of the records fed; timers of the wall clock follow
 * {@link TestKit.advance}. What becomes due is handled before feed() resolves, and so are all rows of a visit
 * that is started. What it does not imitate: retries with backoff,
 * partitions (a kit is one task), `timestamps.maxAhead`, and the log itself.
 *
 * @packageDocumentation
 */
import type { App, Codecs } from "./app.js";
import { BatchRun, type Link, type ScanPage } from "./batch.js";
import { CLOSING, EVENT_TIME, RECORD, TIMER, VISIT, hookBatch, readBatch, readHeaders, type BatchFrame, type OpenWindow, type TableKind } from "./batch_frame.js";
import type { Codec } from "./codecs.js";
import { textToBytes } from "./codecs.js";
import { ConfigError, MillstreamError, listed } from "./errors.js";
import type { GatheredValues, Hook } from "./hooks.js";
import { Reader, Writer, type Header } from "./msgpack.js";
import type { EmitOptions, Output } from "./output.js";
import { LOOP, Schema, capabilitiesOf } from "./schema.js";
import type { Table } from "./table.js";
import { KitTime, latin1, storePort, type DueItem, type PendingTimer, type TestStore } from "./testing_time.js";
import { KitVisits, type TestVisit, type VisitedItem } from "./testing_visits.js";
import { START, type Visit } from "./visit.js";
import { emptyWelcome, portOf, type Port } from "./welcome.js";
import type { SessionStore, WindowStore } from "./window.js";
import { Kind, LENGTH_BYTES, MAX_VERSION, type Failure, type ScanRequest } from "./wire.js";

export type { PendingTimer, SessionRules, TestStore, WindowRules } from "./testing_time.js";
export type { TestVisit } from "./testing_visits.js";
export type { Failure } from "./wire.js";

const FIRST_NOW = 1_700_000_000_000;
const MAX_BYTES = 1 << 20;
const MAX_TIMESTAMP = 253_402_300_799_999;
/** Rows per page of a scan: few, so that tests meet paging. */
const PAGE = 3;
/** Rounds of timers that make timers due, and of records that come back through the loop, are taken for endless beyond it. */
const MAX_ROUNDS = 10_000;

/** Names what a manifest would declare; inputs are those with handlers. */
export interface TestSetup {
  /** Names of stores; of those with windows, sessions or a time to live with what the manifest says of it. */
  stores?: readonly TestStore[];
  /** Names of outputs. */
  outputs?: readonly string[];
  /** TestKit.setState gives them rows. */
  joins?: readonly string[];
  /** As joins. */
  lookups?: readonly string[];
  /** Whether timers may be set. */
  timers?: boolean;
  /** Visits, each with the name of the store it walks. */
  visits?: readonly TestVisit[];
  /** Of all inputs, in milliseconds; default 0. */
  lateness?: number;
  /** What becomes of records that are late for all their windows; default "Drop". */
  latePolicy?: "Drop" | "Process";
  /** The number of the task that handlers see; default 0. */
  task?: number;
  /** false makes every read of state a question to the sidecar, as for values too large to travel along. */
  prefetch?: boolean;
}

/** Key and value go through the input's codecs; `Uint8Array`s are taken as they are, so that a test can feed what is not valid. */
export interface TestRecord {
  key?: unknown;
  value?: unknown;
  /** In order, names may repeat. */
  headers?: EmitOptions["headers"];
  /** Default: `now` of the kit. */
  timestamp?: number;
}

/** A record the program emitted. */
export interface Emitted<K = unknown, V = unknown> {
  key: K | null;
  value: V | null;
  /** The key's bytes. */
  rawKey: Buffer | null;
  /** The value's bytes. */
  rawValue: Buffer | null;
  /** In order, names may repeat. */
  headers: Header[];
  /** null: the time at which it is written. */
  timestamp: number | null;
  /** null: by key. */
  partition: number | null;
}

/** A window or session with its value; undefined is a session without one. */
export interface TestWindow<K = unknown, V = unknown> {
  key: K;
  /** In milliseconds since 1970. */
  start: number;
  /** In milliseconds since 1970: of a window the first that is not in it, of a session its last record. */
  end: number;
  value: V | undefined;
}

/**
 * Thrown by feed() when a handler failed: what the sidecar would be told. What came before in the batch is kept. For a timer, a window
 * that closes, a row of a visit or a hook, `input` is its name, and `offset` -1.
 */
export class RecordFailed extends MillstreamError {
  /** The input's name. */
  readonly input: string;
  /** The record's, counted from 0 per input. */
  readonly offset: number;
  /** What the sidecar would be told. */
  readonly failure: Failure;
  /** @internal */
  constructor(input: string, offset: number, failure: Failure) {
    super(`${failure.class} failure of "${input}" offset ${offset}: ${failure.message}`);
    this.input = input;
    this.offset = offset;
    this.failure = failure;
  }
}

/** A record on its way in, encoded. */
interface Fed {
  input: number;
  key: Uint8Array | null;
  value: Uint8Array | null;
  headers: readonly (readonly [Uint8Array, Uint8Array | null])[];
  timestamp: number;
}

interface Outcome {
  done: number;
  failure: Failure | undefined;
}

/** One task of a processor in memory. */
export class TestKit {
  /** The wall clock, and the timestamp of records that are fed without one, in milliseconds since 1970. */
  now = FIRST_NOW;
  private readonly schema: Schema;
  private readonly rows: Map<string, Buffer>[];
  private readonly emitted: Emitted[][];
  private readonly offsets: number[];
  private readonly time: KitTime;
  private readonly visited: KitVisits;
  private readonly gathered: GatheredValues = new Map();
  private looping: Fed[] = [];
  private seq = 0;

  constructor(app: App, private readonly setup: TestSetup = {}) {
    const ports = (names: readonly string[] = []): Port[] => names.map(limited);
    const stores = setup.stores ?? [];
    this.schema = new Schema({
      ...emptyWelcome(), version: MAX_VERSION, session: 1, processor: "test", inputs: ports(app.inputs), outputs: ports(setup.outputs),
      stores: stores.map((store) => ({ ...storePort(store), max: MAX_BYTES })), joins: ports(setup.joins), lookups: ports(setup.lookups),
      timers: setup.timers ?? false, visits: visitsOf(setup), capabilities: capabilitiesOf(app), maxTimestamp: MAX_TIMESTAMP,
    }, app);
    this.rows = this.schema.tables.map(() => new Map());
    this.emitted = this.schema.outputs.map(() => []);
    this.offsets = this.schema.inputs.map(() => 0);
    this.time = new KitTime(stores, this.rows, this.offsets.length, setup.lateness ?? 0);
    this.visited = new KitVisits(this.schema.visits, this.rows);
  }

  /**
   * Records of one input as one batch and, where the program has hooks, as one transaction; what they emit to the loop follows until
   * nothing comes back. Rejects with RecordFailed.
   */
  async feed(input: string, ...records: TestRecord[]): Promise<void> {
    const id = this.schema.inputs.findIndex((port) => port.name === input);
    if (id < 0) throw new ConfigError(`no input "${input}"; inputs: ${listed(this.schema.inputs.map((port) => port.name))}`);
    await this.transaction(records.map((record) => this.fed(id, record)));
    for (let rounds = 0; this.looping.length > 0; ++rounds) {
      if (rounds === MAX_ROUNDS) throw new MillstreamError(`records came back through the loop ${MAX_ROUNDS} times: the loop does not end`);
      await this.transaction(this.looping.splice(0));
    }
  }

  /** Lets the wall clock go on, and with it the timers that are due by it. Event time only moves with records. */
  async advance(milliseconds: number): Promise<void> {
    this.now += milliseconds;
    await this.deliver();
  }

  /** Starts a visit as a handler would, at `now`, and lets it run to its end. */
  async visit<K, V, D>(visit: Visit<K, V, D>, data?: D): Promise<void> {
    const id = this.schema.visitId(visit.name);
    if (id < 0) throw new ConfigError(`no visit "${visit.name}"; visits: ${listed(this.schema.visits.map(({ name }) => name))}`);
    this.visited.apply(id, START, data === undefined ? null : Buffer.from(visit.encodeRaw(data)), this.now);
    await this.deliver();
  }

  // -- what there is

  /** The visits that were started and have not ended: those that are paused. */
  visits(): string[] {
    return this.visited.underWay();
  }

  /** Stream time: how far event time has come, in milliseconds since 1970; undefined before the first record. */
  get watermark(): number | undefined {
    return this.time.now;
  }

  /** Records that were late for all their windows. */
  get late(): number {
    return this.time.late;
  }

  /** The timers that are set, the next one first. */
  timers(): PendingTimer[] {
    const pending = [...this.time.timers.values()].map(({ name, clock, key, time }): PendingTimer =>
      ({ name, clock: clock === EVENT_TIME ? "event" : "wall", key, time }));
    return pending.sort((a, b) => a.time - b.time);
  }

  /** The committed value of a key of a store, or what a join or lookup has; undefined if there is none. */
  state<K, V>(table: Table<K, V>, key: K): V | undefined {
    const raw = this.rowsOf(table).get(latin1(table.codecs.key.encode(key)));
    return raw === undefined ? undefined : table.codecs.value.decode(raw);
  }

  /** Prepares a test: what a store, a join or a lookup has; it is kept whatever its time to live. */
  setState<K, V>(table: Table<K, V>, key: K, value: V): void {
    this.rowsOf(table).set(latin1(table.codecs.key.encode(key)), Buffer.from(table.codecs.value.encode(value)));
  }

  /** The windows or sessions of a store that are kept, by key and time. */
  windows<K, V>(store: WindowStore<K, V> | SessionStore<K, V>): TestWindow<K, V>[] {
    const id = this.schema.tables.findIndex((port, table) => port.name === store.name && this.time.isWindowed(table));
    if (id < 0) throw new ConfigError(`no store "${store.name}" with windows or sessions; stores: ${this.schema.declared("Window")}`);
    const codecs: Codecs<K, V> = store.codecs;
    return this.time.rowsOf(id).map(({ key, start, end, value }) => ({
      key: codecs.key.decode(key), start, end, value: value.length === 0 && this.schema.tables[id]!.kind === "Session" ? undefined : codecs.value.decode(value),
    }));
  }

  /** What was emitted to an output so far, in order, decoded by its codecs. */
  outputs<K, V>(output: Output<K, V>): Emitted<K, V>[] {
    const id = this.schema.outputIds.get(output.name);
    if (id === undefined) throw new ConfigError(`no output "${output.name}"; outputs: ${listed(this.schema.outputIds.keys())}`);
    const { codecs } = output;
    return this.emitted[id]!.map((one) => ({
      ...one,
      key: one.rawKey === null ? null : codecs.key.decode(one.rawKey),
      value: one.rawValue === null ? null : codecs.value.decode(one.rawValue),
    }));
  }

  private rowsOf(table: { readonly name: string; readonly kind: TableKind }): Map<string, Buffer> {
    const id = this.schema.tableId(table.name, table.kind);
    if (id < 0) throw new ConfigError(`no ${table.kind === "KeyValue" ? "store" : table.kind} "${table.name}"; declared: ${this.schema.declared(table.kind)}`);
    return this.rows[id]!;
  }

  // -- the sidecar's part

  private fed(input: number, record: TestRecord): Fed {
    const { key, value } = this.schema.inputs[input]!.registered;
    const raw = (data: string | Uint8Array): Uint8Array => (typeof data === "string" ? textToBytes(data) : data);
    return {
      input, key: encoded(key, record.key), value: encoded(value, record.value), timestamp: record.timestamp ?? this.now,
      headers: (record.headers ?? []).map(([name, content]) => [raw(name), content === null ? null : raw(content)] as const),
    };
  }

  /** With the program's hooks around. */
  private async transaction(records: Fed[]): Promise<void> {
    const { begin, finalize, committed } = this.schema.hooks;
    await this.callHook("begin", begin);
    await this.handle(records);
    await this.callHook("finalize", finalize);
    await committed?.(this.task);
  }

  private async callHook(name: string, hook: Hook | undefined): Promise<void> {
    if (hook === undefined) return;
    const { failure } = await this.run(hookBatch(++this.seq, this.task, this.rows.length), this.now, hook);
    if (failure !== undefined) throw new RecordFailed(name, -1, failure);
  }

  private async handle(records: Fed[]): Promise<void> {
    // Where it matters one by one, as each moves the time.
    const timed = this.time.matters || this.setup.timers === true;
    for (let left = records; left.length > 0; ) {
      const now = timed ? left.slice(0, 1) : left;
      const [{ input, key, timestamp }] = now as [Fed];
      const watermark = this.time.now;
      this.time.advance(input, timestamp);
      this.time.forget(); // the record's own time hides what is over by it
      const open = this.time.open(key, timestamp);
      const dropped = open === undefined && this.setup.latePolicy !== "Process";
      const { done, failure } = dropped ? { done: 1, failure: undefined } : await this.send(this.records(now, open ?? []), watermark, timestamp);
      this.offsets[input]! += done + (failure === undefined ? 0 : 1);
      if (failure !== undefined) throw new RecordFailed(this.schema.inputs[input]!.name, this.offsets[input]! - 1, failure);
      if (open !== undefined && key !== null && done > 0) this.time.settle(key, open);
      if (!timed) for (const record of now.slice(1, done)) this.time.advance(record.input, record.timestamp);
      left = left.slice(done); // all, or as many as fit one RESULT
      await this.deliver();
    }
  }

  /** Timers and closings that are due, and rows of visits, until there are none. A handler may make more due. */
  private async deliver(): Promise<void> {
    for (let round = 0; ; ++round) {
      if (round === MAX_ROUNDS) throw new MillstreamError(`timers make timers due, or visits start visits, without end: ${MAX_ROUNDS} rounds`);
      this.time.sweep();
      let due: (DueItem | VisitedItem)[] = this.time.due(this.now);
      if (due.length === 0) due = this.visited.next();
      if (due.length === 0) return;
      const items = new KitItems();
      for (const item of due) this.writeDue(items, item);
      const { done, failure } = await this.send(items, this.time.now, this.time.now ?? this.now, due);
      if (failure === undefined) continue;
      const failed = due[done]!;
      this.handled(failed); // given up, as a record would be
      throw new RecordFailed(this.nameOf(failed), -1, failure);
    }
  }

  private handled(due: DueItem | VisitedItem): void {
    if (due.kind === VISIT) this.visited.handled(due);
    else this.time.handled(due);
  }

  private nameOf(due: DueItem | VisitedItem): string {
    if (due.kind === VISIT) return this.schema.visits[due.visit]!.name;
    return due.kind === TIMER ? due.name : this.schema.tables[due.table]!.name;
  }

  private writeDue(items: KitItems, due: DueItem | VisitedItem): void {
    const place = due.key === null ? null : items.place(due.key);
    if (due.kind === VISIT) {
      items.add(6).int(VISIT).int(due.visit).maybeInt(place).int(due.time).maybeBin(due.data).int(1);
      return;
    }
    if (due.kind === TIMER) items.add(6).int(TIMER).maybeInt(place).int(due.clock).str(due.name).int(due.time).int(1);
    else items.add(7).int(CLOSING).int(due.table).maybeInt(place).int(due.bounds.start).int(due.bounds.end).bin(this.time.valueOf(due)).int(1);
  }

  private records(records: readonly Fed[], open: readonly OpenWindow[]): KitItems {
    const items = new KitItems();
    records.forEach(({ input, key, value, headers, timestamp }, n) => {
      const place = key === null ? null : items.place(key);
      const w = items.add(open.length > 0 ? 9 : 8).int(RECORD).int(input).int(this.offsets[input]! + n).int(timestamp);
      if (place === null) w.nil();
      else w.int(place);
      w.maybeBin(value).list(headers.length);
      for (const [name, content] of headers) w.list(2).bin(name).maybeBin(content);
      w.int(1);
      if (open.length > 0) writeOpen(w, open);
    });
    return items;
  }

  /** Sends a BATCH of these items, as a sidecar would. */
  private async send(items: KitItems, watermark: number | undefined, timestamp: number, due: readonly (DueItem | VisitedItem)[] = []): Promise<Outcome> {
    const w = new Writer(1024).list(8).int(Kind.BATCH).int(++this.seq).int(this.task).int(0);
    items.write(w);
    const tables = this.schema.tables.map((_, id) => id).filter((id) => this.setup.prefetch !== false && this.schema.tables[id]!.kind !== "lookup");
    w.map(tables.length);
    for (const id of tables) {
      w.int(id).list(items.keys.size);
      for (const key of items.keys.keys()) {
        if (this.time.isWindowed(id)) this.writeRows(w, id, key);
        else w.maybeBin(this.rows[id]!.get(key) ?? null);
      }
    }
    if (watermark === undefined) w.nil();
    else w.int(watermark);
    const payload = new Reader(w.bytes);
    const fields = payload.fields("frame", 1) - 1;
    payload.int("kind");
    return this.run(readBatch(payload, fields, this.schema.shape), timestamp, undefined, due);
  }

  private writeRows(w: Writer, table: number, key: string): void {
    const rows = this.time.rowsOf(table, key);
    w.list(rows.length);
    for (const { start, end, value } of rows) w.list(3).int(start).int(end).bin(value);
  }

  private async run(batch: BatchFrame, timestamp: number, hook: Hook | undefined, due: readonly (DueItem | VisitedItem)[] = []): Promise<Outcome> {
    const run = new BatchRun(this.schema, new KitLink(this.rows), batch, this.gathered, hook);
    return this.apply(new Reader((await run.run()).subarray(LENGTH_BYTES)), batch, timestamp, due);
  }

  private get task(): number {
    return this.setup.task ?? 0;
  }

  // Reads a RESULT as a sidecar would.
  private apply(r: Reader, batch: BatchFrame, timestamp: number, due: readonly (DueItem | VisitedItem)[]): Outcome {
    const all = r.fields("RESULT", 6);
    r.int("kind");
    r.int("seq");
    const done = r.number("done");
    due.slice(0, done).forEach((item) => this.handled(item)); // before what is set anew
    const failure = r.nil() ? undefined : readFailure(r);
    for (let stores = r.map("ops"); stores > 0; --stores) {
      const store = r.number("store");
      const rows = this.rows[store]!;
      for (let ops = r.list("ops"); ops > 0; --ops) {
        r.fields("op", 2);
        const key = latin1(r.bytes("key"));
        const value = r.maybeBytes("value");
        if (value === null) rows.delete(key);
        else rows.set(key, value);
        this.time.wrote(store, key, timestamp);
      }
    }
    for (let count = r.list("outputs"); count > 0; --count) this.collect(r);
    for (let count = all > 6 ? r.list("timers") : 0; count > 0; --count) {
      r.fields("timer", 4);
      const [key, clock, name] = [r.bytes("key"), r.number("clock"), r.text("name")];
      this.time.set(key, clock, name, r.nil() ? null : r.number("time"));
    }
    for (let count = all > 7 ? r.list("visits") : 0; count > 0; --count) {
      r.fields("visit", 3);
      this.visited.apply(r.number("visit"), r.number("what"), r.maybeBytes("data"), batch.items[done - 1]!.timestamp);
    }
    r.end();
    return { done, failure };
  }

  private collect(r: Reader): void {
    const fields = r.fields("output", 4);
    const id = r.number("output");
    const [rawKey, rawValue] = [r.maybeBytes("key"), r.maybeBytes("value")];
    const timestamp = r.nil() ? null : r.number("timestamp");
    const headers = fields > 4 && !r.nil() ? readHeaders(r) : [];
    const partition = fields > 5 && !r.nil() ? r.number("partition") : null;
    this.emitted[id]!.push({ key: null, value: null, rawKey, rawValue, headers, timestamp, partition });
    const back = this.schema.inputs.findIndex((port) => port.name === LOOP);
    if (this.schema.outputs[id]!.name !== LOOP || back < 0) return;
    const raw = headers.map(([name, value]) => [typeof name === "string" ? textToBytes(name) : name, value] as const);
    this.looping.push({ input: back, key: rawKey, value: rawValue, headers: raw, timestamp: timestamp ?? this.now });
  }
}

/** The keys and items of a BATCH. */
class KitItems {
  readonly keys = new Map<string, { place: number; raw: Uint8Array }>();
  private readonly items = new Writer();
  private count = 0;

  place(raw: Uint8Array): number {
    const known = this.keys.get(latin1(raw)) ?? { place: this.keys.size, raw };
    this.keys.set(latin1(raw), known);
    return known.place;
  }

  /** The next item, of so many fields. */
  add(fields: number): Writer {
    this.count += 1;
    return this.items.list(fields);
  }

  write(w: Writer): void {
    w.list(this.keys.size);
    for (const { raw } of this.keys.values()) w.bin(raw);
    w.list(this.count).raw(this.items.bytes);
  }
}

function writeOpen(w: Writer, open: readonly OpenWindow[]): void {
  w.list(open.length);
  for (const { store, start, end, parts } of open) {
    w.list(parts === undefined ? 3 : 4).int(store).int(start).int(end);
    if (parts === undefined) continue;
    w.list(parts.length);
    for (const part of parts) w.list(2).int(part.start).int(part.end);
  }
}

/** With the ids of their stores. */
function visitsOf({ visits = [], stores = [] }: TestSetup): { name: string; store: number }[] {
  const names = stores.map((store) => (typeof store === "string" ? store : store.name));
  return visits.map(({ name, store }) => {
    if (!names.includes(store)) throw new ConfigError(`visit "${name}" walks store "${store}"; stores: ${listed(names)}`);
    return { name, store: names.indexOf(store) };
  });
}

const limited = (name: string): Port => ({ ...portOf(name), max: MAX_BYTES });

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
