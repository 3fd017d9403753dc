// BATCH as it comes: keys and values are views of the frame.
import { ProtocolError } from "./errors.js";
import type { Header, Int, Prefetched, Reader } from "./msgpack.js";

/** What can be read: a store by its type, a join, a lookup. */
export type TableKind = "KeyValue" | "Window" | "Session" | "join" | "lookup";

/** What WELCOME allows in a batch. */
export interface Shape {
  inputs: number;
  /** By readable id. */
  tables: readonly { readonly kind: TableKind; readonly final: boolean }[];
  timers: boolean;
  /** How many visits there are. */
  visits: number;
  /** Whether a table is windowed. */
  windowed: boolean;
}

export const RECORD = 0;
export const TIMER = 1;
export const CLOSING = 2;
export const VISIT = 3;
/** Of the one item that stands for BEGIN or FINALIZE; no frame has it. */
export const HOOK = -1;
export const EVENT_TIME = 0;
export const WALL_CLOCK = 1;

/** What every item has. Times are milliseconds since 1970. */
interface ItemHead {
  /** -1: a null key. */
  readonly key: number;
  /** That of its outputs: a record's own, a timer's time, the last moment of a window, the start of a visit. */
  readonly timestamp: number;
  readonly attempt: number;
  /** The open windows and sessions that take it. */
  readonly windows: readonly OpenWindow[] | undefined;
}

export interface RecordItem extends ItemHead {
  readonly kind: typeof RECORD;
  readonly input: number;
  readonly offset: Int;
  readonly value: Buffer | null;
  readonly headers: readonly Header[];
}

export interface TimerItem extends ItemHead {
  readonly kind: typeof TIMER;
  readonly clock: number;
  readonly name: string;
}

export interface ClosingItem extends ItemHead {
  readonly kind: typeof CLOSING;
  readonly store: number;
  readonly value: Prefetched;
}

/** A row that is visited; without a key the end of the visit. */
export interface VisitItem extends ItemHead {
  readonly kind: typeof VISIT;
  readonly visit: number;
  readonly data: Buffer | null;
}

export interface HookItem extends ItemHead {
  readonly kind: typeof HOOK;
}

/** A hook has no key and no time: its outputs get the sidecar's. */
export const HOOK_ITEM: HookItem = { kind: HOOK, key: -1, timestamp: NaN, attempt: 1, windows: undefined };

export type Item = RecordItem | TimerItem | ClosingItem | VisitItem | HookItem;

/** A window from `start` up to before `end`, or a session with its first and last record there. Exact, beyond 2^53 too. */
export interface Bounds {
  readonly start: Int;
  readonly end: Int;
}

export interface OpenWindow extends Bounds {
  readonly store: number;
  /** Of a session: those that it is made of, in the order of time. */
  readonly parts: readonly Bounds[] | undefined;
}

/** A row of a windowed store that came along. */
export interface Row extends Bounds {
  readonly value: Prefetched;
}

/** What came along for a table, by key of the batch: a value, or the rows of a windowed store. */
export type Column = { readonly values: readonly Prefetched[]; readonly rows?: never } | { readonly values?: never; readonly rows: readonly (readonly Row[])[] };

export interface BatchFrame {
  seq: Int;
  task: number;
  flags: number;
  keys: Buffer[];
  items: Item[];
  /** By readable id; undefined where nothing came along. */
  state: (Column | undefined)[];
  watermark: number | undefined;
}

const NO_HEADERS: readonly Header[] = [];
const MAX_INT32 = 2 ** 31 - 1;

