// The README's programs do what it says, and are the files of examples/.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { TestKit } from "millstream/testing";
import * as cents from "../examples/cents.js";
import * as minutes from "../examples/minutes.js";
import * as wordcount from "../examples/wordcount.js";

const PACKAGE = new URL(`file://${process.env["MILLSTREAM_SDK_TYPESCRIPT"] ?? process.cwd()}/`);

test("a stateless map", async () => {
  const kit = new TestKit(cents.app, { outputs: ["order-cents"] });
  await kit.feed("orders", { key: "a", value: { amount: 1.25 }, headers: [["h", "1"], ["h", null]] }, { key: "a", value: { amount: 0 } });
  const [out, ...more] = kit.outputs(cents.cents);
  assert.deepEqual([out!.key, out!.value, more], ["a", 125, []]);
  assert.deepEqual(out!.headers, [["h", Buffer.from("1")], ["h", null]]);
});

test("a keyed count", async () => {
  const kit = new TestKit(wordcount.app, { stores: ["counts"], outputs: ["word-counts"] });
  for (const key of ["x", "y", Buffer.of(0xff), "x", Buffer.of(0xff)]) await kit.feed("words", { key });
  assert.deepEqual(["x", "y", "\udcff"].map((key) => kit.state(wordcount.counts, key)), [2, 1, 2]);
  assert.deepEqual(kit.outputs(wordcount.totals).map((o) => [o.rawKey!.toString("latin1"), o.value]), [["x", 1], ["y", 1], ["\xff", 1], ["x", 2], ["\xff", 2]]);
});

test("a windowed aggregate", async () => {
  const stores = [{ name: "minutes", window: { size: 60_000, grace: 10_000, emit: "Final" } }] as const;
  const kit = new TestKit(minutes.app, { stores, outputs: ["minute-averages"] });
  const minute = Date.UTC(2026, 10, 30, 12, 0);
  const reading = (seconds: number, celsius: number, quality = "good") =>
    ({ key: "s", value: { celsius }, headers: [["quality", quality]] as const, timestamp: minute + 1000 * seconds });
  await kit.feed("readings", reading(0, 10), reading(61, 1), reading(59, 20), reading(2, 99, "bad"));
  assert.deepEqual(kit.windows(minutes.minutes).map(({ value }) => value), [{ n: 2, sum: 30 }, { n: 1, sum: 1 }]);
  assert.deepEqual(kit.outputs(minutes.averages), []); // within grace
  await kit.feed("readings", reading(70, 3), reading(1, 50)); // the last one is late
  const told = kit.outputs(minutes.averages).map(({ key, value, timestamp, headers }) => [key, value, timestamp, headers.map(([, content]) => content!.toString())]);
  assert.deepEqual(told, [["s", 15, minute + 59_999, ["2", "2026-11-30T12:00:00.000Z"]]]);
  assert.equal(kit.late, 1);
});

test("the README shows the examples", () => {
  const readme = readFileSync(new URL("README.md", PACKAGE), "utf8");
  const samples = [...readme.matchAll(/<!-- sample: (\w+) -->\n```ts\n(.*?)```/gs)];
  assert.deepEqual(samples.map((sample) => sample[1]), ["cents", "wordcount", "minutes"]);
  for (const [, name, code] of samples) {
    const program = readFileSync(new URL(`examples/${name}.ts`, PACKAGE), "utf8");
    assert.equal(code, `${program}\nawait app.run();\n`);
  }
});
