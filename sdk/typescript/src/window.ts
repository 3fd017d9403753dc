import type { Codecs } from "./app.js";
import type { Slot } from "./batch.js";
import { HOOK, type Bounds, type ClosingItem, type OpenWindow } from "./batch_frame.js";
import type { Context } from "./context.js";
import { MillstreamError, OutputError } from "./errors.js";
import { sessionRow, windowRow } from "./row_keys.js";
import { Table } from "./table.js";

/** A row of a windowed store, as a handler sees it. */
abstract class TimedRow<K, V> {
  /** @internal */
  constructor(
    protected readonly ctx: Context, protected readonly table: Table<K, V>, private readonly rawKey: Buffer, protected readonly slot: Slot,
    private readonly row: Buffer, private readonly bounds: Bounds,
  ) {}

  /** Whose it is. */
  get key(): K {
    return this.table.decodeKey(this.rawKey);
  }

  /** In milliseconds since 1970. */
  get start(): number {
    return Number(this.bounds.start);
  }

  /** In milliseconds since 1970. */
  get end(): number {
    return Number(this.bounds.end);
  }

  /** Writes the value. Throws OutputError if it cannot be encoded or is beyond the store's limit; the record then fails. */
  set(value: V): void {
    const id = this.table.bind(this.ctx);
    this.write(id, this.table.encodeValue(this.ctx, id, this.row, value));
  }

  /** Forgets the value. */
  delete(): void {
    this.write(this.table.bind(this.ctx), null);
  }

  protected async read(): Promise<V | undefined> {
    const id = this.table.bind(this.ctx);
    if (this.slot.value === undefined) await this.ctx.batch.fetch(id, [this.row], [this.slot]);
    return this.table.decode(this.row, this.slot.value ?? null);
  }

  private write(id: number, value: Uint8Array | null): void {
    if (this.ctx.item.kind === HOOK) {
      throw this.ctx.fail(new OutputError(`${this.table.place}: hooks on transactions cannot write to windows, which belong to the time of a record`));
    }
    this.ctx.batch.write(this.ctx, id, this.slot, this.row, value);
  }
}

/** A window of one key, from `start` up to before `end`. Valid during the handler's call. */
export class Window<K, V> extends TimedRow<K, V> {
  /** Its value, undefined if it has none. Changing it changes nothing: write it back with set(). */
  get(): Promise<V | undefined> {
    return this.read();
  }
}

/** A window that closes, with its last value. */
export class ClosedWindow<K, V> extends Window<K, V> {
  /** @internal */
  constructor(ctx: Context, table: Table<K, V>, rawKey: Buffer, slot: Slot, row: Buffer, bounds: Bounds, private readonly item: ClosingItem) {
    super(ctx, table, rawKey, slot, row, bounds);
  }

  /** Its last value; what get() gives, without waiting. */
  get value(): V {
    return this.table.decode(this.ctx.key!, this.slot.value!)!;
  }

  /** 1 for the first try, one more after each failure. */
  get attempt(): number {
    return this.item.attempt;
  }
}

/** A session that closes, from its first record to its last, with its last value. */
export class ClosedSession<K, V> extends TimedRow<K, V> {
  /** @internal */
  constructor(ctx: Context, table: Table<K, V>, rawKey: Buffer, slot: Slot, row: Buffer, bounds: Bounds, private readonly item: ClosingItem) {
    super(ctx, table, rawKey, slot, row, bounds);
  }

  /** Its last value; undefined if nothing was written to it. */
  get value(): V | undefined {
    const { value } = this.slot;
    return this.table.decode(this.ctx.key!, value != null && value.length > 0 ? value : null);
  }

  /** 1 for the first try, one more after each failure. */
  get attempt(): number {
    return this.item.attempt;
  }
}

/** A plain or async function. See App.onClose. */
export type CloseHandler<K, V> = (ctx: Context, window: ClosedWindow<K, V>) => void | Promise<void>;

/** A plain or async function. See App.onClose. */
export type CloseSessionHandler<K, V> = (ctx: Context, session: ClosedSession<K, V>) => void | Promise<void>;

/** Of one store: what makes the row that closes is what the handler takes. @internal */
export interface RegisteredClosing {
  store: { readonly name: string; closed(ctx: Context, item: ClosingItem): Promise<unknown> };
  handle: (ctx: Context, closed: never) => void | Promise<void>;
}

/**
 * A handle on a store of type Window: a value for each window of time of each key; made by App.windowStore.
 *
 * ```ts
 * for (const window of perMinute.windows(ctx)) window.set(((await window.get()) ?? 0) + 1);
 * ```
 */
export class WindowStore<K, V> {
  private readonly table: Table<K, V>;
  /** @internal */
  constructor(name: string, codecs: Codecs<K, V>) {
    this.table = new Table(name, codecs, "Window");
  }

  get name(): string {
    return this.table.name;
  }

  /** @internal */
  get codecs(): Codecs<K, V> {
    return this.table.codecs;
  }

  /**
   * The open windows that the record belongs to, in the order of their beginning: one, or several if they overlap; none if the record
   * is late for all, or has no key. Of a window that closes: that one.
   */
  windows(ctx: Context): Window<K, V>[] {
    const id = this.table.bind(ctx);
    return openWindows(ctx, id).map((open) => new Window(ctx, this.table, ctx.key!, ctx.batch.ownRow(id, open), windowRow(ctx.key!, open.start), open));
  }

