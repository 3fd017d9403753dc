// Several worker processes under one parent: started again when they crash, stopped together.
import cluster, { type Worker as Child } from "node:cluster";

import { MillstreamError } from "./errors.js";
import type { Logger } from "./log.js";

const FIRST_BACKOFF_MS = 100;
const LONGEST_BACKOFF_MS = 5000;
/** More crashes than this within a minute, and the parent gives up: whoever started it sees the failure. */
const MAX_CRASHES = 10;
const CRASH_WINDOW_MS = 60_000;
/** After the workers' own bound for stopping they are killed. */
const KILL_GRACE_MS = 5000;
/** An exit code that says: starting again will not help. */
export const CONFIG_EXIT = 2;

/** Resolves when `count` processes, copies of this one, have ended in good order. */
export function supervise(count: number, stopSeconds: number, logger: Logger): Promise<void> {
  return new Supervisor(count, stopSeconds, logger).run();
}

class Supervisor {
  private stopping = false;
  private crashes: number[] = [];
  private backoff = FIRST_BACKOFF_MS;
  private alive = 0; // running, or about to be started again
  private failure: Error | undefined;
  private end!: () => void;

  constructor(private readonly count: number, private readonly stopSeconds: number, private readonly logger: Logger) {}

  async run(): Promise<void> {
    const stop = (): void => this.stop();
    process.on("SIGTERM", stop).on("SIGINT", stop);
    cluster.on("exit", (child, code, signal) => this.exited(child, code, signal));
    await new Promise<void>((resolve) => {
      this.end = resolve;
      for (let n = 0; n < this.count; ++n) this.start();
    });
    process.off("SIGTERM", stop).off("SIGINT", stop);
    if (this.failure !== undefined) throw this.failure;
  }

  private start(): void {
    this.alive += 1;
    cluster.fork();
  }

  private exited(child: Child, code: number, signal: string | null): void {
    this.alive -= 1;
    if (code !== 0 && !this.stopping) {
      const how = signal ? `was killed by ${signal}` : `ended with code ${code}`;
      this.crashes = [...this.crashes.filter((at) => performance.now() - at < CRASH_WINDOW_MS), performance.now()];
      if (code === CONFIG_EXIT || this.crashes.length > MAX_CRASHES) {
        this.failure = new MillstreamError(`worker process ${child.process.pid} ${how}`);
        this.stop();
      } else {
        this.restart(`worker process ${child.process.pid} ${how}`);
      }
    }
    if (this.alive === 0) this.end();
  }

  private restart(what: string): void {
    if (this.crashes.length === 1) this.backoff = FIRST_BACKOFF_MS;
    this.logger.warn(`${what}, starting it again in ${this.backoff / 1000} s`);
    this.alive += 1;
    setTimeout(() => {
      this.alive -= 1;
      if (!this.stopping) this.start();
      else if (this.alive === 0) this.end();
    }, this.backoff);
    this.backoff = Math.min(2 * this.backoff, LONGEST_BACKOFF_MS);
  }

  private stop(): void {
    if (this.stopping) return;
    this.stopping = true;
    const children = Object.values(cluster.workers ?? {});
    for (const child of children) child?.process.kill("SIGTERM");
    setTimeout(() => children.forEach((child) => child?.process.kill("SIGKILL")), this.stopSeconds * 1000 + KILL_GRACE_MS).unref();
  }
}
