// Keys of the rows of windowed stores (docs/reference/protocol.md, "Row keys").
import type { Int } from "./msgpack.js";

const SIGN = 1n << 63n;

/** A window's row: the key, then its start as a signed 64-bit big-endian integer. */
export function windowRow(key: Uint8Array, start: Int): Buffer {
  const row = longer(key, 8);
  row.writeBigInt64BE(BigInt(start), key.length);
  return row;
}

/** A session's row: the key, then start and end with the sign bit flipped, so that a key's sessions sort by time. */
export function sessionRow(key: Uint8Array, start: Int, end: Int): Buffer {
  const row = longer(key, 16);
  row.writeBigUInt64BE(BigInt(start) + SIGN, key.length);
  row.writeBigUInt64BE(BigInt(end) + SIGN, key.length + 8);
  return row;
}

function longer(key: Uint8Array, more: number): Buffer {
  const row = Buffer.allocUnsafe(key.length + more);
  row.set(key);
  return row;
}
