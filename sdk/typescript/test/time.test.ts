// Windows, sessions, timers, through the test kit: on a virtual clock.
import assert from "node:assert/strict";
import { test } from "node:test";

import { App, OutputError, bytes, int, string, type Context, type Record, type SessionStore } from "millstream";
import { RecordFailed, TestKit, type TestRecord, type TestSetup } from "millstream/testing";

const at = (timestamp: number, value = "x", key: string | null = "a"): TestRecord => ({ key, value, timestamp });

async function failureOf(feeding: Promise<void>): Promise<RecordFailed> {
  const error = await feeding.then(() => undefined, (thrown) => thrown);
  assert.ok(error instanceof RecordFailed, String(error));
  return error;
}

function minutesApp() {
  const app = new App();
  const minutes = app.windowStore("minutes", { key: string, value: int });
  const out = app.output("out", { key: string, value: int });
  app.on("in", { key: string, value: string }, async (ctx, record) => {
    for (const window of minutes.windows(ctx)) window.set(((await window.get()) ?? 0) + 1);
    if (record.value === "bad") throw new Error("bad");
  });
  return { app, minutes, out };
}

for (const prefetch of [true, false]) {
  const how = prefetch ? "values that came along" : "values that are asked for";

  test(`windows overlap, and close to late records, ${how}`, async () => {
    const { app, minutes } = minutesApp();
    const kit = new TestKit(app, { prefetch, stores: [{ name: "minutes", window: { size: 60, advance: 30, grace: 10, retention: 1000 } }] });
    await kit.feed("in", at(100), at(95), at(130), at(85)); // 85: the window from 60 is over at 120 + 10
    const counts = (): unknown[] => kit.windows(minutes).map(({ start, end, value }) => [start, end, value]);
    assert.deepEqual(counts(), [[60, 120, 2], [90, 150, 3], [120, 180, 1]]);
    const failed = await failureOf(kit.feed("in", at(131), at(135, "bad"), at(136)));
    assert.deepEqual([failed.offset, failed.failure.class], [5, "Handler"]);
    assert.deepEqual(counts(), [[60, 120, 2], [90, 150, 4], [120, 180, 2]]); // 131 counts, 135 does not
    await kit.feed("in", at(140, "x", null)); // without a key: no windows
    await kit.feed("in", at(20));
    assert.equal(kit.late, 2);
    assert.equal(kit.watermark, 140);
    assert.deepEqual(counts(), [[60, 120, 2], [90, 150, 4], [120, 180, 2]]);
  });

  test(`a window is told once when it closes, ${how}`, async () => {
    const { app, minutes, out } = minutesApp();
    const log = app.store("log", { key: string, value: int });
    app.onClose(minutes, async (ctx, closed) => {
      const [own] = minutes.windows(ctx);
      assert.deepEqual([own!.start, own!.end, await own!.get()], [closed.start, closed.end, closed.value]);
      assert.equal(await closed.get(), closed.value);
      assert.equal(closed.attempt, 1);
      log.set(ctx, closed.start);
      closed.set(closed.value + 100);
      out.emit(ctx, closed.key, closed.value);
    });
    const stores = ["log", { name: "minutes", window: { size: 60, grace: 10, retention: 500, emit: "Final" } }] as const;
    const kit = new TestKit(app, { stores, outputs: ["out"], prefetch });
    await kit.feed("in", at(0), at(10), at(65), at(69));
    assert.equal(kit.outputs(out).length, 0);
    await kit.feed("in", at(70), at(200), at(10));
    assert.deepEqual(kit.outputs(out).map(({ key, value, timestamp }) => [key, value, timestamp]), [["a", 102, 59], ["a", 103, 119]]);
    assert.equal(kit.state(log, "a"), 60);
    assert.deepEqual(kit.windows(minutes).map(({ start, value }) => [start, value]), [[0, 102], [60, 103], [180, 1]]);
    await kit.feed("in", at(560)); // the first two are kept no longer
    assert.deepEqual(kit.windows(minutes).map(({ start }) => start), [180, 540]);
  });

  test(`a session is told once when it is over, ${how}`, async () => {
    const app = new App();
    const visits = app.sessionStore("visits", { key: string, value: int });
    const out = app.output("out", { key: string, value: string });
    app.on("in", { key: string, value: string }, async (ctx, record) => {
      const visit = visits.session(ctx);
      if (record.value !== "silent") visit?.set((await visit.values()).reduce((a, b) => a + b, 1));
    });
    app.onClose(visits, async (ctx, closed) => {
      const visit = visits.session(ctx)!;
      assert.deepEqual([visit.start, visit.end, await visit.get()], [closed.start, closed.end, closed.value]);
      assert.equal(closed.attempt, 1);
      out.emit(ctx, closed.key, `${closed.start}..${closed.end}=${closed.value}`);
      if (closed.value === 4) closed.set(5);
      if (closed.start === 90) throw new Error("ninety");
    });
    const stores = [{ name: "visits", session: { gap: 10, grace: 5, retention: 1000, emit: "Final" } }] as const;
    const kit = new TestKit(app, { stores, outputs: ["out"], prefetch });
    const told = (): unknown[] => kit.outputs(out).map(({ key, value, timestamp }) => [key, value, timestamp]);
    const rows = (): unknown[] => kit.windows(visits).map(({ key, start, end, value }) => [key, start, end, value]);
    await kit.feed("in", at(0), at(10), at(20), at(12), at(35));
    assert.deepEqual(told(), []);
    await kit.feed("in", at(50, "silent", "b"), at(30), at(36)); // 30 would reach the one that is over, and 35 is not reached then
    assert.deepEqual(told(), [["a", "0..20=4", 20]]);
    assert.equal(kit.late, 1);
    await kit.feed("in", at(90));
    assert.deepEqual(told().slice(1), [["a", "35..36=2", 36], ["b", "50..50=undefined", 50]]);
    assert.deepEqual(rows(), [["a", 0, 20, 5], ["a", 35, 36, 2], ["a", 90, 90, 1], ["b", 50, 50, undefined]]);
    const failed = await failureOf(kit.feed("in", at(2000)));
    assert.equal(failed.input, "visits");
    assert.match(failed.failure.message, /ninety/);
    assert.equal(told().length, 3);
    await kit.feed("in", at(2001));
    assert.deepEqual(rows(), [["a", 2000, 2001, 2]]);
  });

  test(`sessions grow and merge, ${how}`, async () => {
    const setup = { stores: [{ name: "visits", session: { gap: 10, retention: 10_000, grace: 100 } }], prefetch };
    const handle = (visits: SessionStore<string, number>) => async (ctx: Context, record: Record<string, string>) => {
      if (record.value === "silent") return;
      const visit = visits.session(ctx)!;
      const n = (await visit.values()).reduce((a, b) => a + b, 1);
      visit.set(n);
      assert.deepEqual(await visits.session(ctx)!.values(), [n]);
      assert.equal(await visit.get(), n);
      if (record.value === "forget") visit.delete();
    };
    const of = (kit: TestKit, visits: SessionStore<string, number>): unknown[] => kit.windows(visits).map(({ start, end, value }) => [start, end, value]);

    const app = new App();
    const visits = app.sessionStore("visits", { key: string, value: int });
    app.on("in", { key: string, value: string }, handle(visits));
    const kit = new TestKit(app, setup);
    await kit.feed("in", at(0), at(8), at(30), at(31), at(60));
    assert.deepEqual(of(kit, visits), [[0, 8, 2], [30, 31, 2], [60, 60, 1]]);
    await kit.feed("in", at(40, "silent"), at(19), at(19)); // 40 belongs to 30..31; 19 is too far from 8
    assert.deepEqual(of(kit, visits), [[0, 8, 2], [19, 19, 2], [30, 40, 2], [60, 60, 1]]);
    await kit.feed("in", at(10));
    await kit.feed("in", at(50));
    assert.deepEqual(of(kit, visits), [[0, 19, 5], [30, 60, 4]]);
    const { failure } = await failureOf(kit.feed("in", at(25, "silent")));
    assert.equal(failure.class, "Handler");
    assert.match(failure.message, /store "visits": the record connects 2 sessions with values.*merge: \(a, b\)/);
    assert.deepEqual(of(kit, visits), [[0, 19, 5], [30, 60, 4]]);
    await kit.feed("in", at(61, "forget"));
    assert.deepEqual(of(kit, visits), [[0, 19, 5], [30, 61, undefined]]);

    const merging = new App();
    const merged = merging.sessionStore("visits", { key: string, value: int, merge: (a, b) => a * 10 + b });
    merging.on("in", { key: string, value: string }, async (ctx, record) => {
      const visit = merged.session(ctx);
      if (record.value !== "silent") visit!.set(Number(record.value));
      else assert.equal(await visit!.get(), record.timestamp === 10 ? 12 : undefined);
    });
    const other = new TestKit(merging, setup);
    await other.feed("in", at(0, "1"), at(20, "2"), at(100, "silent"), at(10, "silent"), at(105, "7"));
    assert.deepEqual(of(other, merged), [[0, 20, 12], [100, 105, 7]]);
  });
}

