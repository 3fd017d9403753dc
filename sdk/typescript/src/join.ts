import type { Codecs } from "./app.js";
import type { Context } from "./context.js";
import { Table } from "./table.js";

/**
 * A handle on a join: a topic that others write to as a read-only table, partitioned like the inputs; each task sees its own partition.
 * It shows the table as it is now. The value of the record's key came with the batch, others are asked for.
 */
export class Join<K, V> extends Table<K, V> {
  /** @internal */
  constructor(name: string, codecs: Codecs<K, V>) {
    super(name, codecs, "join");
  }
}

/** A handle on a lookup: a whole topic as a read-only table, the same for every task. Values are asked for, once per key and batch. */
export class Lookup<K, V> extends Table<K, V> {
  /** @internal */
  constructor(name: string, codecs: Codecs<K, V>) {
    super(name, codecs, "lookup");
  }

  /** The value of a key, undefined if there is none. */
  override get(ctx: Context, key: K): Promise<V | undefined> {
    return super.get(ctx, key);
  }
}
