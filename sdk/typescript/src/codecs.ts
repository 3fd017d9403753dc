/**
 * Turns keys or values into bytes and back. Null keys and values never reach one. For Avro, Protobuf or a schema registry
 * write one of your own.
 */
export interface Codec<T> {
  /** Appears in errors. */
  readonly name: string;
  /** A value's bytes. What it throws fails the record, as what cannot be encoded (failure class Output). */
  encode(value: T): Uint8Array;
  /** Must not change `data`; the value may be a view of it. */
  decode(data: Buffer): T;
}

// A byte that is not UTF-8 becomes this code unit plus the byte, a lone surrogate, as Python's surrogateescape does.
const ESCAPE = 0xdc00;
const LONE_SURROGATE = /\p{Surrogate}/u;
const REPLACEMENT = "\ufffd";

/** Any byte string as text: what is not UTF-8 becomes lone surrogates, and the very same bytes again. */
export const string: Codec<string> = {
  name: "string",
  encode: textToBytes,
  decode: bytesToText,
};

/** JSON, compact UTF-8. `undefined`, functions and symbols are refused. */
export function json<T = unknown>(): Codec<T> {
  return jsonCodec as Codec<T>;
}

const jsonCodec: Codec<unknown> = {
  name: "json",
  encode(value) {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError(`${typeof value} is not JSON`);
    return Buffer.from(text);
  },
  decode: (data) => JSON.parse(data.toString("utf8")),
};

/** 8 bytes big-endian, as Kafka's LongSerializer, for integers that a number holds exactly. */
export const int: Codec<number> = {
  name: "int",
  encode(value) {
    if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is not a safe integer; use int64 with bigint`);
    return int64.encode(BigInt(value));
  },
  decode(data) {
    const value = Number(int64.decode(data));
    if (!Number.isSafeInteger(value)) throw new RangeError(`${int64.decode(data)} is not a safe integer; use int64 with bigint`);
    return value;
  },
};

/** 8 bytes big-endian; scans order negative numbers after positive ones. */
export const int64: Codec<bigint> = {
  name: "int64",
  encode(value) {
    const data = Buffer.allocUnsafe(8);
    data.writeBigInt64BE(value);
    return data;
  },
  decode(data) {
    if (data.length !== 8) throw new RangeError(`an integer is 8 bytes big-endian, these are ${data.length}`);
    return data.readBigInt64BE();
  },
};

/** Bytes as they are. A decoded value shares memory with other records: do not change it. */
export const bytes: Codec<Uint8Array> = {
  name: "bytes",
  encode(value) {
    if (!(value instanceof Uint8Array)) throw new TypeError(`the bytes codec takes Uint8Array, not ${typeof value}`);
    return value;
  },
  decode: (data) => data,
};

export function bytesToText(data: Buffer): string {
  const text = data.toString("utf8");
  return text.includes(REPLACEMENT) && !Buffer.from(text).equals(data) ? escaped(data) : text;
}

export function textToBytes(text: string): Buffer {
  if (typeof text !== "string") throw new TypeError(`the string codec takes string, not ${typeof text}`);
  return LONE_SURROGATE.test(text) ? unescaped(text) : Buffer.from(text);
}

function escaped(data: Buffer): string {
  let text = "";
  for (let at = 0; at < data.length; ) {
    const length = wellFormed(data, at);
    if (length > 0) {
      text += data.toString("utf8", at, at + length);
      at += length;
    } else {
      text += String.fromCharCode(ESCAPE + data[at]!);
      at += 1;
    }
  }
  return text;
}

// The length of the well-formed UTF-8 character there, 0 if there is none.
function wellFormed(data: Buffer, at: number): number {
  const first = data[at]!;
  if (first < 0x80) return 1;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (length === 0 || at + length > data.length) return 0;
  const character = data.subarray(at, at + length);
  return Buffer.from(character.toString("utf8")).equals(character) ? length : 0;
}

function unescaped(text: string): Buffer {
  const parts: Buffer[] = [];
  for (const character of text) {
    const unit = character.charCodeAt(0);
    const lone = character.length === 1 && unit >= ESCAPE + 0x80 && unit <= ESCAPE + 0xff;
    parts.push(lone ? Buffer.of(unit - ESCAPE) : Buffer.from(character));
  }
  return Buffer.concat(parts);
}
