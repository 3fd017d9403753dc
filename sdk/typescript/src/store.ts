import type { Codecs } from "./app.js";
import type { Context } from "./context.js";
import { Table } from "./table.js";

/**
 * A handle on a state store. Without a key its methods mean the key of the record being handled, and throw NoKeyError for a
 * record without one. Keys belong to the task of the record. Reads see what the batch has written before; writes count only if
 * their record succeeds.
 */
export class Store<K, V> extends Table<K, V> {
  /** @internal */
  constructor(name: string, codecs: Codecs<K, V>) {
    super(name, codecs, "KeyValue");
  }

  /** Writes a value. Throws OutputError if it cannot be encoded or is beyond the store's limit; the record then fails. */
  set(ctx: Context, value: V, key?: K): void {
    const id = this.bind(ctx);
    const raw = this.rawKey(ctx, key);
    const data = this.encodeValue(ctx, id, raw, value);
    ctx.batch.write(ctx, id, ctx.batch.slot(id, raw, key === undefined), raw, data);
  }

  /** Forgets a key. Deleting what is not there is fine. */
  delete(ctx: Context, key?: K): void {
    const id = this.bind(ctx);
    const raw = this.rawKey(ctx, key);
    ctx.batch.write(ctx, id, ctx.batch.slot(id, raw, key === undefined), raw, null);
  }
}
