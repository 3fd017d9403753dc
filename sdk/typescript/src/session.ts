// One connection: handshake, frames off the socket, batches, keep-alive, answers to GET and SCAN. All on the event loop.
import type { Socket } from "node:net";

import type { App } from "./app.js";
import { BatchRun, emptyResult, type Link, type ScanPage } from "./batch.js";
import { hookBatch, readBatch, readCommitted, readHook } from "./batch_frame.js";
import { findErrorCode } from "./error_codes.js";
import { BatchVoided, MillstreamError, OutputError, ProtocolError, RefusedError } from "./errors.js";
import { failureOf } from "./failures.js";
import { FrameCutter } from "./frames.js";
import type { GatheredValues, Hook } from "./hooks.js";
import type { Logger } from "./log.js";
import { Reader, type Int } from "./msgpack.js";
import { Schema, capabilitiesOf } from "./schema.js";
import { readWelcome } from "./welcome.js";
import {
  DEFAULT_FRAME_CAP, Kind, LENGTH_BYTES, errorFrame, extendFrame, getFrame, goodbyeFrame, helloFrame, kindName, numberFrame, scanFrame, type ScanRequest,
} from "./wire.js";

/** The sidecar answers HELLO at once; a socket that somebody else listens on may not. */
const HANDSHAKE_MS = 30_000;
/** EXTEND goes out at least so many times within a deadline while there is progress. */
const BEATS_PER_DEADLINE = 4;
const LONGEST_BEAT_MS = 5000;
const SHORTEST_BEAT_MS = 20;

interface Flight {
  run: BatchRun;
  /** `done` of the last EXTEND. */
  extended: number;
  over: Promise<void>;
}

interface Question {
  seq: Int;
  kind: number;
  resolve(answer: Reader): void;
  reject(error: Error): void;
}

/** Made by open(); then `over` resolves when the connection has ended and its handlers have too. */
export class Session implements Link {
  schema!: Schema;
  results = 0;
  saidGoodbye = false;
  reason = "";
  readonly over: Promise<void>;
  private frames = new FrameCutter(DEFAULT_FRAME_CAP);
  private readonly flights = new Map<Int, Flight>();
  /** By task: the batch that the next one of it waits for. */
  private readonly lastOf = new Map<number, Promise<void>>();
  private readonly questions = new Map<number, Question>();
  /** By task: what the program has gathered since the task was opened. */
  private readonly gathered = new Map<number, GatheredValues>();
  private nextRid = 1;
  private leaving = false;
  private ended = false;
  private beat: NodeJS.Timeout | undefined;
  private welcomed: ((error?: Error) => void) | undefined;

  private constructor(
    private readonly socket: Socket, private readonly app: App, private readonly parallel: number, private readonly logger: Logger,
  ) {
    this.over = new Promise((resolve) => {
      socket.on("close", () => {
        this.end(this.reason || "the sidecar closed the connection");
        void Promise.allSettled([...this.lastOf.values()]).then(() => resolve());
      });
    });
    socket.on("error", (error) => this.end(error.message));
    socket.on("data", (data: Buffer) => this.receive(data));
  }

  /** HELLO and WELCOME, on a connected socket. Rejects with RefusedError, ConfigError (told to the sidecar), ProtocolError, ... */
  static async open(socket: Socket, app: App, name: string, parallel: number, logger: Logger): Promise<Session> {
    const session = new Session(socket, app, parallel, logger);
    const timer = setTimeout(() => session.end("the sidecar did not answer HELLO"), HANDSHAKE_MS);
    try {
      await new Promise<void>((resolve, reject) => {
        session.welcomed = (error) => (error === undefined ? resolve() : reject(error));
        session.send(helloFrame(app.inputs, capabilitiesOf(app), parallel, name));
      });
    } catch (error) {
      session.end((error as Error).message);
      throw error;
    } finally {
      clearTimeout(timer);
      session.welcomed = undefined;
    }
    for (const hook of session.schema.uncalledHooks) logger.warn(`the program has a hook for "${hook}", which this sidecar does not call; use a later one`);
    const beat = Math.min(Math.max(session.schema.deadline / BEATS_PER_DEADLINE, SHORTEST_BEAT_MS), LONGEST_BEAT_MS);
    session.beat = setInterval(() => session.keepAlive(), beat);
    return session;
  }

