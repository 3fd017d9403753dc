// Joins, lookups, the loop, hooks on transactions.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { App, int, json, string, silentLogger } from "millstream";
import { RecordFailed, TestKit } from "millstream/testing";
import { Kind } from "../src/wire.js";
import { Worker } from "../src/worker.js";
import { FakeSidecar, cleanUp, cleanedUp, type Packable } from "../fixtures/fake_sidecar.js";

afterEach(cleanedUp);

async function failureOf(feeding: Promise<void>): Promise<RecordFailed> {
  const error = await feeding.then(() => undefined, (thrown) => thrown);
  assert.ok(error instanceof RecordFailed, String(error));
  return error;
}

for (const prefetch of [true, false]) {
  test(`orders meet customers and rates, and go on by customer${prefetch ? "" : "; all is asked for"}`, async () => {
    const app = new App();
    const customers = app.join("customers", { key: string, value: json<{ name: string }>() });
    const rates = app.lookup("rates", { key: string, value: json<number>() });
    const totals = app.store("totals", { key: string, value: json<number>() });
    const loop = app.output("loop", { key: string, value: json<number>() });
    const spending = app.output("spending", { key: string, value: json<{ name: string; euros: number }>() });
    app.on("orders", { key: string, value: json<{ customer: string; amount: number; currency: string }>() }, async (ctx, order) => {
      const { customer, amount, currency } = order.value!;
      const rate = await rates.get(ctx, currency);
      if (rate === undefined) throw new Error(`no rate for ${currency}`);
      loop.emit(ctx, customer, amount * rate, { headers: [["order", order.key!]] });
    });
    app.on("loop", { key: string, value: json<number>() }, async (ctx, record) => {
      assert.match(record.header("order")!.toString(), /^o/);
      const { name } = (await customers.get(ctx)) ?? { name: "?" };
      const euros = ((await totals.get(ctx)) ?? 0) + record.value!;
      totals.set(ctx, euros);
      spending.emit(ctx, record.key, { name, euros });
    });
    const kit = new TestKit(app, { stores: ["totals"], joins: ["customers"], lookups: ["rates"], outputs: ["spending", "loop"], prefetch });
    kit.setState(rates, "usd", 2);
    kit.setState(rates, "eur", 1);
    kit.setState(customers, "c1", { name: "Anna" });
    const order = (key: string, customer: string, amount: number, currency: string) => ({ key, value: { customer, amount, currency } });
    await kit.feed("orders", order("o1", "c1", 10, "usd"), order("o2", "c2", 1, "eur"), order("o3", "c1", 5, "eur"));
    assert.deepEqual(kit.outputs(spending).map(({ key, value }) => [key, value]),
      [["c1", { name: "Anna", euros: 20 }], ["c2", { name: "?", euros: 1 }], ["c1", { name: "Anna", euros: 25 }]]);
    assert.equal(kit.state(totals, "c1"), 25);
    assert.deepEqual([kit.state(customers, "c1"), kit.state(rates, "gbp")], [{ name: "Anna" }, undefined]);
    const { failure } = await failureOf(kit.feed("orders", order("o4", "c1", 1, "gbp")));
    assert.match(failure.message, /no rate for gbp/);
  });
}

test("many keys of a join, and ranges of a lookup", async () => {
  const app = new App();
  const people = app.join("people", { key: string, value: int });
  const rates = app.lookup("rates", { key: string, value: int });
  const seen: unknown[] = [];
  app.on("in", { key: string, value: string }, async (ctx) => {
    seen.push(await people.getMany(ctx, ["a", "z", "a"]), await people.get(ctx, "z"));
    for await (const row of rates.scan(ctx, { prefix: "r", limit: 4 })) seen.push(row);
    await assert.rejects(app.join("rates", { key: string, value: int }).get(ctx), /no join "rates" in the manifest; declared: people\. Add it under spec\.joins/);
  });
  const kit = new TestKit(app, { joins: ["people"], lookups: ["rates"] });
  kit.setState(people, "a", 1);
  for (const n of [1, 2, 3, 4, 5]) kit.setState(rates, `r${n}`, n);
  await failureOf(kit.feed("in", { key: "a", value: "" }));
  assert.deepEqual(seen, [[1, undefined, 1], undefined, ["r1", 1], ["r2", 2], ["r3", 3], ["r4", 4]]);
});

test("a record for the loop needs a key, and chooses no partition", async () => {
  const app = new App();
  const loop = app.output("loop", { key: string, value: string });
  app.on("loop", { key: string, value: string }, () => {});
  app.on("in", { key: string, value: string }, (ctx, record) => (record.value === "no key" ? loop.emit(ctx, null, "x") : loop.emit(ctx, "b", "x", { partition: 1 })));
  const kit = new TestKit(app, { outputs: ["loop"] });
  const noKey = await failureOf(kit.feed("in", { key: "a", value: "no key" }));
  assert.deepEqual([noKey.failure.class, noKey.failure.retriable], ["Output", false]);
  assert.match(noKey.message, /needs a key/);
  assert.match((await failureOf(kit.feed("in", { key: "a", value: "" }))).message, /chooses its partition/);
});

function gatheringApp() {
  const app = new App();
  const sums = app.gathered<Map<string, number>>(() => new Map());
  const out = app.output("out", { key: string, value: int });
  const said: string[] = [];
  app.on("in", { key: string, value: string }, async (ctx, record) => {
    sums.change(ctx, (sum) => {
      if (record.value === "late failure") throw new Error("too late");
      sum.set(record.key!, (sum.get(record.key!) ?? 0) + 1);
    });
    if (record.value === "bad") throw new Error("bad");
  });
  app.onBegin(() => void said.push("begin"));
  app.onFinalize(async (ctx) => {
    for (const [key, sum] of sums.take(ctx)) {
      if (key === "stop") throw new Error("stop");
      out.emit(ctx, key, sum);
    }
  });
  app.onCommitted(async (task) => void said.push(`committed ${task}`));
  return { app, out, said };
}

