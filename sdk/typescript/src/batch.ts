// One batch in flight: what its items know and stage, and its RESULT.
import { CLOSING, RECORD, TIMER, VISIT, type BatchFrame, type Bounds, type ClosingItem, type Item, type OpenWindow, type TimerItem, type VisitItem } from "./batch_frame.js";
import { Context, Record } from "./context.js";
import { BatchVoided, OutputError, UndeclaredError, listed } from "./errors.js";
import { failureOf } from "./failures.js";
import type { GatheredValues, Hook } from "./hooks.js";
import { MAX_ELEMENTS, NOT_PREFETCHED, Writer, type Int, type Prefetched } from "./msgpack.js";
import { sessionRow } from "./row_keys.js";
import type { Schema } from "./schema.js";
import { Due } from "./timer.js";
import { VisitEnd } from "./visit.js";
import { cannotMerge } from "./window.js";
import { DEFAULT_FRAME_CAP, FLAG_TRACE, Kind, LENGTH_BYTES, type Failure, type ScanRequest } from "./wire.js";

/** Room for a RESULT's own fields and a failure message. */
const RESULT_RESERVE = 20 << 10;
/** What a write takes in a frame beside its bytes, at most. */
const WRITE_OVERHEAD = 16;
/** A GET asks for so many keys at most. */
const MAX_KEYS_PER_GET = 512;
/** A batch lets the event loop see to PING, CANCEL and other batches after so long. */
const TURN_MS = 10;

export interface ScanPage {
  rows: [Buffer, Buffer][];
  cursor: Buffer | null;
}

/** How a batch reaches the sidecar: a session, or the test kit. Both reject with BatchVoided once the batch is void. */
export interface Link {
  get(batch: BatchRun, store: number, keys: readonly Uint8Array[]): Promise<(Buffer | null)[]>;
  scan(batch: BatchRun, request: ScanRequest): Promise<ScanPage>;
  extend(batch: BatchRun, done: number): void;
}

/** What is known of one key or row in one store: undefined is nothing, null that it is absent. */
export interface Slot {
  value: Buffer | null | undefined;
  /** The last write in `ops`, -1 for none. */
  op: number;
}

/** By key of the batch: the rows of a windowed store that are known, by rowId(). */
type RowSlots = (Map<Int | string, Slot> | undefined)[];

interface Op {
  store: number;
  item: number;
  key: Uint8Array;
  value: Buffer | null;
  slot: Slot;
  beforeValue: Slot["value"];
  beforeOp: number;
}

/** What an item wants done once its batch counts. */
interface Deferred {
  mark: Mark;
  item: number;
  act: () => void;
}

/**
 * The prefix rule: items run in order; the first that fails ends the batch, what it staged is undone, the items before it
 * count. A batch whose RESULT would not fit a frame ends early without failure: the sidecar sends the rest again. BEGIN and FINALIZE
 * are batches whose one item is the hook, all or nothing.
 */
export class BatchRun {
  /** Items finished, for EXTEND. */
  done = 0;
  void = false;
  private controller: AbortController | undefined;
  private readonly ctx = new Context(this);
  private readonly slots: (Slot[] | undefined)[];
  private readonly others: (Map<string, Slot> | undefined)[];
  private readonly rows: (RowSlots | undefined)[];
  private keyIndex: Map<string, number> | undefined;
  private readonly ops: Op[] = [];
  private toldOps = 0;
  private readonly outputs = new Writer(1024);
  private outputCount = 0;
  private opBytes = 0;
  private headerCount = 0;
  private readonly timers = new Writer(0);
  private timerCount = 0;
  private readonly visits = new Writer(0);
  private visitCount = 0;
  /** Timers set or cancelled in this batch, where it has timers that could be meant. */
  private timersSet: Set<string> | undefined;
  private readonly deferred: Deferred[] = [];
  /** How far the batch had come before the item at hand. */
  private readonly before = new Mark();

  constructor(
    readonly schema: Schema, private readonly link: Link, readonly frame: BatchFrame, readonly gathered: GatheredValues, private readonly hook?: Hook,
  ) {
    const tables = schema.tables.length;
    this.slots = new Array<undefined>(tables).fill(undefined);
    this.others = new Array<undefined>(tables).fill(undefined);
    this.rows = new Array<undefined>(tables).fill(undefined);
    if (frame.items.some((item) => item.kind === TIMER)) this.timersSet = new Set();
  }

