// What is this SDK's own about sessions and processes; the protocol itself is tested by the conformance suite.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import { fileURLToPath } from "node:url";

import { App, string, silentLogger, type Handler } from "millstream";
import { FrameCutter } from "../src/frames.js";
import { Kind, Reader, errorFrame, frame, goodbyeFrame, kindName, numberFrame, type Int } from "../src/wire.js";
import { Worker, type WorkerOptions } from "../src/worker.js";

const TIMEOUT_MS = 20_000;
const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const act of cleanUp.splice(0).reverse()) await act();
});

function within<T>(promise: Promise<T>, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${what} did not happen`)), TIMEOUT_MS);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** A scripted sidecar. */
class FakeSidecar {
  private readonly waiting: ((c: Connection) => void)[] = [];
  private readonly arrived: Connection[] = [];
  readonly folder = mkdtempSync(join(tmpdir(), "ms"));
  readonly path = join(this.folder, "w.sock");
  private readonly server: Server;

  constructor() {
    this.server = createServer((socket) => {
      const connection = new Connection(socket);
      const taker = this.waiting.shift();
      if (taker === undefined) this.arrived.push(connection);
      else taker(connection);
      cleanUp.push(() => socket.destroy());
    }).listen(this.path);
    cleanUp.push(() => {
      this.server.close();
      rmSync(this.folder, { recursive: true, force: true });
    });
  }

  connection(): Promise<Connection> {
    const first = this.arrived.shift();
    return first !== undefined ? Promise.resolve(first) : within(new Promise((resolve) => this.waiting.push(resolve)), "a connection");
  }

  /** HELLO and WELCOME with input "in". */
  async accept(): Promise<Connection> {
    const c = await this.connection();
    await c.expect(Kind.HELLO);
    c.socket.write(frame(Kind.WELCOME, 1, (w) => {
      w.map(3).str("protocol").int(1).str("session").int(7).str("inputs").list(1).map(1).str("name").str("in");
    }));
    return c;
  }
}

class Connection {
  private readonly frames = new FrameCutter(16 << 20);
  private readonly got: [number, Reader][] = [];
  private ended = false;
  private wake = (): void => {};
  constructor(readonly socket: Socket) {
    socket.on("data", (data: Buffer) => {
      this.frames.add(data);
      for (let payload; (payload = this.frames.next()) !== undefined; ) {
        const r = new Reader(payload);
        r.list("frame");
        this.got.push([r.number("kind"), r]);
      }
      this.wake();
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      this.ended = true;
      this.wake();
    });
  }

  /** The next frame; undefined at the end of the connection. */
  async receive(): Promise<[number, Reader] | undefined> {
    while (this.got.length === 0 && !this.ended) await within(new Promise<void>((resolve) => (this.wake = resolve)), "a frame");
    return this.got.shift();
  }

  async expect(kind: number): Promise<Reader> {
    const got = await this.receive();
    assert.equal(got && kindName(got[0]), kindName(kind));
    return got![1];
  }

  async result(): Promise<[Int, number]> {
    const r = await this.expect(Kind.RESULT);
    return [r.int("seq"), r.number("done")];
  }

  batch(seq: number, task: number, ...values: string[]): void {
    this.socket.write(frame(Kind.BATCH, 7, (w) => {
      w.int(seq).int(task).int(0).list(1).bin(Buffer.from("k")).list(values.length);
      values.forEach((value, n) => w.list(8).int(0).int(0).int(n).int(1000).int(0).bin(Buffer.from(value)).nil().int(1));
      w.map(0).nil();
    }));
  }
}

function start(sidecar: FakeSidecar, handle: Handler<string, string>, options: Partial<WorkerOptions> = {}) {
  const app = new App().on("in", { key: string, value: string }, handle);
  const worker = new Worker(app, {
    path: sidecar.path, name: "test", parallel: 4, startSeconds: 5, lostSeconds: 5, stopSeconds: 0.05, logger: silentLogger, signals: false, ...options,
  });
  const ended = worker.run();
  ended.catch(() => {});
  cleanUp.push(() => worker.stop());
  return { worker, ended };
}

test("CANCEL aborts the signal, and the next batch of the task waits for the handler", async () => {
  const sidecar = new FakeSidecar();
  const log: string[] = [];
  let letGo = (): void => {};
  const held = new Promise<void>((resolve) => (letGo = resolve));
  let started = (): void => {};
  const running = new Promise<void>((resolve) => (started = resolve));
  start(sidecar, async (ctx, record) => {
    log.push(`begin ${record.value}`);
    if (record.value === "1") {
      const aborted = new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
      started();
      await aborted;
      await held;
    }
    log.push(`end ${record.value}`);
  });
  const c = await sidecar.accept();
  c.batch(1, 0, "1", "lost");
  await within(running, "the first handler");
  c.socket.write(numberFrame(Kind.CANCEL, 1));
  c.batch(2, 0, "2");
  c.socket.write(numberFrame(Kind.PING, 5));
  await c.expect(Kind.PONG); // so both were read
  letGo();
  assert.deepEqual(await c.result(), [1, 0]);
  assert.deepEqual(await c.result(), [2, 1]);
  assert.deepEqual(log, ["begin 1", "end 1", "begin 2", "end 2"]);
});

test("handlers that never await leave the loop its turn", async () => {
  const sidecar = new FakeSidecar();
  start(sidecar, () => {
    for (const until = performance.now() + 20; performance.now() < until; );
  });
  const c = await sidecar.accept();
  c.batch(1, 0, ...new Array<string>(100).fill("x"));
  c.socket.write(numberFrame(Kind.PING, 9));
  await c.expect(Kind.PONG); // before the RESULT
  c.socket.write(numberFrame(Kind.CANCEL, 1));
  assert.deepEqual(await c.result(), [1, 0]);
});

test("tasks run at the same time where they await", async () => {
  const sidecar = new FakeSidecar();
  const waiting: (() => void)[] = [];
  start(sidecar, async () => {
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      if (waiting.length === 2) waiting.forEach((go) => go());
    });
  });
  const c = await sidecar.accept();
  c.batch(1, 0, "a");
  c.batch(2, 1, "b");
  await c.result();
  await c.result();
});

test("a stopped worker serves until goodbye", async () => {
  const sidecar = new FakeSidecar();
  const { worker, ended } = start(sidecar, () => {}, { stopSeconds: 60 });
  const c = await sidecar.accept();
  worker.stop();
  c.batch(1, 0, "a");
  await c.result();
  c.socket.write(goodbyeFrame("drained"));
  assert.equal(await c.receive(), undefined);
  await within(ended, "the end");
});

test("without goodbye a stopped worker leaves after its bound", async () => {
  const sidecar = new FakeSidecar();
  const { worker, ended } = start(sidecar, () => {});
  const c = await sidecar.accept();
  c.batch(1, 0, "a");
  await c.result();
  worker.stop();
  await c.expect(Kind.GOODBYE);
  assert.equal(await c.receive(), undefined);
  await within(ended, "the end");
});

test("stopped before the sidecar answers", async () => {
  const sidecar = new FakeSidecar();
  const { worker, ended } = start(sidecar, () => {});
  const c = await sidecar.connection();
  await c.expect(Kind.HELLO);
  worker.stop();
  await within(ended, "the end");
});

test("a refusal for good", async () => {
  const sidecar = new FakeSidecar();
  const { ended } = start(sidecar, () => {});
  const c = await sidecar.connection();
  await c.expect(Kind.HELLO);
  c.socket.write(errorFrame("Refused", "no such input"));
  await assert.rejects(within(ended, "the end"), /no such input/);
});

test("nobody listens", async () => {
  const app = new App().on("in", { key: string, value: string }, () => {});
  await assert.rejects(app.run({ socketPath: "/nonexistent/w.sock", logger: silentLogger, processes: 0 }), /processes/);
  await assert.rejects(new App().run(), /no handler/);
  const worker = new Worker(app, { path: "/nonexistent/w.sock", name: "t", parallel: 1, startSeconds: 0, lostSeconds: 0, stopSeconds: 1, logger: silentLogger, signals: false });
  await assert.rejects(worker.run(), /millstream run -f processor.yaml/);
});

const exitOf = (child: ChildProcess): Promise<number | null> => within(new Promise((resolve) => child.on("exit", resolve)), "the end of the program");

test("several processes: one that dies is started again, SIGTERM ends all", async () => {
  const sidecar = new FakeSidecar();
  const program = fileURLToPath(new URL("../fixtures/several_processes.js", import.meta.url));
  const child = spawn(process.execPath, [program], { env: { ...process.env, MILLSTREAM_SOCKET: sidecar.path, MILLSTREAM_STOP_TIMEOUT: "0.1" }, stdio: "ignore" });
  cleanUp.push(() => child.kill("SIGKILL"));
  const exit = exitOf(child);
  const [first, second] = [await sidecar.accept(), await sidecar.accept()];
  first.batch(1, 0, "crash");
  assert.equal(await first.receive(), undefined);
  const third = await sidecar.accept();
  second.batch(2, 0, "a");
  third.batch(3, 1, "a");
  await second.result();
  await third.result();
  child.kill("SIGTERM");
  await second.expect(Kind.GOODBYE);
  assert.equal(await exit, 0);
});
