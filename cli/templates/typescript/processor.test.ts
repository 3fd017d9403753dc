// Tests without a sidecar: npm test.
import assert from "node:assert/strict";
import { test } from "node:test";

import { TestKit } from "millstream/testing";
import { app, counts, totals } from "./processor.js";

test("counts per key", async () => {
  const kit = new TestKit(app, { stores: ["counts"], outputs: ["word-counts"] });
  for (const key of ["tea", "milk", "tea"]) await kit.feed("words", { key, value: Buffer.from(key) });
  assert.equal(kit.state(counts, "tea"), 2);
  assert.deepEqual(kit.outputs(totals).map((o) => [o.key, o.value!.count]), [["tea", 1], ["milk", 1], ["tea", 2]]);
});