test("any window that is kept can be read and written", async () => {
  const app = new App();
  const minutes = app.windowStore("minutes", { key: string, value: int });
  app.on("in", { key: string, value: int }, async (ctx, record) => {
    const window = minutes.window(ctx, record.value!);
    window.set(((await window.get()) ?? 0) + 1);
    const other = minutes.window(ctx, record.value!, "b");
    other.set(((await other.get()) ?? 0) + 10);
    assert.equal(await minutes.window(ctx, record.value!, "a").get(), await window.get());
    assert.deepEqual([other.key, other.start, other.end], ["b", record.value, record.value! + 60]);
  });
  const kit = new TestKit(app, { stores: [{ name: "minutes", window: { size: 60, advance: 20, retention: 1000 } }] });
  await kit.feed("in", { key: "a", value: 40, timestamp: 500 }, { key: "a", value: 40, timestamp: 501 });
  assert.deepEqual(kit.windows(minutes), [{ key: "a", start: 40, end: 100, value: 2 }, { key: "b", start: 40, end: 100, value: 20 }]);
  const { failure } = await failureOf(kit.feed("in", { key: "a", value: 41, timestamp: 502 }));
  assert.equal(failure.class, "Output");
  assert.match(failure.message, /no window begins at 41; windows begin at multiples of 20 ms/);
});

