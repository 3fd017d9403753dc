import cluster from "node:cluster";
import { hostname } from "node:os";

import type { Codec } from "./codecs.js";
import type { Context, Record } from "./context.js";
import { ConfigError } from "./errors.js";
import { Gathered, type CommittedHook, type Hook, type Hooks } from "./hooks.js";
import { Join, Lookup } from "./join.js";
import { consoleLogger, type Logger } from "./log.js";
import { Output } from "./output.js";
import { supervise } from "./processes.js";
import { Store } from "./store.js";
import { Timer, timerId, type Clock, type RegisteredTimer, type TimerHandler } from "./timer.js";
import { Visit, type RegisteredVisit, type VisitEndHandler, type VisitHandler } from "./visit.js";
import { SessionStore, WindowStore, type CloseHandler, type CloseSessionHandler, type RegisteredClosing, type SessionOptions } from "./window.js";
import { socketPath, Worker } from "./worker.js";

/** Codecs of an input, store or output. */
export interface Codecs<K, V> {
  key: Codec<K>;
  value: Codec<V>;
}

/** A plain or async function. See App.on. */
export type Handler<K, V> = (ctx: Context, record: Record<K, V>) => void | Promise<void>;

/** @internal */
export interface Registered extends Codecs<unknown, unknown> {
  handle: Handler<unknown, unknown>;
}

/** What App.run takes; everything has a default. */
export interface RunOptions {
  /** Worker processes; the sidecar spreads tasks over them. The way to use several cores. Default 1. */
  processes?: number;
  /** Tasks that one process works on at the same time, all on its event loop. Default 8. */
  parallel?: number;
  /** The sidecar's socket; default `$MILLSTREAM_SOCKET`, else /run/millstream/worker.sock. */
  socketPath?: string;
  /** Seconds to try again after the sidecar went away; default 300. */
  reconnectTimeout?: number;
  /** Seconds to go on serving after SIGTERM until the sidecar's goodbye; default `$MILLSTREAM_STOP_TIMEOUT`, else 30. */
  stopTimeout?: number;
  /** Default: lines on standard error. */
  logger?: Logger;
}

const MAX_PROCESSES = 256;
const MAX_PARALLEL = 256;

/**
 * A stream processor's program: handlers for the inputs of its manifest, handles on its stores and outputs.
 *
 * ```ts
 * const app = new App();
 * const counts = app.store("counts", { key: string, value: int });
 * const totals = app.output("word-counts", { key: string, value: json<number>() });
 *
 * app.on("words", { key: string, value: bytes }, async (ctx, word) => {
 *   const n = ((await counts.get(ctx)) ?? 0) + 1;
 *   counts.set(ctx, n);
 *   totals.emit(ctx, word.key, n);
 * });
 *
 * await app.run();
 * ```
 */
export class App {
  /** By input. @internal */
  readonly handlers = new Map<string, Registered>();
  /** By clock and name. @internal */
  readonly timers = new Map<string, RegisteredTimer>();
  /** By store. @internal */
  readonly closings = new Map<string, RegisteredClosing>();
  /** By store. @internal */
  readonly sessions = new Map<string, SessionStore<unknown, unknown>>();
  /** By name. @internal */
  readonly visits = new Map<string, RegisteredVisit>();
  /** @internal */
  readonly hooks: Hooks = {};

  /**
   * Makes a function the handler of an input, one per input. All records of one key of an input reach it in order; records of
   * one task one after the other, those of different tasks interleaved where it awaits. It may be called more than once for a
   * record (after a crash or a failure elsewhere in its batch); what it writes and emits counts exactly once. What it throws
   * ends the batch at its record.
   */
  on<K, V>(input: string, codecs: Codecs<K, V>, handle: Handler<K, V>): this {
    if (typeof handle !== "function") throw new TypeError(`the handler of input "${input}" is no function`);
    if (this.handlers.has(input)) throw new ConfigError(`input "${input}" already has a handler`);
    this.handlers.set(input, { key: codecs.key as Codec<unknown>, value: codecs.value as Codec<unknown>, handle: handle as Handler<unknown, unknown> });
    return this;
  }

  /** A handle on a state store of the manifest. One that is not declared there fails the records that use it. */
  store<K, V>(name: string, codecs: Codecs<K, V>): Store<K, V> {
    return new Store(name, codecs);
  }

  /** A handle on a store of type Window. */
  windowStore<K, V>(name: string, codecs: Codecs<K, V>): WindowStore<K, V> {
    return new WindowStore(name, codecs);
  }

  /** A handle on a store of type Session, one per store. */
  sessionStore<K, V>(name: string, options: SessionOptions<K, V>): SessionStore<K, V> {
    if (this.sessions.has(name)) throw new ConfigError(`session store "${name}" already has a handle; use that one`);
    const store = new SessionStore(name, options);
    this.sessions.set(name, store as unknown as SessionStore<unknown, unknown>);
    return store;
  }

  /** A handle on a join of the manifest: a topic as a read-only table, partitioned like the inputs. */
  join<K, V>(name: string, codecs: Codecs<K, V>): Join<K, V> {
    return new Join(name, codecs);
  }

  /** A handle on a lookup of the manifest: a whole topic as a read-only table. */
  lookup<K, V>(name: string, codecs: Codecs<K, V>): Lookup<K, V> {
    return new Lookup(name, codecs);
  }

  /** A handle on the timers of a name, by event time or by the sidecar's clock (`clock: "wall"`). */
  timer<K>(name: string, options: { key: Codec<K>; clock?: Clock }): Timer<K> {
    return new Timer(name, options.key, options.clock ?? "event");
  }

