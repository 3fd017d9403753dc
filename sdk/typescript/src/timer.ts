import type { Codec } from "./codecs.js";
import type { Context } from "./context.js";
import { EVENT_TIME, HOOK, WALL_CLOCK, type TimerItem } from "./batch_frame.js";
import { ConfigError, DecodeError, NoKeyError, OutputError } from "./errors.js";

/** The protocol's limit of a timer's name. */
const MAX_NAME_BYTES = 255;

/** What moves a timer: the timestamps of the task's records, or the sidecar's clock. */
export type Clock = "event" | "wall";

/** What a timer is known by beside its key. */
export const timerId = (clock: number, name: string): string => `${clock}/${name}`;

/** A plain or async function. See App.onTimer. */
export type TimerHandler<K> = (ctx: Context, due: Due<K>) => void | Promise<void>;

/** @internal */
export interface RegisteredTimer {
  timer: Timer<unknown>;
  handle: TimerHandler<unknown>;
}

/**
 * A handle on the timers of a name, one per key; made by App.timer. Setting it again moves it. A timer is committed together with the
 * record that set it, and its handler (App.onTimer) is called once in committed effect, also after a crash. The manifest needs
 * `timers: {}`.
 */
export class Timer<K> {
  /** What the timers of a key are known by, with their clock. */
  readonly name: string;
  /** What moves them. */
  readonly clock: Clock;
  /** @internal */ readonly clockNumber: number;
  /** @internal */
  constructor(name: string, private readonly keyCodec: Codec<K>, clock: Clock) {
    this.name = name;
    this.clock = clock;
    const size = Buffer.byteLength(name);
    if (size > MAX_NAME_BYTES) throw new ConfigError(`the name of a timer has at most ${MAX_NAME_BYTES} bytes, this one has ${size}: "${name}"`);
    if (clock !== "event" && clock !== "wall") throw new ConfigError(`timer "${name}": the clock is "event" or "wall", not "${String(clock)}"`);
    this.clockNumber = clock === "wall" ? WALL_CLOCK : EVENT_TIME;
  }

  /**
   * Sets the timer of the record's key, or of another key of the task, in milliseconds since 1970. A time that has passed is due at
   * once. Throws OutputError for a time beyond the limits, or where the manifest has no timers; the record then fails.
   */
  set(ctx: Context, time: number | Date, key?: K): void {
    const { minTimestamp, maxTimestamp } = ctx.batch.schema;
    const at = time instanceof Date ? time.getTime() : time;
    if (!Number.isSafeInteger(at) || at < minTimestamp || at > maxTimestamp) {
      throw ctx.fail(new OutputError(`timer "${this.name}": time ${at} is not an integer from ${minTimestamp} to ${maxTimestamp}`));
    }
    this.stage(ctx, at, key);
  }

  /** Forgets the timer of the record's key, or of another one. Cancelling what is not set is fine. */
  cancel(ctx: Context, key?: K): void {
    this.stage(ctx, null, key);
  }

  /** @internal */
  decodeKey(data: Buffer): K {
    return this.keyCodec.decode(data);
  }

  /** @internal */
  get keyCodecName(): string {
    return this.keyCodec.name;
  }

  private stage(ctx: Context, time: number | null, key: K | undefined): void {
    ctx.batch.checkValid();
    if (!ctx.batch.schema.shape.timers) {
      throw ctx.fail(new OutputError(`timer "${this.name}": the manifest has no timers; add "timers: {}" under spec`));
    }
    if (ctx.item.kind === HOOK) throw ctx.fail(new OutputError(`timer "${this.name}": hooks on transactions cannot set timers, which belong to the time of a record`));
    ctx.batch.stageTimer(this.rawKey(ctx, key), this.clockNumber, this.name, time);
  }

  private rawKey(ctx: Context, key: K | undefined): Uint8Array {
    if (key === undefined) {
      if (ctx.key === null) throw new NoKeyError(`timer "${this.name}": the record has no key; name one, or send records with keys`);
      return ctx.key;
    }
    try {
      return this.keyCodec.encode(key);
    } catch (error) {
      throw ctx.fail(new OutputError(`timer "${this.name}": a key cannot be encoded as ${this.keyCodec.name}: ${(error as Error).message}`));
    }
  }
}

/** A timer that is due. State and outputs are as for a record of its key; outputs get its time. Read-only. */
export class Due<K> {
  /** The key's bytes; do not change them. */
  readonly rawKey: Buffer;
  /** @internal */
  constructor(private readonly item: TimerItem, rawKey: Buffer, private readonly timer: Timer<K>) {
    this.rawKey = rawKey;
  }

  get name(): string {
    return this.item.name;
  }

  /** What moved it. */
  get clock(): Clock {
    return this.timer.clock;
  }

  /** The key it was set for. Throws DecodeError. */
  get key(): K {
    try {
      return this.timer.decodeKey(this.rawKey);
    } catch (error) {
      throw new DecodeError(`the key of timer "${this.name}" is not ${this.timer.keyCodecName}: ${(error as Error).message}`);
    }
  }

  /** When it was to be due, in milliseconds since 1970. */
  get time(): number {
    return this.item.timestamp;
  }

  /** 1 for the first try, one more after each failure. */
  get attempt(): number {
    return this.item.attempt;
  }
}
