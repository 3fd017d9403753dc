import type { BatchRun } from "./batch.js";
import type { Item, RecordItem } from "./batch_frame.js";
import { bytesToText } from "./codecs.js";
import { DecodeError } from "./errors.js";
import type { Header } from "./msgpack.js";
import type { InputPort } from "./schema.js";

/** Where a handler runs; what stores and outputs want as their first argument. Valid during the handler's call. */
export class Context {
  /** @internal */ item!: Item;
  /** Number of the item in its batch. @internal */ index = 0;
  /** null: a record without key. @internal */ key: Buffer | null = null;
  /** Fails the item, whatever the handler does. @internal */ failed: Error | undefined;
  /** @internal */ readonly batch: BatchRun;
  /** @internal */
  constructor(batch: BatchRun) {
    this.batch = batch;
  }

  /** The number of the task, which is the partition of every input. */
  get task(): number {
    return this.batch.frame.task;
  }

  /** The processor's name in the manifest. */
  get processor(): string {
    return this.batch.schema.processor;
  }

  /** How far event time has come in this task, in milliseconds since 1970; undefined before the first record counts. */
  get watermark(): number | undefined {
    return this.batch.frame.watermark;
  }

  /** Aborts when the batch no longer counts: pass it to what takes one, fetch for example. */
  get signal(): AbortSignal {
    return this.batch.signal;
  }

  /** Makes the item fail and gives the error back. @internal */
  fail<E extends Error>(error: E): E {
    this.failed ??= error;
    return error;
  }
}

const UNSET = Symbol("unset");

/** A record of an input. Key and value are decoded when first asked for, by the codecs of its input. Read-only. */
export class Record<K, V> {
  private decodedKey: K | null | typeof UNSET = UNSET;
  private decodedValue: V | null | typeof UNSET = UNSET;
  /** The number of the task, which is the record's partition. */
  readonly task: number;
  /** @internal */
  constructor(private readonly item: RecordItem, private readonly data: Buffer | null, private readonly port: InputPort, task: number) {
    this.task = task;
  }

  /** The decoded key; null if the record has none. Throws DecodeError. */
  get key(): K | null {
    if (this.decodedKey === UNSET) this.decodedKey = this.decode("key", this.data) as K | null;
    return this.decodedKey;
  }

  /** The decoded value; null for a null value (a tombstone). Throws DecodeError. */
  get value(): V | null {
    if (this.decodedValue === UNSET) this.decodedValue = this.decode("value", this.item.value) as V | null;
    return this.decodedValue;
  }

  /** The bytes as they are in the topic; do not change them. */
  get rawKey(): Buffer | null {
    return this.data;
  }

  /** As rawKey. */
  get rawValue(): Buffer | null {
    return this.item.value;
  }

  /** All headers in order; names may repeat, and are bytes where they are not UTF-8. */
  get headers(): readonly Header[] {
    return this.item.headers;
  }

  /** The value of the last header of that name; undefined if there is none. */
  header(name: string): Uint8Array | null | undefined {
    return this.item.headers.filter(([found]) => found === name).at(-1)?.[1];
  }

  /** Milliseconds since 1970, possibly negative. */
  get timestamp(): number {
    return this.item.timestamp;
  }

  /** The timestamp as a Date. */
  get time(): Date {
    return new Date(this.item.timestamp);
  }

  /** Its place in its partition. */
  get offset(): bigint {
    return BigInt(this.item.offset);
  }

  /** The input's name in the manifest. */
  get input(): string {
    return this.port.name;
  }

  /** The input's topic. */
  get topic(): string {
    return this.port.topic;
  }

  /** 1 for the first try of this record, one more after each failure. */
  get attempt(): number {
    return this.item.attempt;
  }

  private decode(what: "key" | "value", data: Buffer | null): unknown {
    if (data === null) return null;
    const codec = this.port.registered[what];
    try {
      return codec.decode(data);
    } catch (error) {
      throw new DecodeError(
        `the ${what} of a record of input "${this.input}" (partition ${this.task}, offset ${this.offset}) is not ${codec.name}: ` +
        `${(error as Error).message}; it has ${data.length} bytes and begins with ${JSON.stringify(bytesToText(data.subarray(0, 24)))}`);
    }
  }
}