  /** Makes a function the handler of timers: called for each that is due, in the order of their keys' records. */
  onTimer<K>(timer: Timer<K>, handle: TimerHandler<K>): this {
    const id = timerId(timer.clockNumber, timer.name);
    if (this.timers.has(id)) throw new ConfigError(`timer "${timer.name}" already has a handler`);
    this.timers.set(id, { timer: timer as Timer<unknown>, handle: handle as TimerHandler<unknown> });
    return this;
  }

  /** Makes a function the handler of windows of a store with `emit: Final`: called once for each when it closes, with its last value. */
  onClose<K, V>(store: WindowStore<K, V>, handle: CloseHandler<K, V>): this;
  /** The same of sessions: called once for each when it is over, that is its gap and grace behind its last record. */
  onClose<K, V>(store: SessionStore<K, V>, handle: CloseSessionHandler<K, V>): this;
  /** @internal */
  onClose(store: RegisteredClosing["store"], handle: RegisteredClosing["handle"]): this {
    if (this.closings.has(store.name)) throw new ConfigError(`store "${store.name}" already has a handler for what closes`);
    this.closings.set(store.name, { store, handle });
    return this;
  }

  /** A handle on a visit of the manifest, the store it walks, and the codec of what it is started with. */
  visit<K, V, D>(name: string, options: { store: Store<K, V>; data: Codec<D> }): Visit<K, V, D> {
    return new Visit(name, options.store, options.data);
  }

  /**
   * Makes a function the handler of the rows of a visit: called for every row of its store in the task, in the order of the key bytes,
   * once in committed effect. Records are handled in between.
   */
  onVisit<K, V, D>(visit: Visit<K, V, D>, handle: VisitHandler<K, V, D>): this {
    const registered = this.registeredVisit(visit);
    if (registered.handle !== undefined) throw new ConfigError(`visit "${visit.name}" already has a handler`);
    registered.handle = handle as unknown as VisitHandler<unknown, unknown, unknown>;
    return this;
  }

  /** Makes a function the one that is called behind the last row of a visit. */
  onVisitEnd<K, V, D>(visit: Visit<K, V, D>, handle: VisitEndHandler<D>): this {
    const registered = this.registeredVisit(visit);
    if (registered.handleEnd !== undefined) throw new ConfigError(`the end of visit "${visit.name}" already has a handler`);
    registered.handleEnd = handle as VisitEndHandler<unknown>;
    return this;
  }

  private registeredVisit<K, V, D>(visit: Visit<K, V, D>): RegisteredVisit {
    const registered = this.visits.get(visit.name) ?? { visit: visit as unknown as Visit<unknown, unknown, unknown> };
    this.visits.set(visit.name, registered);
    return registered;
  }

  /**
   * Has a function called when a transaction begins for a task. What it writes and emits becomes part of it. Transactions then hold
   * whole batches, as with onFinalize.
   */
  onBegin(hook: Hook): this {
    return this.setHook("begin", hook);
  }

  /**
   * Has a function called for a task before a transaction with its records is closed: the place to send what was gathered over many
   * of them (App.gathered). What it writes and emits becomes part of the transaction; there is no record, so state has no default key.
   * What it throws aborts the transaction, whose records come again.
   */
  onFinalize(hook: Hook): this {
    return this.setHook("finalize", hook);
  }

  /**
   * Has a function called, with the number of the task, after a transaction with effects of the task was committed: at most once for
   * each, and never if the sidecar dies in between. For side effects that may be left out.
   */
  onCommitted(hook: CommittedHook): this {
    return this.setHook("committed", hook);
  }

  private setHook<Name extends keyof Hooks>(name: Name, hook: NonNullable<Hooks[Name]>): this {
    if (this.hooks[name] !== undefined) throw new ConfigError(`the program already has a hook for "${name}"`);
    this.hooks[name] = hook;
    return this;
  }

  /** A handle on what the program gathers over many records of a task; `empty` makes what there is before anything was. */
  gathered<T extends object>(empty: () => T): Gathered<T> {
    return new Gathered(empty);
  }

  /** A handle on an output of the manifest. One that is not declared there fails the records that use it. */
  output<K, V>(name: string, codecs: Codecs<K, V>): Output<K, V> {
    return new Output(name, codecs);
  }

  /** The names of the inputs that have handlers. */
  get inputs(): string[] {
    return [...this.handlers.keys()];
  }

  /**
   * Serves the sidecar until it says goodbye or the process is told to stop (SIGTERM, SIGINT); then resolves. Rejects with a
   * ConfigError where program and manifest do not fit (starting again does not help), or says why there is no connection:
   * let it end the process.
   */
  async run(options: RunOptions = {}): Promise<void> {
    const processes = options.processes ?? 1;
    const parallel = options.parallel ?? 8;
    if (this.handlers.size === 0) throw new ConfigError('the program has no handler; add app.on("input-name", ...)');
    for (const [what, number, most] of [["processes", processes, MAX_PROCESSES], ["parallel", parallel, MAX_PARALLEL]] as const) {
      if (!Number.isInteger(number) || number < 1 || number > most) throw new ConfigError(`run({${what}: ${number}}): it must be from 1 to ${most}`);
    }
    const stopSeconds = options.stopTimeout ?? (Number(process.env["MILLSTREAM_STOP_TIMEOUT"]) || 30);
    const logger = options.logger ?? consoleLogger;
    if (processes > 1 && cluster.isPrimary) return supervise(processes, stopSeconds, logger);
    const named = options.socketPath !== undefined || Boolean(process.env["MILLSTREAM_SOCKET"]);
    await new Worker(this, {
      path: options.socketPath ?? socketPath(),
      name: `${hostname()}/${process.pid}`,
      parallel,
      startSeconds: named ? 60 : 0,
      lostSeconds: options.reconnectTimeout ?? 300,
      stopSeconds,
      logger,
      signals: true,
    }).run();
  }
}