/** What follows the kind of a BATCH. */
export function readBatch(r: Reader, fields: number, shape: Shape): BatchFrame {
  if (fields < 6) throw new ProtocolError(`BATCH has ${fields} fields, at least 6 are needed`);
  const seq = r.uint("BATCH seq");
  const task = r.index("BATCH task", MAX_INT32);
  const flags = r.index("BATCH flags", 2 ** 32 - 1);
  const keys: Buffer[] = [];
  for (let count = r.list("BATCH keys"); count > 0; --count) keys.push(r.bytes("BATCH key"));
  const items: Item[] = [];
  for (let count = r.list("BATCH items"); count > 0; --count) items.push(readItem(r, keys.length, shape));
  const state = new Array<Column | undefined>(shape.tables.length).fill(undefined);
  for (let count = r.map("BATCH state"); count > 0; --count) {
    const id = r.index("BATCH state: store", shape.tables.length - 1);
    const aligned = r.list("BATCH state");
    if (aligned !== keys.length || state[id] !== undefined) throw new ProtocolError(`BATCH: the state of store ${id} is not aligned with its keys`);
    state[id] = isWindowed(shape.tables[id]!.kind) ? { rows: readAll(aligned, () => readRows(r)) } : { values: readValues(r, aligned) };
  }
  const watermark = fields > 6 && !r.nil() ? Number(r.int("BATCH watermark")) : undefined;
  r.skip(Math.max(fields - 7, 0));
  return { seq, task, flags, keys, items, state, watermark };
}

/** What follows the kind of BEGIN or FINALIZE: seq and task. */
export function readHook(r: Reader, fields: number): [seq: Int, task: number] {
  if (fields < 2) throw new ProtocolError(`BEGIN or FINALIZE has ${fields} fields, at least 2 are needed`);
  const [seq, task] = [r.uint("seq"), r.index("task", MAX_INT32)];
  r.skip(fields - 2);
  r.end();
  return [seq, task];
}

/** What follows the kind of COMMITTED: tasks, each with the last seq that counts. */
export function readCommitted(r: Reader, fields: number): [task: number, seq: Int][] {
  if (fields < 1) throw new ProtocolError("COMMITTED has no list of tasks");
  const tasks = readAll(r.list("COMMITTED"), (): [number, Int] => {
    const further = r.fields("committed task", 2) - 2;
    const [task, seq] = [r.index("task", MAX_INT32), r.uint("seq")];
    r.skip(further);
    return [task, seq];
  });
  r.skip(fields - 1);
  r.end();
  return tasks;
}

/** BEGIN or FINALIZE of a task, to be run. */
export function hookBatch(seq: Int, task: number, tables: number): BatchFrame {
  return { seq, task, flags: 0, keys: [], items: [HOOK_ITEM], state: new Array<undefined>(tables).fill(undefined), watermark: undefined };
}

export function isWindowed(kind: TableKind): boolean {
  return kind === "Window" || kind === "Session";
}

function readAll<T>(count: number, read: () => T): T[] {
  const all: T[] = [];
  for (; count > 0; --count) all.push(read());
  return all;
}

function readValues(r: Reader, count: number): Prefetched[] {
  const values: Prefetched[] = [];
  for (; count > 0; --count) values.push(r.state("BATCH state"));
  return values;
}

function readRows(r: Reader): Row[] {
  return readAll(r.list("BATCH state: rows"), () => {
    const fields = r.fields("BATCH state: row", 3);
    const row: Row = { start: r.int("row start"), end: r.int("row end"), value: r.state("row value") };
    r.skip(fields - 3);
    return row;
  });
}

function readItem(r: Reader, keys: number, shape: Shape): Item {
  const count = r.fields("BATCH item", 1);
  const kind = r.int("BATCH item");
  if (kind === RECORD) return readRecord(r, count, keys, shape);
  if (kind === TIMER && shape.timers) return readTimer(r, count, keys);
  if (kind === CLOSING) return readClosing(r, count, keys, shape);
  if (kind === VISIT) return readVisited(r, count, keys, shape);
  throw new ProtocolError(`BATCH has an item of kind ${kind}, which is not known or not declared`);
}

function least(count: number, fields: number, what: string): void {
  if (count < fields) throw new ProtocolError(`BATCH has a ${what} with ${count} fields, at least ${fields} are needed`);
}

const readAttempt = (r: Reader): number => r.index("attempt", 2 ** 32 - 1);