  /** Whether it is BEGIN or FINALIZE. */
  get isHook(): boolean {
    return this.hook !== undefined;
  }

  get trace(): boolean {
    return (this.frame.flags & FLAG_TRACE) !== 0;
  }

  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.void) this.controller.abort();
    return this.controller.signal;
  }

  /** From now on nothing of it counts. */
  cancel(): void {
    this.void = true;
    this.controller?.abort();
  }

  checkValid(): void {
    if (this.void) throw new BatchVoided();
  }

  /** Handles the items and gives the RESULT frame, which has to leave at once. Rejects with BatchVoided only. */
  async run(): Promise<Buffer> {
    const { items, keys, task } = this.frame;
    const { inputs } = this.schema;
    const ctx = this.ctx;
    let turn = performance.now();
    let failure: Failure | undefined;
    for (let index = 0; index < items.length; ++index) {
      this.checkValid();
      if (this.trace) this.link.extend(this, index);
      const item = items[index]!;
      ctx.item = item;
      ctx.index = index;
      ctx.key = item.key < 0 ? null : keys[item.key]!;
      ctx.failed = undefined;
      const mark = this.markHere();
      let error: unknown;
      let failed = false;
      try {
        let pending: void | Promise<void>;
        if (item.kind === RECORD) {
          const port = inputs[item.input]!;
          pending = port.registered.handle(ctx, new Record(item, ctx.key, port, task));
        } else {
          pending = this.runOther(item);
        }
        if (pending !== undefined) await pending;
        if (item.windows !== undefined && ctx.failed === undefined) await this.finishSessions(item.windows);
      } catch (thrown) {
        error = thrown;
        failed = true;
      }
      this.checkValid();
      if (ctx.failed !== undefined) {
        error = ctx.failed;
        failed = true;
      }
      if (!failed && this.full(BEGINNING)) {
        if (!this.full(mark)) {
          this.undo(mark);
          break;
        }
        error = new OutputError(`the state changes and outputs of this one record do not fit a frame of ${this.schema.frameCap} bytes; emit and write less per record`);
        failed = true;
      }
      if (failed) {
        this.undo(mark);
        failure = failureOf(error);
        break;
      }
      this.done = index + 1;
      if (this.visitCount > 0) break; // it counts from here on: rows of this batch may not be wanted any more
      const now = performance.now();
      if (now - turn > TURN_MS && this.done < items.length) {
        await new Promise(setImmediate);
        turn = performance.now();
      }
    }
    this.checkValid();
    failure = this.settle() ?? failure;
    return this.result(this.hook === undefined ? this.done : 0, failure);
  }

  /** A timer, a window or session that closes, a row of a visit, or a hook. */
  private runOther(item: Exclude<Item, { kind: typeof RECORD }>): void | Promise<void> {
    if (item.kind === TIMER) return this.isOvertaken(item) ? undefined : this.runTimer(item);
    if (item.kind === VISIT) return this.runVisited(item);
    return item.kind === CLOSING ? this.runClosing(item) : this.hook!(this.ctx);
  }

  private runTimer(item: TimerItem): void | Promise<void> {
    const { timers } = this.schema;
    const registered = this.schema.timer(item.clock, item.name);
    if (registered === undefined) {
      const known = [...timers.values()].map(({ timer }) => `${timer.name} (${timer.clock})`);
      throw new UndeclaredError(`no handler for timer "${item.name}"; add app.onTimer(...). Handlers exist for: ${listed(known)}`);
    }
    return registered.handle(this.ctx, new Due(item, this.ctx.key!, registered.timer));
  }

  private async runClosing(item: ClosingItem): Promise<void> {
    const { store, handle } = this.schema.tables[item.store]!.closing!; // the schema has seen to it
    const closed = await store.closed(this.ctx, item);
    if (closed !== undefined) await handle(this.ctx, closed as never);
  }

  private async runVisited(item: VisitItem): Promise<void> {
    const { visit, handle, handleEnd } = this.schema.visits[item.visit]!.registered; // the schema has seen to it
    if (item.key < 0) return handleEnd?.(this.ctx, new VisitEnd(item, visit));
    const row = await visit.visited(this.ctx, item);
    if (row !== undefined) await handle!(this.ctx, row);
  }

  /** Does what was put off. What fails in it is the failure of its item: what follows it counts no more. */
  private settle(): Failure | undefined {
    for (const { mark, item, act } of this.deferred) {
      try {
        act();
      } catch (error) {
        this.undo(mark);
        this.done = item;
        return failureOf(error);
      }
    }
    return undefined;
  }

  // -- for stores and outputs

  /** The slot of a key; made if it is none of the batch's. `own`: it is the record's. */
  slot(store: number, key: Uint8Array, own: boolean): Slot {
    if (own) return this.slotsOf(store)[this.ctx.item.key]!;
    const text = latin1(key);
    const index = this.indexOf(text);
    return index !== undefined ? this.slotsOf(store)[index]! : this.other(store, text);
  }

  /** The slot of a window or session that the item names. */
  ownRow(store: number, bounds: Bounds): Slot {
    // Such rows came along, those that exist.
    return this.rowOf(store, this.ctx.item.key, bounds, this.frame.state[store] === undefined ? undefined : null);
  }

  /** The slot of a window of any key. */
  anyRow(store: number, key: Buffer, bounds: Bounds, row: Buffer): Slot {
    const index = this.indexOf(latin1(key));
    return index !== undefined ? this.rowOf(store, index, bounds, undefined) : this.other(store, latin1(row));
  }

  /** The slot of a window or session that closes. */
  closingRow(item: ClosingItem): Slot {
    return this.rowOf(item.store, item.key, item.windows![0]!, prefetched(item.value));
  }

  /** The values of what a session is made of; its own once the item has written it. */
  async sessionValues(session: OpenWindow): Promise<Buffer[]> {
    const { store } = session;
    const rows = this.wrote(session) ? [session] : session.parts!;
    const slots = rows.map((row) => this.ownRow(store, row));
    const missing = rows.filter((_, n) => slots[n]!.value === undefined);
    if (missing.length > 0) {
      const keys = missing.map((row) => sessionRow(this.ctx.key!, row.start, row.end));
      await this.fetch(store, keys, slots.filter((slot) => slot.value === undefined));
    }
    // An empty value is a session without one.
    return slots.flatMap(({ value }) => (value != null && value.length > 0 ? [value] : []));
  }

  /** Stages a write; null deletes. */
  write(ctx: Context, store: number, slot: Slot, key: Uint8Array, value: Uint8Array | null): void {
    const data = value === null || Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.length);
    this.ops.push({ store, item: ctx.index, key, value: data, slot, beforeValue: slot.value, beforeOp: slot.op });
    slot.value = data;
    slot.op = this.ops.length - 1;
    this.opBytes += key.length + (value?.length ?? 0) + WRITE_OVERHEAD;
  }

  /** Stages an output. */
  stage(headers: number, write: (w: Writer) => void): void {
    write(this.outputs);
    this.outputCount += 1;
    this.headerCount += headers;
  }

  /** Stages a timer; a time of null cancels. */
  stageTimer(key: Uint8Array, clock: number, name: string, time: number | null): void {
    const w = this.timers.list(4).bin(key).int(clock).str(name);
    if (time === null) w.nil();
    else w.int(time);
    this.timerCount += 1;
    this.timersSet?.add(pendingId(key, clock, name));
  }

  /** Stages a start of a visit, or what else is done to it. */
  stageVisit(visit: number, what: number, data: Uint8Array | null): void {
    this.visits.list(3).int(visit).int(what).maybeBin(data);
    this.visitCount += 1;
  }

  /** Puts something off until the batch counts. */
  defer(act: () => void): void {
    this.deferred.push({ mark: Object.assign(new Mark(), this.before), item: this.ctx.index, act });
  }

  /** Asks for keys that are not known and fills their slots. */
  async fetch(store: number, keys: readonly Uint8Array[], slots: readonly Slot[]): Promise<void> {
    for (let at = 0, count = MAX_KEYS_PER_GET; at < keys.length; ) {
      const asked = keys.slice(at, at + count);
      let values: (Buffer | null)[];
      try {
        values = await this.link.get(this, store, asked);
      } catch (error) {
        // The values may not fit a frame together: fewer at once. For one alone, the error it is.
        if (asked.length === 1 || error instanceof BatchVoided) throw error;
        count = asked.length >> 1;
        continue;
      }
      for (let n = 0; n < asked.length; ++n) slots[at + n]!.value = values[n]!;
      at += asked.length;
    }
  }

  async scan(request: Omit<ScanRequest, "newOps">): Promise<ScanPage> {
    this.checkValid();
    const newOps = new Map<number, Op[]>();
    for (const op of this.ops.slice(this.toldOps)) {
      const ops = newOps.get(op.store);
      if (ops === undefined) newOps.set(op.store, [op]);
      else ops.push(op);
    }
    this.toldOps = this.ops.length;
    return this.link.scan(this, { ...request, newOps });
  }

  // -- staging

  private slotsOf(store: number): Slot[] {
    let slots = this.slots[store];
    if (slots === undefined) {
      const known = this.frame.state[store]?.values;
      slots = this.frame.keys.map((_, index) => ({ value: prefetched(known?.[index]), op: -1 }));
      this.slots[store] = slots;
    }
    return slots;
  }

  /** The place of a key among the batch's. */
  private indexOf(key: string): number | undefined {
    this.keyIndex ??= new Map(this.frame.keys.map((known, index) => [latin1(known), index]));
    return this.keyIndex.get(key);
  }

  private other(store: number, key: string): Slot {
    const others = (this.others[store] ??= new Map<string, Slot>());
    let slot = others.get(key);
    if (slot === undefined) others.set(key, (slot = { value: undefined, op: -1 }));
    return slot;
  }

  /** The slot of a row of a key of the batch; `otherwise` is what is known of it if it is new. */
  private rowOf(store: number, key: number, bounds: Bounds, otherwise: Buffer | null | undefined): Slot {
    const isSession = this.schema.tables[store]!.kind === "Session";
    const rows = ((this.rows[store] ??= [])[key] ??= this.rowsThatCame(store, key, isSession));
    const id = rowId(bounds, isSession);
    let slot = rows.get(id);
    if (slot === undefined) rows.set(id, (slot = { value: otherwise, op: -1 }));
    return slot;
  }

  private rowsThatCame(store: number, key: number, isSession: boolean): Map<Int | string, Slot> {
    const slots = new Map<Int | string, Slot>();
    const rows = this.frame.state[store]?.rows;
    if (rows !== undefined) for (const row of rows[key]!) slots.set(rowId(row, isSession), { value: prefetched(row.value), op: -1 });
    return slots;
  }

  /** Whether the item at hand has written a session. */
  private wrote(session: OpenWindow): boolean {
    const { op } = this.ownRow(session.store, session);
    return op >= 0 && this.ops[op]!.item === this.ctx.index;
  }

  /** Sessions that the handler did not write keep their value, or get it from what they are made of. */
  private async finishSessions(windows: readonly OpenWindow[]): Promise<void> {
    for (const session of windows) {
      const { store, parts, start, end } = session;
      if (parts === undefined || parts.length === 0 || this.wrote(session)) continue;
      if (parts.length === 1 && parts[0]!.start === start && parts[0]!.end === end) continue;
      const values = await this.sessionValues(session);
      if (values.length === 0) continue;
      const { name, sessions } = this.schema.tables[store]!;
      if (values.length > 1 && sessions === undefined) throw cannotMerge(name, values.length);
      const row = sessionRow(this.ctx.key!, start, end);
      this.write(this.ctx, store, this.ownRow(store, session), row, values.length > 1 ? sessions!.mergeRaw(this.ctx, row, values) : values[0]!);
    }
  }

  /** A timer that an earlier item of this batch set anew or cancelled. A failed item's are no matter: it ends the batch. */
  private isOvertaken(item: TimerItem): boolean {
    return this.timersSet!.size > 0 && this.timersSet!.has(pendingId(this.ctx.key!, item.clock, item.name));
  }

  // One object for all items: there are millions.
  private markHere(): Mark {
    const mark = this.before;
    mark.ops = this.ops.length;
    mark.opBytes = this.opBytes;
    mark.outputBytes = this.outputs.length;
    mark.outputs = this.outputCount;
    mark.headers = this.headerCount;
    mark.timerBytes = this.timers.length;
    mark.timers = this.timerCount;
    mark.visitBytes = this.visits.length;
    mark.visits = this.visitCount;
    mark.deferred = this.deferred.length;
    return mark;
  }

  /** What came after `mark` alone does not fit a RESULT. */
  private full(mark: Mark): boolean {
    const { length } = this;
    const bytes = length - mark.opBytes - mark.outputBytes - mark.timerBytes - mark.visitBytes;
    const elements = this.ops.length + this.outputCount + this.headerCount + this.timerCount + this.visitCount -
      mark.ops - mark.outputs - mark.headers - mark.timers - mark.visits;
    return bytes > Math.min(this.schema.frameCap, DEFAULT_FRAME_CAP) - RESULT_RESERVE || elements > MAX_ELEMENTS / 2;
  }

  /** Bytes of what is staged. */
  private get length(): number {
    return this.opBytes + this.outputs.length + this.timers.length + this.visits.length;
  }

  private undo(mark: Mark): void {
    while (this.ops.length > mark.ops) {
      const op = this.ops.pop()!;
      op.slot.value = op.beforeValue;
      op.slot.op = op.beforeOp;
    }
    this.toldOps = Math.min(this.toldOps, mark.ops);
    this.opBytes = mark.opBytes;
    this.outputs.truncate(mark.outputBytes);
    this.outputCount = mark.outputs;
    this.headerCount = mark.headers;
    this.timers.truncate(mark.timerBytes);
    this.timerCount = mark.timers;
    this.visits.truncate(mark.visitBytes);
    this.visitCount = mark.visits;
    this.deferred.length = mark.deferred;
  }

  /** RESULT: the last write of each key, the outputs, the timers, what was done to visits. */
  private result(done: number, failure: Failure | undefined): Buffer {
    const last = this.ops.filter((op, index) => op.slot.op === index);
    const byStore = new Map<number, Op[]>();
    for (const op of last) {
      const ops = byStore.get(op.store);
      if (ops === undefined) byStore.set(op.store, [op]);
      else ops.push(op);
    }
    const fields = this.visitCount > 0 ? 7 : this.timerCount > 0 ? 6 : 5;
    const w = new Writer(this.length + 256);
    w.raw(Buffer.alloc(LENGTH_BYTES)).list(fields + 1).int(Kind.RESULT).int(this.frame.seq).int(done);
    writeFailure(w, failure);
    w.map(byStore.size);
    for (const [store, ops] of byStore) {
      w.int(store).list(ops.length);
      for (const op of ops) w.list(2).bin(op.key).maybeBin(op.value);
    }
    w.list(this.outputCount).raw(this.outputs.bytes);
    if (fields > 5) w.list(this.timerCount).raw(this.timers.bytes);
    if (fields > 6) w.list(this.visitCount).raw(this.visits.bytes);
    const whole = w.bytes;
    whole.writeUInt32BE(whole.length - LENGTH_BYTES);
    return whole;
  }
}

