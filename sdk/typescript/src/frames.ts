import { ProtocolError } from "./errors.js";
import { LENGTH_BYTES } from "./wire.js";

/** Cuts a byte stream into frames. A length over the cap is refused before anything is kept for it. */
export class FrameCutter {
  private chunks: Buffer[] = [];
  private held = 0; // bytes in chunks
  constructor(public cap: number) {}

  add(data: Buffer): void {
    this.chunks.push(data);
    this.held += data.length;
  }

  /** The next whole frame without its length; undefined: more bytes are needed. Throws ProtocolError. */
  next(): Buffer | undefined {
    if (this.held < LENGTH_BYTES) return undefined;
    const length = this.head().readUInt32BE();
    if (length > this.cap) throw new ProtocolError(`a frame of ${length} bytes is over the cap of ${this.cap}`, "FrameTooLarge");
    if (length === 0) throw new ProtocolError("an empty frame");
    const whole = LENGTH_BYTES + length;
    if (this.held < whole) return undefined;
    // Joined once, when all of it is here: a large frame is not copied chunk after chunk.
    if (this.chunks[0]!.length < whole) this.chunks = [Buffer.concat(this.chunks)];
    const first = this.chunks[0]!;
    if (first.length === whole) this.chunks.shift();
    else this.chunks[0] = first.subarray(whole);
    this.held -= whole;
    return first.subarray(LENGTH_BYTES, whole);
  }

  /** A buffer that begins with the length. */
  private head(): Buffer {
    while (this.chunks[0]!.length < LENGTH_BYTES) {
      const [first, second] = this.chunks.splice(0, 2);
      this.chunks.unshift(Buffer.concat([first!, second!]));
    }
    return this.chunks[0]!;
  }
}