function readRecord(r: Reader, count: number, keys: number, shape: Shape): RecordItem {
  least(count, 7, "record");
  const input = r.index("record input", shape.inputs - 1);
  const offset = r.uint("record offset");
  if (typeof offset === "bigint" && offset >> 63n) throw new ProtocolError(`record offset is too large: ${offset}`);
  const timestamp = Number(r.int("record timestamp")); // beyond 2^53 no calendar knows it
  const key = r.nil() ? -1 : r.index("record key", keys - 1);
  const value = r.maybeBytes("record value");
  const headers = r.nil() ? NO_HEADERS : readHeaders(r);
  const attempt = count > 7 && !r.nil() ? readAttempt(r) : 1;
  // Where no table is windowed the field is a later version's.
  const windows = shape.windowed && count > 8 && !r.nil() ? readWindows(r, key, shape) : undefined;
  r.skip(Math.max(count - (shape.windowed ? 9 : 8), 0));
  return { kind: RECORD, input, offset, timestamp, key, value, headers, attempt, windows };
}

function readWindows(r: Reader, key: number, shape: Shape): OpenWindow[] {
  return readAll(r.list("record windows"), () => {
    const fields = r.fields("window", 3);
    const store = r.index("window store", shape.tables.length - 1);
    const { kind } = shape.tables[store]!;
    const known = kind === "Session" ? 4 : 3;
    if (!isWindowed(kind) || fields < known || key < 0) throw new ProtocolError(`BATCH has a record with a window of store ${store}, which has none such`);
    const [start, end] = [r.int("window start"), r.int("window end")];
    const parts = kind === "Session" ? readParts(r) : undefined;
    r.skip(fields - known);
    return { store, start, end, parts };
  });
}

function readParts(r: Reader): Bounds[] {
  return readAll(r.list("session parts"), () => {
    const fields = r.fields("session part", 2);
    const part = { start: r.int("part start"), end: r.int("part end") };
    r.skip(fields - 2);
    return part;
  });
}

function readTimer(r: Reader, count: number, keys: number): TimerItem {
  least(count, 6, "timer");
  const key = r.index("timer key", keys - 1);
  const clock = r.index("timer clock", WALL_CLOCK);
  const name = r.text("timer name");
  const timestamp = Number(r.int("timer time"));
  const attempt = readAttempt(r);
  r.skip(count - 6);
  return { kind: TIMER, key, timestamp, attempt, windows: undefined, clock, name };
}

function readClosing(r: Reader, count: number, keys: number, shape: Shape): ClosingItem {
  least(count, 7, "closing");
  const store = r.index("closing store", shape.tables.length - 1);
  const { kind, final } = shape.tables[store]!;
  if (!final) throw new ProtocolError(`BATCH closes a window of store ${store}, which WELCOME did not announce`);
  const key = r.index("closing key", keys - 1);
  const [start, end] = [r.int("closing start"), r.int("closing end")];
  const value = r.state("closing value");
  const attempt = readAttempt(r);
  r.skip(count - 7);
  // A session ends with its last record, a window before its end; a session that closes is made of itself.
  const [parts, timestamp] = kind === "Session" ? [[{ start, end }], Number(end)] : [undefined, Number(end) - 1];
  return { kind: CLOSING, key, timestamp, attempt, windows: [{ store, start, end, parts }], store, value };
}

function readVisited(r: Reader, count: number, keys: number, shape: Shape): VisitItem {
  least(count, 6, "row of a visit");
  const visit = r.index("visit", shape.visits - 1);
  const key = r.nil() ? -1 : r.index("visit key", keys - 1);
  const timestamp = Number(r.int("visit time"));
  const data = r.maybeBytes("visit data");
  const attempt = readAttempt(r);
  r.skip(count - 6);
  return { kind: VISIT, key, timestamp, attempt, windows: undefined, visit, data };
}

export function readHeaders(r: Reader): Header[] {
  const headers: Header[] = [];
  for (let count = r.list("headers"); count > 0; --count) {
    const fields = r.fields("header", 2);
    headers.push([r.headerName(), r.maybeBytes("header value")]);
    r.skip(fields - 2);
  }
  return headers;
}
