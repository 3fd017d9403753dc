// The README's programs do what it says, and are the files of examples/.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { TestKit } from "millstream/testing";
import * as average from "../examples/average.js";
import * as cents from "../examples/cents.js";
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

test("a running average", async () => {
  const kit = new TestKit(average.app, { stores: ["seen", "sums"], outputs: ["averages"] });
  await kit.feed("readings", { key: "s", value: { id: 1, celsius: 10 } }, { key: "s", value: { id: 1, celsius: 10 } },
    { key: "s", value: { id: 2, celsius: 99 }, headers: [["quality", "bad"]] }, { key: "s", value: { id: 3, celsius: 20 } });
  assert.deepEqual(kit.outputs(average.averages).map((o) => [o.value, o.headers[0]![1]!.toString()]), [[10, "1"], [15, "2"]]);
});

test("the README shows the examples", () => {
  const readme = readFileSync(new URL("README.md", PACKAGE), "utf8");
  const samples = [...readme.matchAll(/<!-- sample: (\w+) -->\n```ts\n(.*?)```/gs)];
  assert.deepEqual(samples.map((sample) => sample[1]), ["cents", "wordcount", "average"]);
  for (const [, name, code] of samples) {
    const program = readFileSync(new URL(`examples/${name}.ts`, PACKAGE), "utf8");
    assert.equal(code, `${program}\nawait app.run();\n`);
  }
});
