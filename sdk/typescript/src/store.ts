import type { Slot } from "./batch.js";
import type { Codec } from "./codecs.js";
import type { Codecs } from "./app.js";
import type { Context } from "./context.js";
import { MillstreamError, NoKeyError, OutputError, UndeclaredError, listed } from "./errors.js";
import type { Schema } from "./schema.js";

/** Keys from `from` up to before `to`, or all that begin with `prefix`, in the order of their bytes. */
export interface Range<K> {
  from?: K;
  to?: K;
  prefix?: K;
  /** 0: all. */
  limit?: number;
  reverse?: boolean;
}

/**
 * A handle on a state store. Without a key its methods mean the key of the record being handled, and throw NoKeyError for a
 * record without one. Keys belong to the task of the record. Reads see what the batch has written before; writes count only if
 * their record succeeds.
 */
export class Store<K, V> {
  private schema: Schema | undefined;
  private id = 0;
  /** @internal */
  constructor(readonly name: string, private readonly codecs: Codecs<K, V>) {}

  /** The value of a key, undefined if there is none. Changing it changes nothing: write it back with set(). */
  async get(ctx: Context, key?: K): Promise<V | undefined> {
    const id = this.bind(ctx);
    const raw = this.rawKey(ctx, key);
    const slot = ctx.batch.slot(id, raw, key === undefined);
    if (slot.value === undefined) await ctx.batch.fetch(id, [raw]);
    return this.decode(raw, slot.value as Buffer | null);
  }

  /** The values of several keys, in their order, in as few round trips as possible. */
  async getMany(ctx: Context, keys: readonly K[]): Promise<(V | undefined)[]> {
    const id = this.bind(ctx);
    const raws = keys.map((key) => this.rawKey(ctx, key));
    const slots = raws.map((raw) => ctx.batch.slot(id, raw, false));
    const missing = new Map<Slot, Uint8Array>();
    slots.forEach((slot, n) => slot.value === undefined && missing.set(slot, raws[n]!));
    if (missing.size > 0) await ctx.batch.fetch(id, [...missing.values()]);
    return slots.map((slot, n) => this.decode(raws[n]!, slot.value as Buffer | null));
  }

  /** Writes a value. Throws OutputError if it cannot be encoded or is beyond the store's limit; the record then fails. */
  set(ctx: Context, value: V, key?: K): void {
    const id = this.bind(ctx);
    const raw = this.rawKey(ctx, key);
    if (value === null || value === undefined) throw ctx.fail(new OutputError(`store "${this.name}": ${value} cannot be stored; use delete()`));
    const data = this.encode(ctx, "value", this.codecs.value, value);
    const most = ctx.batch.schema.stores[id]!.max;
    if (data.length > most) throw ctx.fail(new OutputError(`store "${this.name}": a value has ${data.length} bytes, the limit is ${most}`));
    ctx.batch.write(ctx, id, ctx.batch.slot(id, raw, key === undefined), raw, data);
  }

  /** Forgets a key. Deleting what is not there is fine. */
  delete(ctx: Context, key?: K): void {
    const id = this.bind(ctx);
    const raw = this.rawKey(ctx, key);
    ctx.batch.write(ctx, id, ctx.batch.slot(id, raw, key === undefined), raw, null);
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
    const raw = (key: K | undefined): Uint8Array | null => (key === undefined ? null : this.encode(ctx, "key", this.codecs.key, key));
    if (range.prefix === undefined) return [raw(range.from), raw(range.to)];
    if (range.from !== undefined || range.to !== undefined) throw new TypeError(`store "${this.name}": a scan takes either prefix or from and to`);
    const prefix = raw(range.prefix)!;
    return [prefix, afterPrefix(prefix)];
  }

  /** The id of the store in this session. */
  private bind(ctx: Context): number {
    ctx.batch.checkValid();
    const schema = ctx.batch.schema;
    if (this.schema !== schema) {
      const id = schema.storeIds.get(this.name);
      if (id === undefined) {
        throw ctx.fail(new UndeclaredError(
          `no store "${this.name}" in the manifest; declared stores: ${listed(schema.storeIds.keys())}. Add it under spec.stores to use it`));
      }
      this.schema = schema;
      this.id = id;
    }
    return this.id;
  }

  private rawKey(ctx: Context, key: K | undefined): Uint8Array {
    if (key !== undefined) return this.encode(ctx, "key", this.codecs.key, key);
    if (ctx.key === null) {
      throw new NoKeyError(`store "${this.name}": the record has no key, so there is no default key for state; name one, or send records with keys`);
    }
    return ctx.key;
  }

  private encode<T>(ctx: Context, what: string, codec: Codec<T>, value: T): Uint8Array {
    try {
      return codec.encode(value);
    } catch (error) {
      throw ctx.fail(new OutputError(`store "${this.name}": a ${what} cannot be encoded as ${codec.name}: ${(error as Error).message}`));
    }
  }

  private decode(key: Uint8Array, data: Buffer | null): V | undefined {
    if (data === null) return undefined;
    try {
      return this.codecs.value.decode(data);
    } catch (error) {
      throw new MillstreamError(
        `store "${this.name}": the value of key ${JSON.stringify(Buffer.from(key).toString("utf8").slice(0, 80))} is not ` +
        `${this.codecs.value.name}: ${(error as Error).message}. Was the codec of the store changed?`);
    }
  }

  private decodeKey(raw: Buffer): K {
    try {
      return this.codecs.key.decode(raw);
    } catch (error) {
      throw new MillstreamError(`store "${this.name}": a key is not ${this.codecs.key.name}: ${(error as Error).message}`);
    }
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
