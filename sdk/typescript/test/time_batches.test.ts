// What items of one batch see of each other's windows, sessions and timers; the test kit handles records with time one by one.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { App, silentLogger, string } from "millstream";
import { sessionRow, windowRow } from "../src/row_keys.js";
import { Kind } from "../src/wire.js";
import { Worker } from "../src/worker.js";
import { FakeSidecar, cleanUp, cleanedUp, type Connection, type Packable } from "../fixtures/fake_sidecar.js";

afterEach(cleanedUp);

const raw = (text: string): Buffer => Buffer.from(text);
const session = (start: number, end: number): Buffer => sessionRow(raw("k"), start, end);
const record = (offset: number, timestamp: number, value: string, ...windows: Packable[]): Packable => [0, 0, offset, timestamp, 0, raw(value), null, 1, windows];
const STORES = [
  { name: "visits", type: "Session", session: { gap: 10, grace: 0, retention: 100 } },
  { name: "minutes", type: "Window", window: { size: 60, advance: 60, grace: 0, retention: 100, final: true } },
];

/** A worker that appends values to sessions and windows, and says which timers and windows it was called for. */
async function connected(): Promise<{ c: Connection; called: string[] }> {
  const app = new App();
  const called: string[] = [];
  const visits = app.sessionStore("visits", { key: string, value: string, merge: (a, b) => a + b });
  const minutes = app.windowStore("minutes", { key: string, value: string });
  const timer = app.timer("t", { key: string });
  app.on("in", { key: string, value: string }, async (ctx, { value }) => {
    if (value === "fail") {
      timer.set(ctx, 99);
      throw new Error("fail");
    }
    if (value === "delete") minutes.window(ctx, 0).delete();
    if (value === "silent" || value === "delete") return;
    if (value === "set") return timer.set(ctx, 50);
    const visit = visits.session(ctx);
    visit?.set(((await visit.get()) ?? "") + value);
    for (const window of minutes.windows(ctx)) window.set(((await window.get()) ?? "") + value);
  });
  app.onTimer(timer, (_, due) => void called.push(`${due.name} ${due.key} ${due.time}`));
  app.onClose(minutes, (_, window) => void called.push(`${window.start} ${window.value}`));
  const sidecar = new FakeSidecar();
  const worker = new Worker(app, {
    path: sidecar.path, name: "test", parallel: 2, startSeconds: 5, lostSeconds: 5, stopSeconds: 0.05, logger: silentLogger, signals: false,
  });
  worker.run().catch(() => {});
  cleanUp.push(() => worker.stop());
  const c = await sidecar.accept({ stores: STORES, timers: true });
  c.send(Kind.OPEN, 0);
  return { c, called };
}

test("sessions grow and are connected within a batch", async () => {
  const { c } = await connected();
  const items = [
    record(0, 10, "a", [0, 10, 10, []]),
    record(1, 15, "b", [0, 10, 15, [[10, 10]]]),
    record(2, 17, "silent", [0, 10, 17, [[10, 15]]]),
    record(3, 25, "c", [0, 10, 30, [[10, 17], [30, 30]]]),
    record(4, 26, "silent", [0, 10, 30, [[10, 30]]]),
    record(5, 80, "silent", [0, 80, 80, []]),
    record(6, 85, "d", [0, 80, 85, [[80, 80]]]),
  ];
  c.send(Kind.BATCH, 1, 0, 0, [raw("k")], items, { 0: [[[30, 30, raw("x")], [80, 80, raw("")]]] }, null);
  const writes = [[session(10, 10), raw("a")], [session(10, 15), raw("ab")], [session(10, 17), raw("ab")], [session(10, 30), raw("abxc")], [session(80, 85), raw("d")]];
  await c.expectFrame(Kind.RESULT, 1, 7, null, { 0: writes }, []);
});

test("values that did not come along are asked for by their row keys", async () => {
  const { c } = await connected();
  c.send(Kind.BATCH, 1, 0, 0, [raw("k")], [record(0, 40, "d", [0, 10, 40, [[10, 30]]], [1, 0, 60])], {}, null);
  await c.expectFrame(Kind.GET, 1, 1, 0, [session(10, 30)]);
  c.send(Kind.VALUES, 1, 1, [raw("abxc")]);
  await c.expectFrame(Kind.GET, 1, 2, 1, [windowRow(raw("k"), 0)]);
  c.send(Kind.VALUES, 1, 2, [null]);
  await c.expectFrame(Kind.RESULT, 1, 1, null, { 0: [[session(10, 40), raw("abxcd")]], 1: [[windowRow(raw("k"), 0), raw("d")]] }, []);
});

test("timers that were set anew are passed over, what a failed item set is dropped", async () => {
  const { c, called } = await connected();
  const due = (key: number, time: number): Packable => [1, key, 0, "t", time, 1];
  const set = [0, 0, 0, 5, 0, raw("set"), null, 1];
  c.send(Kind.BATCH, 1, 0, 0, [raw("k"), raw("other")], [due(0, 1), set, due(0, 2), due(1, 3)], {}, null);
  await c.expectFrame(Kind.RESULT, 1, 4, null, {}, [], [[raw("k"), 0, "t", 50]]);
  assert.deepEqual(called, ["t k 1", "t other 3"]);
  c.send(Kind.BATCH, 2, 0, 0, [raw("k")], [set, [0, 0, 1, 5, 0, raw("fail"), null, 1]], {}, null);
  const { payload } = (await c.receive())!;
  assert.match(payload.toString("latin1"), /fail/);
  const timers = payload.subarray(payload.lastIndexOf(0x80)); // behind the ops, which are empty
  assert.equal(timers.toString("hex"), "809091" + "94c4016b00a17432");
});

test("a window closes with what the batch left of it", async () => {
  const { c, called } = await connected();
  const closing = (start: number, value: string): Packable => [2, 1, 0, start, start + 60, raw(value), 1];
  c.send(Kind.BATCH, 1, 0, 0, [raw("k")], [closing(60, "x"), [0, 0, 0, 5, 0, raw("delete"), null, 1], closing(0, "y")], {}, null);
  await c.expectFrame(Kind.RESULT, 1, 3, null, { 1: [[windowRow(raw("k"), 0), null]] }, []);
  assert.deepEqual(called, ["60 x"]);
});
