// Connects, serves sessions one after the other, connects again, and stops in good order.
import { connect, type Socket } from "node:net";
import { basename } from "node:path";

import type { App } from "./app.js";
import { ConfigError, NoSidecarError, RefusedError } from "./errors.js";
import { findErrorCode } from "./error_codes.js";
import type { Logger } from "./log.js";
import { Session } from "./session.js";

const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 2000;
/** A session that lived so long, or returned a result, was a good one: the next one is tried without delay. */
const GOOD_SESSION_MS = 5000;
/** A second Ctrl-C sooner than this is the same one seen twice (the terminal signals the whole process group). */
const SAME_INTERRUPT_MS = 500;
/** After the bound for stopping the worker says GOODBYE and serves what is in flight for so long. */
const LEAVE_MS = 5000;
/** Told to stop while HELLO is unanswered: so long for a WELCOME that is on its way. */
const HELLO_GRACE_MS = 1000;
const MAX_PATH = 107;

export interface WorkerOptions {
  path: string;
  name: string;
  parallel: number;
  startSeconds: number;
  lostSeconds: number;
  stopSeconds: number;
  logger: Logger;
  /** SIGTERM and SIGINT call stop(). */
  signals: boolean;
}

export const socketPath = (): string => process.env["MILLSTREAM_SOCKET"] || "/run/millstream/worker.sock";

/** Use once. */
export class Worker {
  private stopping = false;
  private wake: (() => void) | undefined; // ends the pause between two attempts
  private opening: Socket | undefined; // a connection that has no session yet
  private session: Session | undefined;
  private saidWaiting = false;
  private interruptedAt = 0;
  private timers: NodeJS.Timeout[] = [];

  constructor(private readonly app: App, private readonly options: WorkerOptions) {}

  /** Resolves after an orderly end. Rejects with NoSidecarError, ConfigError or what kept it from connecting. */
  async run(): Promise<void> {
    if (Buffer.byteLength(this.options.path) > MAX_PATH) {
      throw new ConfigError(`socket path "${this.options.path}" is over ${MAX_PATH} bytes; set MILLSTREAM_SOCKET to a shorter one`);
    }
    const onSignal = (signal: NodeJS.Signals): void => this.signalled(signal);
    if (this.options.signals) for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, onSignal);
    try {
      await this.serve();
    } finally {
      this.timers.forEach(clearTimeout);
      for (const signal of ["SIGTERM", "SIGINT"] as const) process.off(signal, onSignal);
    }
  }

  /** Serve until GOODBYE, for at most `stopSeconds`. */
  stop(): void {
    if (this.stopping) return;
    this.stopping = true;
    this.wake?.();
    this.later(this.options.stopSeconds * 1000, () => {
      this.session?.leave("the worker was told to stop");
      this.later(LEAVE_MS, () => this.session?.end("told to stop"));
    });
    const opening = this.opening;
    // A sidecar that does not answer HELLO is not waited for: nothing is in flight.
    if (opening !== undefined) this.later(HELLO_GRACE_MS, () => this.opening === opening && opening.destroy());
  }

  private later(milliseconds: number, act: () => unknown): void {
    this.timers.push(setTimeout(act, milliseconds).unref());
  }

  private signalled(signal: NodeJS.Signals): void {
    const now = performance.now();
    if (signal === "SIGINT") {
      if (this.interruptedAt > 0 && now - this.interruptedAt > SAME_INTERRUPT_MS) process.exit(130);
      this.interruptedAt ||= now;
    }
    this.stop();
  }

  private async serve(): Promise<void> {
    const { startSeconds, lostSeconds } = this.options;
    let waitUntil = performance.now() + startSeconds * 1000;
    let backoff = FIRST_BACKOFF_MS;
    let connectedOnce = false;
    while (!this.stopping) {
      const began = performance.now();
      try {
        const results = await this.oneSession();
        connectedOnce = true;
        waitUntil = performance.now() + lostSeconds * 1000;
        if (results > 0 || performance.now() - began > GOOD_SESSION_MS) backoff = FIRST_BACKOFF_MS;
      } catch (error) {
        if (this.stopping) return;
        this.giveUpOrLog(error as Error, waitUntil, connectedOnce);
      }
      if (!this.stopping) await this.pause(backoff * (0.5 + Math.random() / 2)); // jitter: workers of a pod do not all knock at once
      backoff = Math.min(2 * backoff, LONGEST_BACKOFF_MS);
    }
  }

  private pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Serves one connection to its end; the number of results it returned. */
  private async oneSession(): Promise<number> {
    const { path, name, parallel, logger } = this.options;
    const socket = await connected(path);
    let session: Session;
    this.opening = socket;
    try {
      session = await Session.open(socket, this.app, name, parallel, logger);
    } finally {
      this.opening = undefined;
    }
    this.session = session;
    this.saidWaiting = false;
    logger.info(`connected to ${path}, processor ${session.schema.processor}, session ${session.schema.session}`);
    await session.over;
    this.session = undefined;
    const text = `session ${session.schema.session} ended: ${session.reason}`;
    if (session.saidGoodbye || this.stopping) logger.info(text);
    else logger.warn(text);
    return session.results;
  }

  private giveUpOrLog(error: Error, waitUntil: number, connectedOnce: boolean): void {
    const { path, lostSeconds, logger } = this.options;
    if (error instanceof ConfigError) throw error;
    if (error instanceof RefusedError && findErrorCode(error.code).final) {
      throw new ConfigError(
        `the sidecar refuses this program: ${error.message} (${error.code}). What to do: ${findErrorCode(error.code).remedy}`);
    }
    if (performance.now() >= waitUntil) {
      if (!(error instanceof NoSidecarError)) throw error;
      throw new NoSidecarError(connectedOnce
        ? `the sidecar at ${path} went away and did not come back within ${lostSeconds} s`
        : `no sidecar at ${path}; run: millstream run -f processor.yaml -- node ${basename(process.argv[1] ?? "program.js")}`);
    }
    if (!this.saidWaiting) {
      this.saidWaiting = true;
      logger.info(`waiting for the sidecar: ${error.message}`);
    }
  }
}

function connected(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    const failed = (error: Error): void => reject(new NoSidecarError(`no sidecar at ${path}: ${error.message}`));
    socket.once("error", failed);
    socket.once("connect", () => {
      socket.off("error", failed);
      resolve(socket);
    });
  });
}