  /**
   * The window that begins at `start` (milliseconds since 1970), of the record's key or another one of the task: open or not, as long
   * as it is kept. Throws OutputError if no window of the store begins there.
   */
  window(ctx: Context, start: number, key?: K): Window<K, V> {
    const id = this.table.bind(ctx);
    const { size, advance } = ctx.batch.schema.tables[id]!;
    if (!Number.isSafeInteger(start) || (advance > 0 && start % advance !== 0)) {
      throw ctx.fail(new OutputError(`${this.table.place}: no window begins at ${start}; windows begin at multiples of ${advance} ms`));
    }
    const raw = Buffer.from(this.table.rawKey(ctx, key));
    const [row, bounds] = [windowRow(raw, start), { start, end: start + size }];
    return new Window(ctx, this.table, raw, ctx.batch.anyRow(id, raw, bounds, row), row, bounds);
  }

  /** The window that closes; undefined if an earlier item of the batch has deleted its value. @internal */
  async closed(ctx: Context, item: ClosingItem): Promise<ClosedWindow<K, V> | undefined> {
    const id = this.table.bind(ctx);
    const [open] = item.windows!;
    const row = windowRow(ctx.key!, open!.start);
    const slot = ctx.batch.closingRow(item);
    if (slot.value === undefined) await ctx.batch.fetch(id, [row], [slot]);
    return slot.value === null ? undefined : new ClosedWindow(ctx, this.table, ctx.key!, slot, row, open!, item);
  }
}

/** Makes one value of two, the earlier one first. */
export type Merge<V> = (earlier: V, later: V) => V;

/** The session that a record belongs to, from its first record to its last, this one included. Valid during the handler's call. */
export class Session<K, V> extends TimedRow<K, V> {
  /** @internal */
  constructor(
    ctx: Context, table: Table<K, V>, slot: Slot, row: Buffer, private readonly open: OpenWindow, private readonly merge: (values: V[]) => V,
  ) {
    super(ctx, table, ctx.key!, slot, row, open);
  }

  /**
   * The values of the sessions that it is made of, in the order of time: none for a first record, several where the record connects
   * some. After set() the one that was written.
   */
  async values(): Promise<V[]> {
    const raw = await this.ctx.batch.sessionValues(this.open);
    return raw.map((data) => this.table.decode(this.ctx.key!, data)!);
  }

  /** The value so far, merged if there are several; undefined if there is none. Throws if the store does not say how to merge. */
  async get(): Promise<V | undefined> {
    const values = await this.values();
    return values.length > 1 ? this.merge(values) : values[0];
  }
}

/** What App.sessionStore takes. */
export interface SessionOptions<K, V> extends Codecs<K, V> {
  /** Makes one value of those of two sessions that a record connects, the earlier one first. Without it the handler has to write one. */
  merge?: Merge<V>;
}

/**
 * A handle on a store of type Session: a value for each session of each key, that is for records with no gap between them; made by
 * App.sessionStore.
 *
 * ```ts
 * const visit = visits.session(ctx);
 * visit?.set(((await visit.get()) ?? 0) + 1);
 * ```
 *
 * A record that connects sessions makes one of them. If its handler does not write the value: one value stays as it is, several are
 * merged, or fail the record where nothing says how.
 */
export class SessionStore<K, V> {
  private readonly table: Table<K, V>;
  private readonly merge: Merge<V> | undefined;
  /** @internal */
  constructor(name: string, options: SessionOptions<K, V>) {
    this.table = new Table(name, options, "Session");
    this.merge = options.merge;
  }

  get name(): string {
    return this.table.name;
  }

  /** @internal */
  get codecs(): Codecs<K, V> {
    return this.table.codecs;
  }

  /** The session that the record belongs to; undefined if it is late, or has no key. Of a session that closes: that one. */
  session(ctx: Context): Session<K, V> | undefined {
    const id = this.table.bind(ctx);
    const [open] = openWindows(ctx, id);
    if (open === undefined) return undefined;
    const row = sessionRow(ctx.key!, open.start, open.end);
    return new Session(ctx, this.table, ctx.batch.ownRow(id, open), row, open, (values) => this.merged(values));
  }

  /** The session that closes. @internal */
  async closed(ctx: Context, item: ClosingItem): Promise<ClosedSession<K, V>> {
    const id = this.table.bind(ctx);
    const [session] = item.windows!;
    const row = sessionRow(ctx.key!, session!.start, session!.end);
    const slot = ctx.batch.closingRow(item);
    if (slot.value === undefined) await ctx.batch.fetch(id, [row], [slot]);
    return new ClosedSession(ctx, this.table, ctx.key!, slot, row, session!, item);
  }

  /** The values of sessions that nobody wrote, as one; it may be beyond the store's limit. @internal */
  mergeRaw(ctx: Context, row: Buffer, values: readonly Buffer[]): Uint8Array {
    const id = this.table.bind(ctx);
    return this.table.encodeValue(ctx, id, row, this.merged(values.map((data) => this.table.decode(ctx.key!, data)!)));
  }

  private merged(values: V[]): V {
    const { merge } = this;
    if (merge === undefined) throw cannotMerge(this.name, values.length);
    return values.reduce((earlier, later) => merge(earlier, later));
  }
}

/** @internal */
export function cannotMerge(store: string, values: number): MillstreamError {
  return new MillstreamError(
    `store "${store}": the record connects ${values} sessions with values, and nobody says what becomes of them; ` +
    "write the value of the session in the handler, or say how to merge: app.sessionStore(name, { ..., merge: (a, b) => ... })");
}

function openWindows(ctx: Context, store: number): readonly OpenWindow[] {
  return ctx.item.windows?.filter((open) => open.store === store) ?? [];
}
