// MessagePack, read and written value by value. A tree of objects made by a general library would cost more than the handlers, and
// would lose the exactness of 64-bit integers, so this package has its own reader and writer and no dependency.
import { bytesToText } from "./codecs.js";
import { ProtocolError } from "./errors.js";

/** List elements that one frame may hold. */
export const MAX_ELEMENTS = 1 << 20;
const MAX_DEPTH = 32;
const NOT_PREFETCHED_EXT = 1;

/** An integer that a number holds exactly, else a bigint. */
export type Int = number | bigint;

/** A header; names that are not UTF-8 are bytes. */
export type Header = readonly [name: string | Uint8Array, value: Uint8Array | null];

/** A state value that was not sent along: ask for it by GET. */
export const NOT_PREFETCHED = Symbol("not prefetched");
export type Prefetched = Buffer | null | typeof NOT_PREFETCHED;

/** Takes MessagePack values off the front of a frame; every mistake is a ProtocolError. Byte strings are views of it. */
export class Reader {
  private at = 0;
  constructor(private readonly data: Buffer) {}

  get atEnd(): boolean {
    return this.at >= this.data.length;
  }

  nil(): boolean {
    if (this.data[this.at] !== 0xc0) return false;
    this.at += 1;
    return true;
  }

  int(field: string): Int {
    const tag = this.tag(field);
    if (tag < 0x80) return tag;
    if (tag >= 0xe0) return tag - 0x100;
    const at = this.at;
    switch (tag) {
      case 0xcc: return this.need(1, field), this.data[at]!;
      case 0xcd: return this.need(2, field), this.data.readUInt16BE(at);
      case 0xce: return this.need(4, field), this.data.readUInt32BE(at);
      case 0xcf: return this.need(8, field), small(this.data.readUInt32BE(at), this.data.readUInt32BE(at + 4)) ?? this.data.readBigUInt64BE(at);
      case 0xd0: return this.need(1, field), this.data.readInt8(at);
      case 0xd1: return this.need(2, field), this.data.readInt16BE(at);
      case 0xd2: return this.need(4, field), this.data.readInt32BE(at);
      case 0xd3: return this.need(8, field), small(this.data.readInt32BE(at), this.data.readUInt32BE(at + 4)) ?? this.data.readBigInt64BE(at);
      default: throw new ProtocolError(`${field} is not an integer`);
    }
  }

  uint(field: string): Int {
    const value = this.int(field);
    if (value < 0) throw new ProtocolError(`${field} is negative: ${value}`);
    return value;
  }

  /** An integer from 0 to `most`. */
  index(field: string, most: number): number {
    const value = this.int(field);
    if (typeof value === "bigint" || value < 0 || value > most) throw new ProtocolError(`${field} is ${value}, the largest is ${most}`);
    return value;
  }

  /** An integer that a number holds. */
  number(field: string): number {
    const value = this.int(field);
    if (typeof value === "bigint") throw new ProtocolError(`${field} is too large: ${value}`);
    return value;
  }

  bool(field: string): boolean {
    const tag = this.tag(field);
    if (tag !== 0xc2 && tag !== 0xc3) throw new ProtocolError(`${field} is not a boolean`);
    return tag === 0xc3;
  }

  /** bin, and str, which receivers take for it. */
  bytes(field: string): Buffer {
    const tag = this.tag(field);
    let size: number;
    if ((tag & 0xe0) === 0xa0) size = tag & 0x1f;
    else if (tag === 0xc4 || tag === 0xd9) size = this.sized(1, field);
    else if (tag === 0xc5 || tag === 0xda) size = this.sized(2, field);
    else if (tag === 0xc6 || tag === 0xdb) size = this.sized(4, field);
    else throw new ProtocolError(`${field} is no byte string`);
    const from = this.at;
    this.need(size, field);
    return this.data.subarray(from, from + size);
  }

  maybeBytes(field: string): Buffer | null {
    return this.nil() ? null : this.bytes(field);
  }

  text(field: string): string {
    return this.bytes(field).toString("utf8");
  }

  /** The name of a header: bytes where it is not UTF-8. */
  headerName(): string | Uint8Array {
    const raw = this.bytes("header name");
    const text = raw.toString("utf8");
    return text.includes("\ufffd") && bytesToText(raw) !== text ? raw : text;
  }