test("what is gathered goes out once, and without what failed", async () => {
  const { app, out, said } = gatheringApp();
  const [kit, other] = [new TestKit(app, { outputs: ["out"] }), new TestKit(app, { outputs: ["out"], task: 3 })];
  await kit.feed("in", { key: "a" }, { key: "b" }, { key: "a" });
  await other.feed("in", { key: "a" });
  assert.deepEqual(kit.outputs(out).map(({ key, value, timestamp }) => [key, value, timestamp]), [["a", 2, null], ["b", 1, null]]);
  assert.deepEqual(other.outputs(out).map(({ key, value }) => [key, value]), [["a", 1]]);
  assert.deepEqual(said, ["begin", "committed 0", "begin", "committed 3"]);
  await failureOf(kit.feed("in", { key: "a" }, { key: "a", value: "bad" }));
  const late = await failureOf(kit.feed("in", { key: "a" }, { key: "a", value: "late failure" }, { key: "a" }));
  assert.deepEqual([late.offset, late.failure.message.split("\n")[0]], [6, "Error: too late"]);
  await kit.feed("in", { key: "c" });
  assert.deepEqual(kit.outputs(out).slice(2).map(({ key, value }) => [key, value]), [["a", 2], ["c", 1]]);
  const { input, failure } = await failureOf(kit.feed("in", { key: "stop" }));
  assert.deepEqual([input, failure.class], ["finalize", "Handler"]);
});

test("hooks cannot write to windows or set timers", async () => {
  const app = new App();
  const minutes = app.windowStore("minutes", { key: string, value: int });
  const timer = app.timer("t", { key: string });
  let act: (ctx: never) => void = () => {};
  app.on("in", { key: string, value: string }, () => {}).onFinalize((ctx) => act(ctx as never));
  const kit = new TestKit(app, { stores: [{ name: "minutes", window: { size: 60 } }], timers: true });
  for (const one of [(ctx: never) => minutes.window(ctx, 0, "a").set(1), (ctx: never) => timer.set(ctx, 9, "a")]) {
    act = one;
    const { failure } = await failureOf(kit.feed("in", { key: "a" }));
    assert.equal(failure.class, "Output");
    assert.match(failure.message, /hooks on transactions cannot/);
  }
});

const CAPABILITIES = { capabilities: ["begin", "finalize", "committed"], outputs: [{ name: "out" }] };
const RESULT_OF = (seq: number, done: number, outputs: Packable = []): [number, ...Packable[]] => [Kind.RESULT, seq, done, null, {}, outputs];
const count = (n: number): Buffer => Buffer.from([0, 0, 0, 0, 0, 0, 0, n]);

test("a session calls the hooks of each task, and forgets what it gathered with the task", async () => {
  const sidecar = new FakeSidecar();
  const { app, said } = gatheringApp();
  const worker = new Worker(app, {
    path: sidecar.path, name: "test", parallel: 2, startSeconds: 5, lostSeconds: 5, stopSeconds: 0.05, logger: silentLogger, signals: false,
  });
  worker.run().catch(() => {});
  cleanUp.push(() => worker.stop());
  const c = await sidecar.accept(CAPABILITIES);
  c.send(Kind.OPEN, 0);
  c.send(Kind.BEGIN, 1, 0);
  await c.expectFrame(...RESULT_OF(1, 0));
  c.batch(2, 0, "x", "x");
  await c.expectFrame(...RESULT_OF(2, 2));
  c.batch(3, 1, "x");
  await c.expectFrame(...RESULT_OF(3, 1));
  c.send(Kind.FINALIZE, 4, 0);
  await c.expectFrame(...RESULT_OF(4, 0, [[0, Buffer.from("k"), count(2), null]]));
  c.send(Kind.COMMITTED, [[0, 4]]);
  c.send(Kind.BEGIN, 5, 0);
  await c.expectFrame(...RESULT_OF(5, 0));
  assert.deepEqual(said, ["begin", "committed 0", "begin"]);
  c.send(Kind.CLOSE, 1);
  c.send(Kind.OPEN, 1);
  c.batch(6, 1, "x");
  await c.expectFrame(...RESULT_OF(6, 1));
  c.send(Kind.FINALIZE, 7, 1);
  await c.expectFrame(...RESULT_OF(7, 0, [[0, Buffer.from("k"), count(1), null]]));
});

test("of hooks that the sidecar does not call a warning tells", async () => {
  const sidecar = new FakeSidecar();
  const warnings: string[] = [];
  const worker = new Worker(gatheringApp().app, {
    path: sidecar.path, name: "test", parallel: 2, startSeconds: 5, lostSeconds: 5, stopSeconds: 0.05,
    logger: { ...silentLogger, warn: (text) => void warnings.push(text) }, signals: false,
  });
  worker.run().catch(() => {});
  cleanUp.push(() => worker.stop());
  const c = await sidecar.accept({ capabilities: ["begin"], outputs: [{ name: "out" }] });
  c.batch(1, 0, "x");
  await c.expectFrame(...RESULT_OF(1, 1));
  assert.deepEqual(warnings, ["finalize", "committed"].map((hook) => `the program has a hook for "${hook}", which this sidecar does not call; use a later one`));
});
