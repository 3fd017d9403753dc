import assert from "node:assert/strict";
import { test } from "node:test";

import type { Int } from "../src/msgpack.js";
import { sessionRow, windowRow } from "../src/row_keys.js";

const SIGN = 1n << 63n;
const TIMES: Int[] = [0, 1, -1, 255, -256, 60_000, -60_000, 2 ** 31, -(2 ** 31), 2 ** 32, -(2 ** 32), 2 ** 32 - 1, 1_700_000_000_000, -62_135_596_800_000,
  Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 60n, -(2n ** 60n)];

test("the row of a window is the key and its start", () => {
  for (const time of TIMES) {
    const row = windowRow(Buffer.of(0xff, 0), time);
    assert.deepEqual([row.length, row.subarray(0, 2), row.readBigInt64BE(2)], [10, Buffer.of(0xff, 0), BigInt(time)]);
  }
  assert.equal(windowRow(Buffer.alloc(0), -1).toString("hex"), "ffffffffffffffff");
});

test("the rows of sessions sort by time", () => {
  for (const start of TIMES) {
    for (const end of TIMES) {
      const row = sessionRow(Buffer.from("k"), start, end);
      assert.deepEqual([row.readBigUInt64BE(1) - SIGN, row.readBigUInt64BE(9) - SIGN], [BigInt(start), BigInt(end)]);
    }
  }
  const sorted = [...TIMES].sort((a, b) => (a < b ? -1 : 1)).map((time) => sessionRow(Buffer.from("k"), time, time));
  for (let at = 1; at < sorted.length; ++at) assert.ok(Buffer.compare(sorted[at - 1]!, sorted[at]!) < 0);
});