  state(field: string): Prefetched {
    const tag = this.data[this.at];
    if (tag === undefined || tag === 0xc0 || !isExtension(tag)) return this.maybeBytes(field);
    const at = this.at;
    this.skip(1);
    const type = this.data.readInt8(at + extensionTypeAt(tag));
    if (type !== NOT_PREFETCHED_EXT) throw new ProtocolError(`${field} has an extension of type ${type}`);
    return NOT_PREFETCHED;
  }

  list(field: string): number {
    const tag = this.tag(field);
    const count = (tag & 0xf0) === 0x90 ? tag & 0x0f : tag === 0xdc ? this.sized(2, field) : tag === 0xdd ? this.sized(4, field) : -1;
    if (count < 0) throw new ProtocolError(`${field} is no list`);
    // An element takes a byte at least.
    if (count > MAX_ELEMENTS || count > this.data.length - this.at) throw new ProtocolError(`${field}: ${count} elements do not fit the frame`);
    return count;
  }

  /** The head of a tuple of at least `least` fields. */
  fields(field: string, least: number): number {
    const count = this.list(field);
    if (count < least) throw new ProtocolError(`${field} has ${count} fields, at least ${least} are needed`);
    return count;
  }

  map(field: string): number {
    const tag = this.tag(field);
    const count = (tag & 0xf0) === 0x80 ? tag & 0x0f : tag === 0xde ? this.sized(2, field) : tag === 0xdf ? this.sized(4, field) : -1;
    if (count < 0) throw new ProtocolError(`${field} is no map`);
    if (count > MAX_ELEMENTS || 2 * count > this.data.length - this.at) throw new ProtocolError(`${field}: ${count} entries do not fit the frame`);
    return count;
  }

  skip(count: number, depth = 0): void {
    if (depth > MAX_DEPTH) throw new ProtocolError("a further field is nested too deep");
    for (; count > 0; --count) this.skipOne(depth);
  }

  private skipOne(depth: number): void {
    const what = "a further field";
    const tag = this.data[this.at];
    if (tag === undefined) throw new ProtocolError("the frame is cut off");
    if ((tag & 0xf0) === 0x90 || tag === 0xdc || tag === 0xdd) return this.skip(this.list(what), depth + 1);
    if ((tag & 0xf0) === 0x80 || tag === 0xde || tag === 0xdf) return this.skip(2 * this.map(what), depth + 1);
    if ((tag & 0xe0) === 0xa0 || (tag >= 0xc4 && tag <= 0xc6) || (tag >= 0xd9 && tag <= 0xdb)) return void this.bytes(what);
    this.at += 1;
    if (isExtension(tag)) {
      const size = tag === 0xc7 ? this.sized(1, what) : tag === 0xc8 ? this.sized(2, what) : tag === 0xc9 ? this.sized(4, what) : 1 << (tag - 0xd4);
      return this.need(size + 1, what);
    }
    if (tag === 0xc1) throw new ProtocolError("the byte 0xc1 is never used in MessagePack");
    const fixed: Record<number, number> = { 0xca: 4, 0xcb: 8, 0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8, 0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8 };
    this.need(fixed[tag] ?? 0, what);
  }

  end(): void {
    if (this.at < this.data.length) throw new ProtocolError(`${this.data.length - this.at} bytes follow the message`);
  }

  private tag(field: string): number {
    const tag = this.data[this.at];
    if (tag === undefined) throw new ProtocolError(`the frame is cut off before ${field}`);
    this.at += 1;
    return tag;
  }

  private need(count: number, field: string): void {
    if (count > this.data.length - this.at) throw new ProtocolError(`the frame is cut off in ${field}`);
    this.at += count;
  }

  private sized(count: 1 | 2 | 4, field: string): number {
    const at = this.at;
    this.need(count, field);
    return count === 1 ? this.data[at]! : count === 2 ? this.data.readUInt16BE(at) : this.data.readUInt32BE(at);
  }
}

function isExtension(tag: number): boolean {
  return (tag >= 0xc7 && tag <= 0xc9) || (tag >= 0xd4 && tag <= 0xd8);
}

