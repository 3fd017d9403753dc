// What is this SDK's own about sessions and processes; the protocol itself is tested by the conformance suite.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { afterEach, test } from "node:test";
import { fileURLToPath } from "node:url";

import { App, string, silentLogger, type Handler } from "millstream";
import { Kind, errorFrame, goodbyeFrame, numberFrame } from "../src/wire.js";
import { Worker, type WorkerOptions } from "../src/worker.js";
import { FakeSidecar, cleanUp, cleanedUp, within } from "../fixtures/fake_sidecar.js";

afterEach(cleanedUp);

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
