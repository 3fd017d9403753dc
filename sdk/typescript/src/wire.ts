// The frames of the worker protocol, version 1 (docs/reference/protocol.md): their numbers and limits, and those that a worker sends.
// What it receives is read by batch_frame.ts and welcome.ts. Nothing here does I/O.
import { Writer, type Int } from "./msgpack.js";
import { VERSION } from "./version.js";

export const MIN_VERSION = 1;
export const MAX_VERSION = 1;
export const HELLO_FRAME_CAP = 64 << 10;
export const DEFAULT_FRAME_CAP = 16 << 20;
/** The most a WELCOME may ask for: a 4-byte length could say 4 GiB. */
export const MAX_FRAME_CAP = 2 ** 30;
export const LENGTH_BYTES = 4;
export const FLAG_TRACE = 1;

export const Kind = {
  HELLO: 1, WELCOME: 2, OPEN: 3, CLOSE: 4, BATCH: 5, RESULT: 6, CANCEL: 7, GET: 8, VALUES: 9, SCAN: 10, ROWS: 11, EXTEND: 12,
  BEGIN: 13, FINALIZE: 14, COMMITTED: 15, PING: 20, PONG: 21, ERROR: 22, GOODBYE: 23,
} as const;

export function kindName(kind: number): string {
  return Object.entries(Kind).find(([, number]) => number === kind)?.[0] ?? `kind ${kind}`;
}

/** One whole frame, length included. */
export function frame(kind: number, fields: number, write: (w: Writer) => void, size = 256): Buffer {
  const writer = new Writer(size);
  writer.raw(Buffer.alloc(LENGTH_BYTES)).list(fields + 1).int(kind);
  write(writer);
  const whole = writer.bytes;
  whole.writeUInt32BE(whole.length - LENGTH_BYTES);
  return whole;
}

export function helloFrame(inputs: readonly string[], capabilities: readonly string[], parallel: number, name: string): Buffer {
  return frame(Kind.HELLO, 1, (w) => {
    w.map(8).str("protocol").list(2).int(MIN_VERSION).int(MAX_VERSION);
    w.str("sdk").str("millstream-typescript").str("language").str("typescript").str("version").str(VERSION);
    w.str("capabilities").list(capabilities.length);
    for (const capability of capabilities) w.str(capability);
    w.str("inputs").list(inputs.length);
    for (const input of inputs) w.str(input);
    w.str("parallel").int(parallel).str("name").str(name);
  });
}

export const numberFrame = (kind: number, value: Int): Buffer => frame(kind, 1, (w) => w.int(value), 16);
export const extendFrame = (seq: Int, done: number): Buffer => frame(Kind.EXTEND, 2, (w) => w.int(seq).int(done), 32);
export const errorFrame = (code: string, message: string): Buffer => frame(Kind.ERROR, 2, (w) => w.str(code).str(message));
export const goodbyeFrame = (reason: string): Buffer => frame(Kind.GOODBYE, 1, (w) => w.str(reason));

export function getFrame(seq: Int, rid: number, store: number, keys: readonly Uint8Array[]): Buffer {
  return frame(Kind.GET, 4, (w) => {
    w.int(seq).int(rid).int(store).list(keys.length);
    for (const key of keys) w.bin(key);
  });
}

export interface ScanRequest {
  store: number;
  from: Uint8Array | null;
  to: Uint8Array | null;
  limit: number;
  reverse: boolean;
  cursor: Uint8Array | null;
  /** Writes since the sidecar was last told, by store. */
  newOps: ReadonlyMap<number, readonly { key: Uint8Array; value: Uint8Array | null; item: number }[]>;
}

export function scanFrame(seq: Int, rid: number, scan: ScanRequest): Buffer {
  return frame(Kind.SCAN, 9, (w) => {
    w.int(seq).int(rid).int(scan.store).maybeBin(scan.from).maybeBin(scan.to).int(scan.limit).bool(scan.reverse).maybeBin(scan.cursor);
    w.map(scan.newOps.size);
    for (const [store, ops] of scan.newOps) {
      w.int(store).list(ops.length);
      for (const op of ops) w.list(3).bin(op.key).maybeBin(op.value).int(op.item);
    }
  });
}

/** The failure of an item, as the sidecar is told of it. */
export interface Failure {
  /** What failed: decoding the record, the handler, or what it wrote and emitted. */
  class: "Decode" | "Handler" | "Output";
  /** The error's name. */
  error: string;
  /** What it says, and where in the program it was thrown. */
  message: string;
  /** Whether another attempt could help. */
  retriable: boolean;
}