function extensionTypeAt(tag: number): number {
  return tag === 0xc7 ? 2 : tag === 0xc8 ? 3 : tag === 0xc9 ? 5 : 1;
}

// high * 2^32 + low, if a number holds it.
function small(high: number, low: number): number | undefined {
  const value = high * 2 ** 32 + low;
  return Number.isSafeInteger(value) ? value : undefined;
}

/** Appends MessagePack values, each in its shortest form, to memory that grows. */
export class Writer {
  private data: Buffer;
  length = 0;
  constructor(size = 256) {
    this.data = Buffer.allocUnsafe(size);
  }

  /** A view: valid until more is written. */
  get bytes(): Buffer {
    return this.data.subarray(0, this.length);
  }

  /** Takes back what was written after `length`. */
  truncate(length: number): void {
    this.length = length;
  }

  nil(): this {
    return this.byte(0xc0);
  }

  bool(value: boolean): this {
    return this.byte(value ? 0xc3 : 0xc2);
  }

  int(value: Int): this {
    if (typeof value === "bigint") return this.big(value);
    if (value >= 0) {
      if (value < 0x80) return this.byte(value);
      if (value <= 0xff) return this.byte(0xcc).byte(value);
      if (value <= 0xffff) return this.byte(0xcd).two(value);
      if (value <= 0xffffffff) return this.byte(0xce).four(value);
      return this.byte(0xcf).four(Math.floor(value / 2 ** 32)).four(value % 2 ** 32);
    }
    if (value >= -32) return this.byte(value & 0xff);
    if (value >= -0x80) return this.byte(0xd0).byte(value & 0xff);
    if (value >= -0x8000) return this.byte(0xd1).two(value & 0xffff);
    if (value >= -0x80000000) return this.byte(0xd2).four(value >>> 0);
    return this.big(BigInt(value));
  }

  bin(value: Uint8Array): this {
    const size = value.length;
    if (size <= 0xff) this.byte(0xc4).byte(size);
    else if (size <= 0xffff) this.byte(0xc5).two(size);
    else this.byte(0xc6).four(size);
    return this.raw(value);
  }

  maybeInt(value: Int | null): this {
    return value === null ? this.nil() : this.int(value);
  }

  maybeBin(value: Uint8Array | null): this {
    return value === null ? this.nil() : this.bin(value);
  }

  str(text: string): this {
    const raw = Buffer.from(text);
    const size = raw.length;
    if (size < 32) this.byte(0xa0 | size);
    else if (size <= 0xff) this.byte(0xd9).byte(size);
    else if (size <= 0xffff) this.byte(0xda).two(size);
    else this.byte(0xdb).four(size);
    return this.raw(raw);
  }

  list(count: number): this {
    return this.container(0x90, 0xdc, count);
  }

  map(count: number): this {
    return this.container(0x80, 0xde, count);
  }

  raw(value: Uint8Array): this {
    this.room(value.length);
    this.data.set(value, this.length);
    this.length += value.length;
    return this;
  }

  private container(fix: number, tag: number, count: number): this {
    if (count < 16) return this.byte(fix | count);
    return count <= 0xffff ? this.byte(tag).two(count) : this.byte(tag + 1).four(count);
  }

  private big(value: bigint): this {
    if (value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER)) return this.int(Number(value));
    this.byte(value >= 0n ? 0xcf : 0xd3).room(8);
    if (value >= 0n) this.data.writeBigUInt64BE(value, this.length);
    else this.data.writeBigInt64BE(value, this.length);
    this.length += 8;
    return this;
  }

  private byte(value: number): this {
    this.room(1);
    this.data[this.length++] = value;
    return this;
  }

  private two(value: number): this {
    this.room(2);
    this.data[this.length++] = value >>> 8;
    this.data[this.length++] = value & 0xff;
    return this;
  }

  private four(value: number): this {
    this.room(4);
    this.length = this.data.writeUInt32BE(value, this.length);
    return this;
  }

  private room(count: number): void {
    if (this.length + count <= this.data.length) return;
    const larger = Buffer.allocUnsafe(Math.max(2 * this.data.length, this.length + count));
    this.data.copy(larger, 0, 0, this.length);
    this.data = larger;
  }
}