  /** Ends the connection; batches in flight become void. The first reason is kept. */
  end(reason: string): void {
    if (this.ended) return;
    this.ended = true;
    this.reason ||= reason;
    clearInterval(this.beat);
    for (const seq of [...this.flights.keys()]) this.void(seq);
    this.flights.clear();
    this.socket.destroySoon();
    this.welcomed?.(new Error(this.reason));
  }

  /** Asks for nothing more: what is in flight is served, then the connection ends. */
  leave(reason: string): void {
    if (this.ended) return;
    this.send(goodbyeFrame(reason));
    this.leaving = true;
    this.endIfLeft();
  }

  // -- Link

  async get(batch: BatchRun, store: number, keys: readonly Uint8Array[]): Promise<(Buffer | null)[]> {
    const r = await this.ask(batch, Kind.VALUES, (rid) => getFrame(batch.frame.seq, rid, store, keys));
    return this.reading(() => {
      const values: (Buffer | null)[] = [];
      for (let count = r.list("VALUES"); count > 0; --count) values.push(r.maybeBytes("value"));
      refuseProblem(r);
      if (values.length !== keys.length) throw new ProtocolError(`GET of ${keys.length} keys was answered with ${values.length} values`);
      return values;
    });
  }

  async scan(batch: BatchRun, request: ScanRequest): Promise<ScanPage> {
    const r = await this.ask(batch, Kind.ROWS, (rid) => scanFrame(batch.frame.seq, rid, request));
    return this.reading(() => {
      const rows: [Buffer, Buffer][] = [];
      for (let count = r.list("ROWS"); count > 0; --count) {
        const fields = r.fields("row", 2);
        rows.push([r.bytes("key"), r.bytes("value")]);
        r.skip(fields - 2);
      }
      const cursor = r.maybeBytes("cursor");
      refuseProblem(r);
      return { rows, cursor };
    });
  }

  extend(batch: BatchRun, done: number): void {
    batch.checkValid();
    this.send(extendFrame(batch.frame.seq, done));
  }

  private ask(batch: BatchRun, kind: number, frame: (rid: number) => Buffer): Promise<Reader> {
    batch.checkValid();
    const rid = this.nextRid++;
    const question = frame(rid);
    if (question.length - LENGTH_BYTES > this.schema.frameCap) {
      throw new OutputError(`a question of ${question.length} bytes is over the frame cap of ${this.schema.frameCap}`);
    }
    return new Promise((resolve, reject) => {
      this.questions.set(rid, { seq: batch.frame.seq, kind, resolve, reject });
      this.send(question);
    });
  }