/** How far a batch had come. */
class Mark {
  ops = 0;
  opBytes = 0;
  outputBytes = 0;
  outputs = 0;
  headers = 0;
  timerBytes = 0;
  timers = 0;
  visitBytes = 0;
  visits = 0;
  deferred = 0;
}
/** The beginning of a batch. */
const BEGINNING = new Mark();

/** What tells the rows of a key apart: a window's start, a session's bounds. */
function rowId({ start, end }: Bounds, isSession: boolean): Int | string {
  return isSession ? `${start} ${end}` : start;
}

function prefetched(value: Prefetched | undefined): Buffer | null | undefined {
  return value === NOT_PREFETCHED ? undefined : value;
}

function latin1(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.length).toString("latin1");
}

function pendingId(key: Uint8Array, clock: number, name: string): string {
  return `${clock}/${name.length}/${name}${latin1(key)}`;
}

function writeFailure(w: Writer, failure: Failure | undefined): void {
  if (failure === undefined) return void w.nil();
  w.map(4).str("class").str(failure.class).str("error").str(failure.error).str("message").str(failure.message);
  w.str("retriable").bool(failure.retriable);
}

/** A RESULT without effect: the end of a batch that no longer counts. */
export function emptyResult(seq: BatchFrame["seq"]): Buffer {
  const w = new Writer(32);
  w.raw(Buffer.alloc(LENGTH_BYTES)).list(6).int(Kind.RESULT).int(seq).int(0).nil().map(0).list(0);
  const whole = w.bytes;
  whole.writeUInt32BE(whole.length - LENGTH_BYTES);
  return whole;
}