test("late records are handled if the manifest says so, and an input's lateness holds time back", async () => {
  const { app, minutes } = minutesApp();
  let handled = 0;
  app.on("more", { key: string, value: string }, (ctx) => {
    handled += 1;
    assert.deepEqual(minutes.windows(ctx), []);
  });
  const stores = [{ name: "minutes", window: { size: 60 } }];
  const kit = new TestKit(app, { stores, latePolicy: "Process" });
  await kit.feed("in", at(600));
  await kit.feed("more", at(2));
  assert.deepEqual([handled, kit.late], [1, 1]);
  const patient = new TestKit(minutesApp().app, { stores, lateness: 1000 });
  await patient.feed("in", at(600), at(2));
  assert.deepEqual([patient.late, patient.watermark], [0, -400]);
});

function timersApp() {
  const app = new App();
  const reminder = app.timer("reminder", { key: string });
  const alarm = app.timer("alarm", { key: string, clock: "wall" });
  const out = app.output("out", { key: string, value: int });
  app.on("in", { key: string, value: string }, async (ctx, record) => {
    switch (record.value) {
      case "cancel": return reminder.cancel(ctx);
      case "other": return reminder.set(ctx, 500, "b");
      case "alarm": return alarm.set(ctx, new Date(2_000));
      case "far": return assert.throws(() => reminder.set(ctx, -1), OutputError);
      case "fail":
        reminder.set(ctx, 1);
        throw new Error("no");
      default: return reminder.set(ctx, record.timestamp + 100);
    }
  });
  app.onTimer(reminder, (ctx, due) => {
    if (due.time === 500) reminder.set(ctx, 700);
    if (due.time === 7) throw new Error("seven");
    out.emit(ctx, due.key, due.time);
  });
  app.onTimer(alarm, async (ctx, due) => {
    assert.deepEqual([due.name, due.clock, due.attempt, due.rawKey.toString()], ["alarm", "wall", 1, "a"]);
    out.emit(ctx, due.key, -1);
  });
  return { app, reminder, out };
}

