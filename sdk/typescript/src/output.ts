import type { Codecs } from "./app.js";
import type { Codec } from "./codecs.js";
import { textToBytes } from "./codecs.js";
import type { Context } from "./context.js";
import { OutputError, UndeclaredError, listed } from "./errors.js";
import type { Writer } from "./msgpack.js";
import { LOOP, type Schema } from "./schema.js";

/** What Output.emit takes beside key and value. */
export interface EmitOptions {
  /** In order, names may repeat. */
  headers?: readonly (readonly [name: string | Uint8Array, value: Uint8Array | string | null])[];
  /** Milliseconds since 1970, or a Date; default: that of the record being handled, of a timer its time, of a window that closes its last millisecond. */
  timestamp?: number | Date;
  /** Default: by the hash of the key. */
  partition?: number;
}

/** A handle on an output of the manifest. */
export class Output<K, V> {
  private schema: Schema | undefined;
  private id = 0;
  /** The output's name in the manifest. */
  readonly name: string;
  /** @internal */ readonly codecs: Codecs<K, V>;
  /** @internal */
  constructor(name: string, codecs: Codecs<K, V>) {
    this.name = name;
    this.codecs = codecs;
  }

  /**
   * Sends a record, committed together with the record being handled, whose timestamp it gets. null is a null key or value (a
   * tombstone). What it throws (OutputError, UndeclaredError) fails the record, even if the handler catches it.
   */
  emit(ctx: Context, key: K | null, value: V | null, options: EmitOptions = {}): void {
    const id = this.bind(ctx);
    const rawKey = key === null || key === undefined ? null : this.encode(ctx, "key", this.codecs.key, key);
    const rawValue = value === null || value === undefined ? null : this.encode(ctx, "value", this.codecs.value, value);
    const headers = options.headers === undefined ? [] : this.headers(ctx, options.headers);
    let size = (rawKey?.length ?? 0) + (rawValue?.length ?? 0);
    for (const [name, content] of headers) size += name.length + (content?.length ?? 0);
    const most = ctx.batch.schema.outputs[id]!.max;
    if (size > most) throw ctx.fail(new OutputError(`output "${this.name}": key, value and headers have ${size} bytes, the limit is ${most}`));
    const timestamp = this.timestamp(ctx, options.timestamp);
    const partition = options.partition;
    if (this.name === LOOP && (rawKey === null || partition !== undefined)) {
      const problem = rawKey === null ? "a record for the loop needs a key" : "the key of a record for the loop chooses its partition, so it cannot be given";
      throw ctx.fail(new OutputError(`output "${this.name}": ${problem}`));
    }
    if (partition !== undefined && !(Number.isInteger(partition) && partition >= 0 && partition < 2 ** 31)) {
      throw ctx.fail(new OutputError(`output "${this.name}": ${partition} is not a partition`));
    }
    ctx.batch.stage(headers.length, (w) => {
      w.list(partition !== undefined ? 6 : headers.length > 0 ? 5 : 4).int(id).maybeBin(rawKey).maybeBin(rawValue);
      if (timestamp === null) w.nil();
      else w.int(timestamp);
      if (partition !== undefined || headers.length > 0) writeHeaders(w, headers);
      if (partition !== undefined) w.int(partition);
    });
  }

  private headers(ctx: Context, headers: NonNullable<EmitOptions["headers"]>): (readonly [Uint8Array, Uint8Array | null])[] {
    const raw = (data: Uint8Array | string): Uint8Array => {
      if (typeof data === "string") return textToBytes(data);
      if (data instanceof Uint8Array) return data;
      throw ctx.fail(new OutputError(`output "${this.name}": a header is text or Uint8Array, not ${typeof data}`));
    };
    return headers.map(([name, value]) => [raw(name), value === null ? null : raw(value)] as const);
  }

  // null: the sidecar's clock, for a record without a time of its own.
  private timestamp(ctx: Context, chosen: number | Date | undefined): number | null {
    const { minTimestamp, maxTimestamp } = ctx.batch.schema;
    if (chosen === undefined) {
      const own = ctx.item.timestamp;
      return own >= minTimestamp && own <= maxTimestamp ? own : null;
    }
    const time = chosen instanceof Date ? chosen.getTime() : chosen;
    if (!Number.isSafeInteger(time) || time < minTimestamp || time > maxTimestamp) {
      throw ctx.fail(new OutputError(`output "${this.name}": timestamp ${time} is not an integer from ${minTimestamp} to ${maxTimestamp}`));
    }
    return time;
  }

  private bind(ctx: Context): number {
    ctx.batch.checkValid();
    const schema = ctx.batch.schema;
    if (this.schema !== schema) {
      const id = schema.outputIds.get(this.name);
      if (id === undefined) {
        throw ctx.fail(new UndeclaredError(
          `no output "${this.name}" in the manifest; declared outputs: ${listed(schema.outputIds.keys())}. Add it under spec.outputs to use it`));
      }
      this.schema = schema;
      this.id = id;
    }
    return this.id;
  }

  private encode<T>(ctx: Context, what: string, codec: Codec<T>, value: T): Uint8Array {
    try {
      return codec.encode(value);
    } catch (error) {
      throw ctx.fail(new OutputError(`output "${this.name}": a ${what} of type ${typeof value} cannot be encoded as ${codec.name}: ${(error as Error).message}`));
    }
  }
}

function writeHeaders(w: Writer, headers: readonly (readonly [Uint8Array, Uint8Array | null])[]): void {
  if (headers.length === 0) return void w.nil();
  w.list(headers.length);
  for (const [name, value] of headers) w.list(2).bin(name).maybeBin(value);
}