  // A wrong answer ends the session; the handler that asked is void with it.
  private reading<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.refuse(error);
      throw new BatchVoided();
    }
  }

  // -- frames

  private send(frame: Buffer): void {
    if (!this.ended) this.socket.write(frame);
  }

  private receive(data: Buffer): void {
    try {
      this.frames.add(data);
      for (let payload; !this.ended && (payload = this.frames.next()) !== undefined; ) this.dispatch(payload);
    } catch (error) {
      this.refuse(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Tells the sidecar, which keeps the first ERROR and shows it, and ends. */
  private refuse(error: Error): void {
    const code = error instanceof ProtocolError ? error.code : "WorkerFailed";
    this.send(errorFrame(code, error.message.slice(0, 4096)));
    this.welcomed?.(error);
    this.end(error.message);
  }

  private dispatch(payload: Buffer): void {
    const r = new Reader(payload);
    const fields = r.fields("frame", 1) - 1;
    const kind = r.index("kind", 0xffff);
    const one = (what: string): Int => {
      if (fields < 1) throw new ProtocolError(`${kindName(kind)} has no ${what}`);
      const value = r.uint(what);
      r.skip(fields - 1);
      r.end();
      return value;
    };
    if (this.welcomed !== undefined) return this.greeted(r, kind, fields);
    switch (kind) {
      case Kind.BATCH: {
        const batch = readBatch(r, fields, this.schema.shape);
        r.end();
        return this.take(new BatchRun(this.schema, this, batch, this.gatheredOf(batch.task)));
      }
      case Kind.BEGIN: return this.takeHook(r, kind, fields, this.schema.hooks.begin);
      case Kind.FINALIZE: return this.takeHook(r, kind, fields, this.schema.hooks.finalize);
      case Kind.COMMITTED: return this.committed(r, fields);
      case Kind.VALUES:
      case Kind.ROWS: return this.answered(r, kind, fields);
      case Kind.CANCEL: return this.void(one("seq"));
      case Kind.OPEN: return void this.gathered.delete(Number(one("task")));
      case Kind.CLOSE: return this.closeTask(Number(one("task")));
      case Kind.PING: return this.send(numberFrame(Kind.PONG, one("nonce")));
      case Kind.PONG: return void one("nonce");
      case Kind.ERROR: {
        if (fields < 2) throw new ProtocolError(`ERROR has ${fields} fields`);
        const code = r.text("code");
        return this.end(`the sidecar ended the session: ${r.text("message")} (${code}). What to do: ${findErrorCode(code).remedy}`);
      }
      case Kind.GOODBYE: {
        if (fields < 1) throw new ProtocolError("GOODBYE has no reason");
        this.reason = `the sidecar said goodbye: ${r.text("reason")}`;
        this.saidGoodbye = this.leaving = true;
        return this.endIfLeft();
      }
      default: throw new ProtocolError(`unexpected ${kindName(kind)}`);
    }
  }

  private greeted(r: Reader, kind: number, fields: number): void {
    if (kind === Kind.ERROR && fields >= 2) {
      const code = r.text("code");
      return this.welcomed!(new RefusedError(code, r.text("message")));
    }
    if (kind === Kind.GOODBYE) return this.welcomed!(new MillstreamError("the sidecar is going away"));
    if (kind !== Kind.WELCOME || fields < 1) throw new ProtocolError(`expected WELCOME, got ${kindName(kind)}`);
    const welcome = readWelcome(r);
    r.skip(fields - 1);
    r.end();
    this.schema = new Schema(welcome, this.app);
    this.frames.cap = this.schema.frameCap;
    const done = this.welcomed!;
    this.welcomed = undefined;
    done();
  }

  private answered(r: Reader, kind: number, fields: number): void {
    const least = kind === Kind.VALUES ? 3 : 4;
    if (fields < least) throw new ProtocolError(`${kindName(kind)} has ${fields} fields`);
    const seq = r.uint("seq");
    const rid = Number(r.uint("rid"));
    const question = this.questions.get(rid);
    if (question === undefined || question.seq !== seq) return; // its batch was cancelled meanwhile
    if (question.kind !== kind) throw new ProtocolError(`request ${rid} was answered with ${kindName(kind)}`);
    this.questions.delete(rid);
    question.resolve(r);
  }

  // -- batches

  /** Starts a batch that agrees with what is in flight. */
  private take(run: BatchRun): void {
    const { seq, task } = run.frame;
    if (this.flights.has(seq)) throw new ProtocolError(`batch ${seq} came twice`);
    // A cancelled batch that a handler has yet to let go of no longer counts: the sidecar sends the next at once.
    const valid = [...this.flights.values()].filter((flight) => !flight.run.void);
    if (valid.some((flight) => flight.run.frame.task === task)) throw new ProtocolError(`batch ${seq}: one of task ${task} is still in flight`);
    // Hooks come where batches may, one for each task of a transaction.
    if (!run.isHook && valid.length >= this.parallel) throw new ProtocolError(`batch ${seq} is more than the ${this.parallel} this worker takes at once`);
    const flight: Flight = { run, extended: 0, over: Promise.resolve() };
    this.flights.set(seq, flight);
    flight.over = this.work(flight, this.lastOf.get(task));
    this.lastOf.set(task, flight.over);
  }

  private takeHook(r: Reader, kind: number, fields: number, hook: Hook | undefined): void {
    if (hook === undefined) throw new ProtocolError(`${kindName(kind)} was not asked for`);
    const [seq, task] = readHook(r, fields);
    this.take(new BatchRun(this.schema, this, hookBatch(seq, task, this.schema.tables.length), this.gatheredOf(task), hook));
  }

  /** Tells the program behind what it is doing for the task; the next batch of the task waits for it. */
  private committed(r: Reader, fields: number): void {
    const { committed } = this.schema.hooks;
    if (committed === undefined) throw new ProtocolError("COMMITTED was not asked for");
    for (const [task] of readCommitted(r, fields)) {
      const told = (this.lastOf.get(task) ?? Promise.resolve()).then(() => committed(task)).catch((error: unknown) => {
        this.logger.error(`the hook for committed transactions of task ${task} failed; it is not called again for this one: ${failureOf(error).message}`);
      }).then(() => {
        if (this.lastOf.get(task) === told) this.lastOf.delete(task);
      });
      this.lastOf.set(task, told);
    }
  }

  private gatheredOf(task: number): GatheredValues {
    let gathered = this.gathered.get(task);
    if (gathered === undefined) this.gathered.set(task, (gathered = new Map()));
    return gathered;
  }

  private async work(flight: Flight, before: Promise<void> | undefined): Promise<void> {
    const { run } = flight;
    const { seq, task } = run.frame;
    if (before !== undefined) await before;
    let result: Buffer;
    try {
      result = await run.run();
      // Over before the frame leaves: nothing may follow it.
      this.forget(seq, flight);
      this.send(result);
      this.results += 1;
    } catch (error) {
      if (!(error instanceof BatchVoided)) this.logger.error(`a bug of the SDK: ${(error as Error).stack}`);
      // A void batch is ended by an empty RESULT, which the sidecar drops.
      if (this.forget(seq, flight)) this.send(emptyResult(seq));
    }
    if (this.lastOf.get(task) === flight.over) this.lastOf.delete(task);
    this.endIfLeft();
  }

  private forget(seq: Int, flight: Flight): boolean {
    return this.flights.get(seq) === flight && this.flights.delete(seq);
  }

  private void(seq: Int): void {
    this.flights.get(seq)?.run.cancel();
    for (const [rid, question] of this.questions) {
      if (question.seq !== seq) continue;
      this.questions.delete(rid);
      question.reject(new BatchVoided());
    }
  }

  private closeTask(task: number): void {
    this.gathered.delete(task);
    for (const [seq, flight] of this.flights) {
      if (flight.run.frame.task === task) this.void(seq);
    }
  }

  private endIfLeft(): void {
    if (this.leaving && this.flights.size === 0) this.end("nothing is in flight after goodbye");
  }

  private keepAlive(): void {
    for (const [seq, { run }] of this.flights) {
      const flight = this.flights.get(seq)!;
      // A traced batch says EXTEND itself, before each item.
      if (run.trace || run.void || run.done <= flight.extended) continue;
      flight.extended = run.done;
      this.send(extendFrame(seq, run.done));
    }
  }
}

// The optional error at the end of VALUES and ROWS, and fields of later versions.
function refuseProblem(r: Reader): void {
  if (r.atEnd) return;
  if (!r.nil()) {
    const problem = r.text("error");
    if (problem === "cancelled") throw new BatchVoided();
    throw new MillstreamError(`the sidecar could not read the state: ${problem}`);
  }
}