test("timers move, are cancelled and set each other", async () => {
  const { app, out } = timersApp();
  const kit = new TestKit(app, { outputs: ["out"], timers: true });
  kit.now = 1_000;
  await kit.feed("in", at(0), at(50));
  assert.deepEqual(kit.timers(), [{ name: "reminder", clock: "event", key: Buffer.from("a"), time: 150 }]);
  await failureOf(kit.feed("in", at(120, "fail")));
  await kit.feed("in", at(60, "other"), at(150, "alarm"));
  assert.deepEqual(kit.outputs(out).map(({ key, value }) => [key, value]), [["a", 150]]);
  await kit.feed("in", at(170), at(260, "cancel"));
  await kit.advance(999);
  assert.equal(kit.outputs(out).length, 1);
  await kit.advance(1);
  await kit.feed("in", at(699, "cancel"), at(700, "cancel"));
  assert.deepEqual(kit.outputs(out).slice(1).map(({ key, value, timestamp }) => [key, value, timestamp]), [["a", -1, 2_000], ["b", 500, 500], ["b", 700, 700]]);
  assert.deepEqual(kit.timers(), []);
  const { failure } = await failureOf(kit.feed("in", at(701, "far")));
  assert.equal(failure.class, "Output");
  assert.match(failure.message, /timer "reminder": time -1 is not an integer from 0 to/);
});

test("a timer that fails is named, and given up", async () => {
  const { app, reminder } = timersApp();
  app.on("at", { key: string, value: int }, (ctx, record) => reminder.set(ctx, record.value!));
  const kit = new TestKit(app, { outputs: ["out"], timers: true });
  const failed = await failureOf(kit.feed("at", { key: "a", value: 7, timestamp: 10 }));
  assert.deepEqual([failed.input, failed.offset, failed.failure.error], ["reminder", -1, "Error"]);
  assert.deepEqual(kit.timers(), []);
});

test("what the manifest lacks is named", async () => {
  const problem = (app: App, setup: TestSetup, text: RegExp): void => assert.throws(() => new TestKit(app, setup), text);
  problem(timersApp().app, {}, /timer "reminder", and the manifest has no timers/);
  const closing = minutesApp();
  closing.app.onClose(closing.minutes, () => {});
  const stores = (emit: "Update" | "Final") => [{ name: "minutes", window: { size: 60, emit } }];
  problem(closing.app, { stores: stores("Update") }, /closing windows or sessions of "minutes"; stores with emit: Final in the manifest: none/);
  problem(minutesApp().app, { stores: stores("Final") }, /no handler for what closes; add app.onClose/);
  problem(minutesApp().app, { stores: [{ name: "minutes", window: { size: 60, advance: 61 } }] }, /advance of at most that/);

  const wrongType = await failureOf(new TestKit(minutesApp().app, { stores: ["minutes"] }).feed("in", at(0)));
  assert.match(wrongType.message, /declared: minutes \(KeyValue\)\. Add it under spec\.stores with type: Window/);
  assert.equal(wrongType.failure.retriable, false);
  const app = new App();
  const timer = app.timer("t", { key: bytes });
  app.on("in", { key: string, value: string }, (ctx) => assert.throws(() => timer.set(ctx, 5), OutputError));
  assert.match((await failureOf(new TestKit(app).feed("in", at(0)))).message, /add "timers: \{\}" under spec/);
  const keyless = await failureOf(new TestKit(timersApp().app, { timers: true }).feed("in", at(0, "x", null)));
  assert.equal(keyless.failure.error, "NoKeyError");
  assert.throws(() => new App().timer("x".repeat(256), { key: string }), /at most 255 bytes/);
  assert.throws(() => app.onTimer(timer, () => {}).onTimer(timer, () => {}), /already has a handler/);
});

test("keys are forgotten after their time to live", async () => {
  const app = new App();
  const seen = app.store("seen", { key: string, value: int });
  const before: unknown[] = [];
  app.on("in", { key: string, value: string }, async (ctx, record) => {
    before.push(await seen.get(ctx));
    if (record.value !== "look") seen.set(ctx, record.timestamp);
  });
  const kit = new TestKit(app, { stores: [{ name: "seen", ttl: 100 }] });
  await kit.feed("in", at(0), at(99), at(199, "look", "b"), at(199, "look"), at(200, "look"));
  assert.deepEqual(before, [undefined, 0, undefined, undefined, undefined]);
  assert.equal(kit.state(seen, "a"), undefined);
  await kit.feed("in", at(200), at(250), at(349, "look"), at(350, "look"), at(351, "look"));
  assert.deepEqual(before.slice(5), [undefined, 200, 250, undefined, undefined]);
  assert.throws(() => new TestKit(app, { stores: [{ name: "seen", ttl: 0 }] }), /time to live is above 0/);
});
