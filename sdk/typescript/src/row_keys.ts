// Keys of the rows of windowed stores (docs/reference/protocol.md, "Row keys").
import type { Int } from "./msgpack.js";

/** What is added to the upper half of a session's times. */
const FLIP = 0x80000000;

/** A window's row: the key, then its start as a signed 64-bit big-endian integer. */
export function windowRow(key: Uint8Array, start: Int): Buffer {
  const row = longer(key, 8);
  writeTime(row, key.length, start, 0);
  return row;
}

/** A session's row: the key, then start and end with the sign bit flipped, so that a key's sessions sort by time. */
export function sessionRow(key: Uint8Array, start: Int, end: Int): Buffer {
  const row = longer(key, 16);
  writeTime(row, key.length, start, FLIP);
  writeTime(row, key.length + 8, end, FLIP);
  return row;
}

function longer(key: Uint8Array, more: number): Buffer {
  const row = Buffer.allocUnsafe(key.length + more);
  row.set(key);
  return row;
}

// Two's complement in two halves: bigints would cost more than the rest of a window.
function writeTime(row: Buffer, at: number, time: Int, flip: number): void {
  if (typeof time === "bigint") {
    row.writeBigInt64BE(time, at);
    row.writeUInt32BE((row.readUInt32BE(at) ^ flip) >>> 0, at);
    return;
  }
  row.writeUInt32BE((Math.floor(time / 2 ** 32) ^ flip) >>> 0, at);
  row.writeUInt32BE(time >>> 0, at + 4);
}
