// One batch in flight: what its items know and stage, and its RESULT.
import { Context, Record } from "./context.js";
import { BatchVoided, OutputError } from "./errors.js";
import { failureOf } from "./failures.js";
import type { Schema } from "./schema.js";
import { DEFAULT_FRAME_CAP, FLAG_TRACE, Kind, LENGTH_BYTES, MAX_ELEMENTS, NOT_PREFETCHED, Writer, type BatchFrame, type Failure, type ScanRequest } from "./wire.js";

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

/** What is known of one key in one store: undefined is nothing, null that it is absent. */
export interface Slot {
  value: Uint8Array | null | undefined;
  /** The last write in `ops`, -1 for none. */
  op: number;
}

interface Op {
  store: number;
  item: number;
  key: Uint8Array;
  value: Uint8Array | null;
  slot: Slot;
  beforeValue: Slot["value"];
  beforeOp: number;
}

/**
 * The prefix rule: items run in order; the first that fails ends the batch, what it staged is undone, the items before it
 * count. A batch whose RESULT would not fit a frame ends early without failure: the sidecar sends the rest again.
 */
export class BatchRun {
  /** Items finished, for EXTEND. */
  done = 0;
  void = false;
  private controller: AbortController | undefined;
  private readonly ctx = new Context(this);
  private readonly slots: (Slot[] | undefined)[];
  private readonly others: (Map<string, Slot> | undefined)[];
  private keyIndex: Map<string, number> | undefined;
  private readonly ops: Op[] = [];
  private toldOps = 0;
  private readonly outputs = new Writer(1024);
  private outputCount = 0;
  private opBytes = 0;
  private headerCount = 0;

  constructor(readonly schema: Schema, private readonly link: Link, readonly frame: BatchFrame) {
    this.slots = new Array(schema.stores.length).fill(undefined);
    this.others = new Array(schema.stores.length).fill(undefined);
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

  /** Handles the items and gives the RESULT frame. Rejects with BatchVoided only. */
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
      const port = inputs[item.input]!;
      ctx.item = item;
      ctx.index = index;
      ctx.key = item.key < 0 ? null : keys[item.key]!;
      ctx.failed = undefined;
      const mark = this.mark();
      let error: unknown;
      let failed = false;
      try {
        const pending = port.registered.handle(ctx, new Record(item, ctx.key, port, task));
        if (pending !== undefined) await pending;
      } catch (thrown) {
        error = thrown;
        failed = true;
      }
      this.checkValid();
      if (ctx.failed !== undefined) {
        error = ctx.failed;
        failed = true;
      }
      if (!failed && this.full(mark.zero)) {
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
      const now = performance.now();
      if (now - turn > TURN_MS && this.done < items.length) {
        await new Promise(setImmediate);
        turn = performance.now();
      }
    }
    this.checkValid();
    return this.result(this.done, failure);
  }

  // -- for stores and outputs

  /** The slot of a key; made if it is none of the batch's. `own`: it is the record's. */
  slot(store: number, key: Uint8Array, own: boolean): Slot {
    if (own) return this.slotsOf(store)[this.ctx.item.key]!;
    if (this.keyIndex === undefined) {
      this.keyIndex = new Map(this.frame.keys.map((known, index) => [known.toString("latin1"), index]));
    }
    const text = Buffer.from(key.buffer, key.byteOffset, key.length).toString("latin1");
    const index = this.keyIndex.get(text);
    if (index !== undefined) return this.slotsOf(store)[index]!;
    const others = (this.others[store] ??= new Map<string, Slot>());
    let slot = others.get(text);
    if (slot === undefined) others.set(text, (slot = { value: undefined, op: -1 }));
    return slot;
  }

  /** Stages a write; null deletes. */
  write(ctx: Context, store: number, slot: Slot, key: Uint8Array, value: Uint8Array | null): void {
    this.ops.push({ store, item: ctx.index, key, value, slot, beforeValue: slot.value, beforeOp: slot.op });
    slot.value = value;
    slot.op = this.ops.length - 1;
    this.opBytes += key.length + (value?.length ?? 0) + WRITE_OVERHEAD;
  }

  /** Stages an output. */
  stage(headers: number, write: (w: Writer) => void): void {
    write(this.outputs);
    this.outputCount += 1;
    this.headerCount += headers;
  }

  /** Asks for keys that are not known and fills their slots. */
  async fetch(store: number, keys: readonly Uint8Array[]): Promise<void> {
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
      asked.forEach((key, n) => (this.slot(store, key, false).value = values[n]!));
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
      const known = this.frame.state[store];
      slots = this.frame.keys.map((_, index) => {
        const value = known?.[index];
        return { value: value === NOT_PREFETCHED ? undefined : (value as Buffer | null | undefined), op: -1 };
      });
      this.slots[store] = slots;
    }
    return slots;
  }

  private mark(): Mark {
    return new Mark(this.ops.length, this.opBytes, this.outputs.length, this.outputCount, this.headerCount);
  }

  /** What came after `mark` alone does not fit a RESULT. */
  private full(mark: Mark): boolean {
    const bytes = this.opBytes + this.outputs.length - mark.opBytes - mark.outputBytes;
    const elements = this.ops.length + this.outputCount + this.headerCount - mark.ops - mark.outputs - mark.headers;
    return bytes > Math.min(this.schema.frameCap, DEFAULT_FRAME_CAP) - RESULT_RESERVE || elements > MAX_ELEMENTS / 2;
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
  }

  /** RESULT: the last write of each key, and the outputs. */
  private result(done: number, failure: Failure | undefined): Buffer {
    const last = this.ops.filter((op, index) => op.slot.op === index);
    const byStore = new Map<number, Op[]>();
    for (const op of last) {
      const ops = byStore.get(op.store);
      if (ops === undefined) byStore.set(op.store, [op]);
      else ops.push(op);
    }
    const w = new Writer(this.opBytes + this.outputs.length + 256);
    w.raw(Buffer.alloc(LENGTH_BYTES)).list(6).int(Kind.RESULT).int(this.frame.seq).int(done);
    writeFailure(w, failure);
    w.map(byStore.size);
    for (const [store, ops] of byStore) {
      w.int(store).list(ops.length);
      for (const op of ops) w.list(2).bin(op.key).maybeBin(op.value);
    }
    w.list(this.outputCount).raw(this.outputs.bytes);
    const whole = w.bytes;
    whole.writeUInt32BE(whole.length - LENGTH_BYTES);
    return whole;
  }
}

class Mark {
  constructor(
    readonly ops: number, readonly opBytes: number, readonly outputBytes: number, readonly outputs: number, readonly headers: number,
  ) {}

  /** The beginning of the batch. */
  get zero(): Mark {
    return BEGINNING;
  }
}
const BEGINNING = new Mark(0, 0, 0, 0, 0);

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
