import { HOOK, type VisitItem } from "./batch_frame.js";
import type { Codec } from "./codecs.js";
import type { Context } from "./context.js";
import { ConfigError, DecodeError, OutputError, UndeclaredError, listed } from "./errors.js";
import type { Store } from "./store.js";

/** The capability of HELLO by which a program says that it takes rows of visits. */
export const VISITS = "visits";
/** The protocol's limit of what a visit is started with. */
const MAX_DATA_BYTES = 4096;

/** What an op on a visit does, as RESULT has it. */
export const START = 0;
export const STOP = 1;
export const PAUSE = 2;
export const RESUME = 3;

/** A plain or async function. See App.onVisit. */
export type VisitHandler<K, V, D> = (ctx: Context, row: Visited<K, V, D>) => void | Promise<void>;
/** A plain or async function. See App.onVisitEnd. */
export type VisitEndHandler<D> = (ctx: Context, end: VisitEnd<D>) => void | Promise<void>;

/** @internal */
export interface RegisteredVisit {
  visit: Visit<unknown, unknown, unknown>;
  handle?: VisitHandler<unknown, unknown, unknown>;
  handleEnd?: VisitEndHandler<unknown>;
}

/**
 * A handle on a visit of the manifest: a walk over all rows of a store in this task, beside the input; made by App.visit. Starting,
 * stopping, pausing and resuming count if the record does that asked for it, and from that record on. A walk survives everything that
 * state survives, and goes on behind the rows that are committed.
 */
export class Visit<K, V, D> {
  /** Its name in the manifest. */
  readonly name: string;
  /** @internal */ readonly store: Store<K, V>;
  /** @internal */
  constructor(name: string, store: Store<K, V>, private readonly codec: Codec<D>) {
    this.name = name;
    this.store = store;
  }

  /**
   * Begins a walk; one that is under way begins anew, one that is paused as well. `data` comes with every row, at most 4096 bytes of it.
   * Throws OutputError (data that cannot be encoded or is too long, in a hook) or UndeclaredError; the record then fails.
   */
  start(ctx: Context, data?: D): void {
    this.stage(ctx, START, data === undefined ? null : this.encode(ctx, data));
  }

  /** Ends a walk where it is: neither a row nor its end comes any more. Stopping what does not run is fine. */
  stop(ctx: Context): void {
    this.stage(ctx, STOP, null);
  }

  /** Holds a walk where it is, until resume, start or stop. */
  pause(ctx: Context): void {
    this.stage(ctx, PAUSE, null);
  }

  /** Lets a paused walk go on. */
  resume(ctx: Context): void {
    this.stage(ctx, RESUME, null);
  }

  private stage(ctx: Context, what: number, data: Uint8Array | null): void {
    ctx.batch.checkValid();
    const { schema } = ctx.batch;
    const id = schema.visitId(this.name);
    if (id < 0) {
      throw ctx.fail(new UndeclaredError(
        `no visit "${this.name}" in the manifest; declared: ${listed(schema.visits.map(({ name }) => name))}. Add it under spec.visits to use it`));
    }
    if (ctx.item.kind === HOOK) throw ctx.fail(new OutputError(`visit "${this.name}": hooks on transactions cannot start or stop visits, which belong to the time of a record`));
    if (data !== null && data.length > MAX_DATA_BYTES) {
      throw ctx.fail(new OutputError(`visit "${this.name}": its data has ${data.length} bytes, the limit is ${MAX_DATA_BYTES}`));
    }
    ctx.batch.stageVisit(id, what, data);
  }

  private encode(ctx: Context, data: D): Uint8Array {
    try {
      return this.codec.encode(data);
    } catch (error) {
      throw ctx.fail(new OutputError(`visit "${this.name}": its data cannot be encoded as ${this.codec.name}: ${(error as Error).message}`));
    }
  }

  /** @internal */
  encodeRaw(data: D): Uint8Array {
    return this.codec.encode(data);
  }

  /** @internal */
  decodeData(data: Buffer | null): D | undefined {
    if (data === null) return undefined;
    try {
      return this.codec.decode(data);
    } catch (error) {
      throw new DecodeError(`the data of visit "${this.name}" is not ${this.codec.name}: ${(error as Error).message}`);
    }
  }

  /** The row of an item; undefined if an earlier one of the batch deleted it. @internal */
  async visited(ctx: Context, item: VisitItem): Promise<Visited<K, V, D> | undefined> {
    const value = await this.store.get(ctx);
    return value === undefined ? undefined : new Visited(item, ctx.key!, value, this);
  }
}

/** A row that a visit has come to. State and outputs are as for a record of its key; outputs get the time of the start. Read-only. */
export class Visited<K, V, D> {
  /** The key's bytes; do not change them. */
  readonly rawKey: Buffer;
  /** The row's value, as it is now. Store.set without a key writes it. */
  readonly value: V;
  /** @internal */
  constructor(private readonly item: VisitItem, rawKey: Buffer, value: V, private readonly of: Visit<K, V, D>) {
    this.rawKey = rawKey;
    this.value = value;
  }

  /** The visit's name in the manifest. */
  get visit(): string {
    return this.of.name;
  }

  get key(): K {
    return this.of.store.decodeKey(this.rawKey);
  }

  /** What Visit.start was given. Throws DecodeError. */
  get data(): D | undefined {
    return this.of.decodeData(this.item.data);
  }

  /** When the visit was started, in milliseconds since 1970: the time of the record that did. */
  get time(): number {
    return this.item.timestamp;
  }

  /** 1 for the first try, one more after each failure. */
  get attempt(): number {
    return this.item.attempt;
  }
}

/** A visit has come to the end of the task's rows. It has no key: state needs one named. Read-only. */
export class VisitEnd<D> {
  /** @internal */
  constructor(private readonly item: VisitItem, private readonly of: Visit<unknown, unknown, D>) {}

  /** The visit's name in the manifest. */
  get visit(): string {
    return this.of.name;
  }

  /** What Visit.start was given. Throws DecodeError. */
  get data(): D | undefined {
    return this.of.decodeData(this.item.data);
  }

  /** When the visit was started, in milliseconds since 1970. */
  get time(): number {
    return this.item.timestamp;
  }

  /** 1 for the first try, one more after each failure. */
  get attempt(): number {
    return this.item.attempt;
  }
}

/** What program and manifest have to agree on. @internal */
export function checkVisits(registered: ReadonlyMap<string, RegisteredVisit>, visits: readonly { name: string; store: string }[]): void {
  for (const { name, store } of visits) {
    const found = registered.get(name);
    if (found?.handle === undefined) {
      throw new ConfigError(`the manifest declares visit "${name}", for which the program has no handler; add app.onVisit(...)`);
    }
    if (found.visit.store.name !== store) {
      throw new ConfigError(`visit "${name}" walks store "${store}" in the manifest, and "${found.visit.store.name}" in the program`);
    }
  }
  for (const [name, { visit }] of registered) {
    if (!visits.some((known) => known.name === name)) {
      throw new ConfigError(`the program handles visit "${name}", which the manifest does not declare; add {name: ${name}, store: ${visit.store.name}} ` +
        `to spec.visits. Visits: ${listed(visits.map((known) => known.name))}`);
    }
  }
}
