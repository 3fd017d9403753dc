import type { Codecs } from "./app.js";
import type { Slot } from "./batch.js";
import type { TableKind } from "./batch_frame.js";
import type { Codec } from "./codecs.js";
import type { Context } from "./context.js";
import { MillstreamError, NoKeyError, OutputError, UndeclaredError } from "./errors.js";
import type { Schema } from "./schema.js";

/** Keys from `from` up to before `to`, or all that begin with `prefix`, in the order of their bytes. */
export interface Range<K> {
  /** The first key; default: the first there is. */
  from?: K;
  /** The first key that is not wanted any more; default: none. */
  to?: K;
  /** Instead of `from` and `to`. */
  prefix?: K;
  /** How many rows at most; 0, the default: all. */
  limit?: number;
  /** From the last key to the first. */
  reverse?: boolean;
}

const DECLARED_UNDER: { readonly [kind in TableKind]: string } = {
  KeyValue: "spec.stores", Window: "spec.stores with type: Window", Session: "spec.stores with type: Session", join: "spec.joins", lookup: "spec.lookups",
};

/**
 * What stores, joins and lookups have in common: reading. Without a key, that of the record being handled is meant; a record without
 * one throws NoKeyError then.
 */
export class Table<K, V> {
  private schema: Schema | undefined;
  private id = 0;
  /** Its name in the manifest. */
  readonly name: string;
  /** @internal */ readonly codecs: Codecs<K, V>;
  /** @internal */ readonly kind: TableKind;
  /** @internal */
  constructor(name: string, codecs: Codecs<K, V>, kind: TableKind) {
    this.name = name;
    this.codecs = codecs;
    this.kind = kind;
  }

  /** The value of a key, undefined if there is none. Changing it changes nothing. */
  async get(ctx: Context, key?: K): Promise<V | undefined> {
    const id = this.bind(ctx);
    const raw = this.rawKey(ctx, key);
    const slot = ctx.batch.slot(id, raw, key === undefined);
    if (slot.value === undefined) await ctx.batch.fetch(id, [raw], [slot]);
    return this.decode(raw, slot.value ?? null);
  }

  /** The values of several keys, in their order, in as few round trips as possible. */
  async getMany(ctx: Context, keys: readonly K[]): Promise<(V | undefined)[]> {
    const id = this.bind(ctx);
    const raws = keys.map((key) => this.rawKey(ctx, key));
    const slots = raws.map((raw) => ctx.batch.slot(id, raw, false));
    const missing = new Map<Slot, Uint8Array>();
    slots.forEach((slot, n) => slot.value === undefined && missing.set(slot, raws[n]!));
    if (missing.size > 0) await ctx.batch.fetch(id, [...missing.values()], [...missing.keys()]);
    return slots.map((slot, n) => this.decode(raws[n]!, slot.value ?? null));
  }

  /** The rows of a range, paged as they are read: `for await (const [key, value] of store.scan(ctx, { prefix: "a" }))`. */
  async *scan(ctx: Context, range: Range<K> = {}): AsyncGenerator<[K, V]> {
    const id = this.bind(ctx);
    const [from, to] = this.bounds(ctx, range);
    const limit = range.limit ?? 0;
    let cursor: Uint8Array | null = null;
    for (let given = 0; ; ) {
      const page = await ctx.batch.scan({ store: id, from, to, limit: limit > 0 ? limit - given : 0, reverse: range.reverse ?? false, cursor });
      for (const [key, value] of page.rows) {
        yield [this.decodeKey(key), this.decode(key, value)!];
        if (++given === limit) return;
      }
      if (page.cursor === null) return;
      cursor = page.cursor;
    }
  }

  private bounds(ctx: Context, range: Range<K>): [Uint8Array | null, Uint8Array | null] {
    const raw = (key: K | undefined): Uint8Array | null => (key === undefined ? null : this.encodeKey(ctx, key));
    if (range.prefix === undefined) return [raw(range.from), raw(range.to)];
    if (range.from !== undefined || range.to !== undefined) throw new TypeError(`${this.place}: a scan takes either prefix or from and to`);
    const prefix = raw(range.prefix)!;
    return [prefix, afterPrefix(prefix)];
  }

  /** Its id in this session. @internal */
  bind(ctx: Context): number {
    ctx.batch.checkValid();
    const { schema } = ctx.batch;
    if (this.schema !== schema) {
      const id = schema.tableId(this.name, this.kind);
      if (id < 0) {
        throw ctx.fail(new UndeclaredError(
          `no ${this.place} in the manifest; declared: ${schema.declared(this.kind)}. Add it under ${DECLARED_UNDER[this.kind]} to use it`));
      }
      this.schema = schema;
      this.id = id;
    }
    return this.id;
  }

  /** @internal */
  rawKey(ctx: Context, key: K | undefined): Uint8Array {
    if (key !== undefined) return this.encodeKey(ctx, key);
    if (ctx.key === null) {
      throw new NoKeyError(`${this.place}: the record has no key, so there is no default key for state; name one, or send records with keys`);
    }
    return ctx.key;
  }

  private encodeKey(ctx: Context, key: K): Uint8Array {
    return this.encode(ctx, "key", this.codecs.key, key);
  }

  /** A value's bytes, within the limit of the table, which counts the key of its row as well. @internal */
  encodeValue(ctx: Context, id: number, row: Uint8Array, value: V): Uint8Array {
    if (value === null || value === undefined) throw ctx.fail(new OutputError(`${this.place}: ${value} cannot be stored; use delete()`));
    const data = this.encode(ctx, "value", this.codecs.value, value);
    const most = ctx.batch.schema.tables[id]!.max;
    const size = row.length + data.length;
    if (size > most) throw ctx.fail(new OutputError(`${this.place}: a key and its value have ${size} bytes, the limit is ${most}`));
    return data;
  }

  private encode<T>(ctx: Context, what: string, codec: Codec<T>, value: T): Uint8Array {
    try {
      return codec.encode(value);
    } catch (error) {
      throw ctx.fail(new OutputError(`${this.place}: a ${what} cannot be encoded as ${codec.name}: ${(error as Error).message}`));
    }
  }

  /** @internal */
  decode(key: Uint8Array, data: Buffer | null): V | undefined {
    if (data === null) return undefined;
    try {
      return this.codecs.value.decode(data);
    } catch (error) {
      throw new MillstreamError(
        `${this.place}: the value of key ${JSON.stringify(Buffer.from(key).toString("utf8").slice(0, 80))} is not ` +
        `${this.codecs.value.name}: ${(error as Error).message}. Was the codec changed?`);
    }
  }

  /** @internal */
  decodeKey(raw: Buffer): K {
    try {
      return this.codecs.key.decode(raw);
    } catch (error) {
      throw new MillstreamError(`${this.place}: a key is not ${this.codecs.key.name}: ${(error as Error).message}`);
    }
  }

  /** What it is called in messages. @internal */
  get place(): string {
    return `${this.kind === "join" || this.kind === "lookup" ? this.kind : "store"} "${this.name}"`;
  }
}

/** The first byte string after all that begin with `prefix`; null if there is none. */
export function afterPrefix(prefix: Uint8Array): Uint8Array | null {
  for (let end = prefix.length; end > 0; --end) {
    if (prefix[end - 1] === 0xff) continue;
    const after = new Uint8Array(prefix.subarray(0, end)); // a copy: slice of a Buffer is a view
    after[end - 1]! += 1;
    return after;
  }
  return null;
}
