// Visits, through the test kit.
import assert from "node:assert/strict";
import { test } from "node:test";

import { App, ConfigError, NoKeyError, int, string } from "millstream";
import { RecordFailed, TestKit, type TestRecord, type TestSetup } from "millstream/testing";

const at = (timestamp: number, value: string): TestRecord => ({ key: "a", value, timestamp });
const SETUP = { stores: ["others", "accounts"], outputs: ["reports"], visits: [{ name: "interest", store: "accounts" }] } satisfies TestSetup;

/** Adds what a visit's data says to every account, and reports at its end; records do what their value says. */
function bank() {
  const app = new App();
  const accounts = app.store("accounts", { key: string, value: int });
  const interest = app.visit("interest", { store: accounts, data: int });
  const reports = app.output("reports", { key: string, value: string });
  app.on("in", { key: string, value: string }, (ctx, record) => {
    const [what, number] = record.value!.split(" ") as [string, string?];
    const n = number === undefined ? undefined : Number(number);
    if (what === "set") accounts.set(ctx, n!);
    if (["start", "pause", "fail"].includes(what)) interest.start(ctx, n);
    if (what === "pause") interest.pause(ctx);
    if (what === "resume") interest.resume(ctx);
    if (what === "stop") interest.stop(ctx);
    if (what === "fail") throw new Error("no");
  });
  app.onVisit(interest, (ctx, row) => {
    if (row.value < 0) throw new Error(`account ${row.key} is overdrawn`);
    if (row.value === 1000) accounts.delete(ctx, `${row.key}b`);
    else if (row.data !== undefined) accounts.set(ctx, row.value + row.data);
  });
  app.onVisitEnd(interest, async (ctx, end) => {
    await assert.rejects(accounts.get(ctx), NoKeyError);
    reports.emit(ctx, "end", `${end.visit} ${end.data} ${end.time} ${end.attempt}`);
  });
  return { app, accounts, interest, reports };
}

for (const prefetch of [true, false]) {
  test(`a visit comes to every row and then to its end, ${prefetch ? "values that came along" : "values that are asked for"}`, async () => {
    const { app, accounts, reports } = bank();
    const kit = new TestKit(app, { ...SETUP, prefetch });
    const names = Array.from({ length: 250 }, (_, n) => String(n).padStart(3, "0")); // more than a page
    names.forEach((name, n) => kit.setState(accounts, name, n));
    await kit.feed("in", at(5, "start 2"));
    names.forEach((name, n) => assert.equal(kit.state(accounts, name), n + 2));
    await kit.feed("in", at(6, "start"));
    assert.deepEqual(kit.outputs(reports).map(({ value, timestamp }) => [value, timestamp]), [["interest 2 5 1", 5], ["interest undefined 6 1", 6]]);
  });
}

test("a paused visit waits until it is resumed", async () => {
  const { app, accounts, reports } = bank();
  const kit = new TestKit(app, SETUP);
  await kit.feed("in", at(1, "set 1"), at(2, "pause 3"), at(3, "set 10"));
  assert.deepEqual([kit.state(accounts, "a"), kit.visits()], [10, ["interest"]]);
  await kit.feed("in", at(4, "resume"));
  assert.deepEqual([kit.state(accounts, "a"), kit.visits()], [13, []]);
  await kit.feed("in", at(5, "pause 3"));
  await kit.feed("in", at(6, "stop"));
  assert.deepEqual([kit.visits(), kit.outputs(reports).length], [[], 1]);
});

test("a test starts a visit", async () => {
  const { app, accounts, interest } = bank();
  const kit = new TestKit(app, SETUP);
  kit.setState(accounts, "b", 1);
  await kit.visit(interest, 5);
  assert.equal(kit.state(accounts, "b"), 6);
  await assert.rejects(kit.visit(app.visit("other", { store: accounts, data: int })), /no visit "other"; visits: interest/);
});

test("a row that fails is given up, and the walk goes on", async () => {
  const { app, accounts } = bank();
  const kit = new TestKit(app, SETUP);
  for (const [name, value] of [["a", 1], ["b", -1], ["c", 1]] as const) kit.setState(accounts, name, value);
  const failed: unknown = await kit.feed("in", at(1, "start 2")).catch((error) => error);
  assert.ok(failed instanceof RecordFailed && failed.input === "interest" && failed.offset === -1, String(failed));
  assert.deepEqual(["a", "b", "c"].map((name) => kit.state(accounts, name)), [3, -1, 1]);
  await kit.advance(1);
  assert.equal(kit.state(accounts, "c"), 3);
});

test("a row that an earlier one deleted is passed over", async () => {
  const { app, accounts } = bank();
  const kit = new TestKit(app, SETUP);
  for (const [name, value] of [["a", 1000], ["ab", -1], ["c", 1]] as const) kit.setState(accounts, name, value);
  await kit.feed("in", at(1, "start 2"));
  assert.deepEqual(["a", "ab", "c"].map((name) => kit.state(accounts, name)), [1000, undefined, 3]);
});

test("a start that fails is none", async () => {
  const { app, reports } = bank();
  const kit = new TestKit(app, SETUP);
  await assert.rejects(kit.feed("in", at(1, "fail 2")), RecordFailed);
  assert.deepEqual([kit.visits(), kit.outputs(reports)], [[], []]);
});

test("visits that do not fit the manifest", () => {
  for (const [visits, message] of [
    [[...SETUP.visits, { name: "audit", store: "others" }], /declares visit "audit", for which the program has no handler/],
    [[{ name: "interest", store: "others" }], /walks store "others" in the manifest, and "accounts" in the program/],
    [[], /does not declare; add \{name: interest, store: accounts\}/],
    [[{ name: "interest", store: "nowhere" }], /walks store "nowhere"; stores: others, accounts/],
  ] as const) {
    assert.throws(() => new TestKit(bank().app, { ...SETUP, visits }), (error: Error) => error instanceof ConfigError && message.test(error.message));
  }
  const { app, interest } = bank();
  assert.throws(() => app.onVisit(interest, () => {}), /already has a handler/);
  assert.throws(() => app.onVisitEnd(interest, () => {}), /already has a handler/);
});

test("visits that cannot be", async () => {
  const { app, accounts, interest } = bank();
  const other = app.visit("other", { store: accounts, data: string });
  const long = app.visit("interest", { store: accounts, data: string });
  app.onFinalize((ctx) => interest.stop(ctx));
  app.on("more", { key: string, value: string }, (ctx, record) => (record.value === "other" ? other.stop(ctx) : long.start(ctx, record.value!)));
  const kit = new TestKit(app, SETUP);
  for (const [value, message] of [["other", /no visit "other" in the manifest; declared: interest/], ["x".repeat(4097), /its data has 4097 bytes, the limit is 4096/]] as const) {
    await assert.rejects(kit.feed("more", { key: "a", value }), message);
  }
  const { app: again, interest: stopped } = bank();
  again.onFinalize((ctx) => stopped.stop(ctx));
  await assert.rejects(new TestKit(again, SETUP).feed("in", at(1, "set 1")), /hooks on transactions cannot start or stop visits/);
});
