import assert from "node:assert/strict";
import { test } from "node:test";

import { App, RejectRecord, bytes, int, int64, json, string, type Context, type Record } from "millstream";
import { RecordFailed, TestKit, type TestSetup } from "millstream/testing";
import { afterPrefix } from "../src/table.js";

type More = (ctx: Context, record: Record<string, string>) => void | Promise<void>;

function counting(more: More, setup: TestSetup = {}) {
  const app = new App();
  const counts = app.store("counts", { key: string, value: int });
  const out = app.output("out", { key: string, value: json<number>() });
  app.on("in", { key: string, value: string }, async (ctx, record) => {
    const n = ((await counts.get(ctx)) ?? 0) + 1;
    counts.set(ctx, n);
    out.emit(ctx, record.key, n);
    await more(ctx, record);
  });
  return { kit: new TestKit(app, { stores: ["counts"], outputs: ["out"], ...setup }), counts, out };
}

async function failureOf(feeding: Promise<void>) {
  const error = await feeding.then(() => undefined, (thrown) => thrown);
  assert.ok(error instanceof RecordFailed, String(error));
  return error;
}

for (const prefetch of [true, false]) {
  test(`a failure keeps what came before, ${prefetch ? "prefetched" : "asked for"}`, async () => {
    const { kit, counts, out } = counting((_, record) => {
      if (record.value === "bad") throw new Error("out of luck");
    }, { prefetch });
    const records = ["1", "2", "bad", "3"].map((value) => ({ key: "a", value }));
    const { offset, failure } = await failureOf(kit.feed("in", ...records));
    assert.equal(offset, 2);
    assert.equal(failure.class, "Handler");
    assert.equal(failure.retriable, true);
    assert.match(failure.message, /^Error: out of luck\n  at .*testkit\.test/);
    assert.doesNotMatch(failure.message, /batch\.js|node:internal/);
    assert.equal(kit.state(counts, "a"), 2);
    assert.equal(kit.outputs(out).length, 2);
    await kit.feed("in", { key: "a", value: "4" });
    assert.equal(kit.state(counts, "a"), 3);
  });
}

test("scans are paged and see own writes", async () => {
  const cases = [
    [{}, "a k1 k2 k3 k4 k5 k6 new"], [{ prefix: "k" }, "k1 k2 k3 k4 k5 k6"], [{ from: "k2", to: "k5" }, "k2 k3 k4"], [{ reverse: true, limit: 4 }, "new k6 k5 k4"],
  ] as const;
  for (const [range, want] of cases) {
    const seen: string[] = [];
    const { kit, counts } = counting(async (ctx) => {
      counts.set(ctx, 1, "new");
      counts.delete(ctx, "gone");
      for await (const [key] of counts.scan(ctx, range)) seen.push(key);
    });
    for (const key of ["k1", "k2", "k3", "k4", "k5", "k6", "gone"]) kit.setState(counts, key, 1);
    await kit.feed("in", { key: "a", value: "" });
    assert.equal(seen.join(" "), want);
  }
});

test("getMany asks once and keeps the order", async () => {
  let got: (number | undefined)[] = [];
  const { kit, counts } = counting(async (ctx) => {
    got = await counts.getMany(ctx, ["x", "a", "none", "x"]);
  });
  kit.setState(counts, "x", 7);
  await kit.feed("in", { key: "a", value: "" });
  assert.deepEqual(got, [7, 1, undefined, 7]);
});

test("errors of outputs and stores fail the record, also when they are caught", async () => {
  const cases: [string, (ctx: Context, kit: ReturnType<typeof counting>) => void][] = [
    ["limit", (ctx, { out }) => out.emit(ctx, "x".repeat(1 << 20), 1)],
    ["timestamp", (ctx, { out }) => out.emit(ctx, "a", 1, { timestamp: -5 })],
    ["partition", (ctx, { out }) => out.emit(ctx, "a", 1, { partition: -1 })],
    ["nowhere", (ctx) => new App().output("nowhere", { key: string, value: string }).emit(ctx, "a", "b")],
    ["delete\\(\\)", (ctx, { counts }) => counts.set(ctx, null as never)],
    ["safe integer", (ctx, { counts }) => counts.set(ctx, 1.5)],
    ["a key and its value have 1048577 bytes", (ctx, { counts }) => counts.set(ctx, 1, "x".repeat((1 << 20) - 7))],
  ];
  for (const [what, act] of cases) {
    const kit: ReturnType<typeof counting> = counting((ctx) => assert.throws(() => act(ctx, kit)));
    const { failure } = await failureOf(kit.kit.feed("in", { key: "a", value: "" }));
    assert.match(failure.message, new RegExp(what));
    assert.equal(failure.retriable, false);
    assert.equal(kit.kit.outputs(kit.out).length, 0);
  }
});

test("decode failures and rejections", async () => {
  const app = new App().on("ints", { key: string, value: int64 }, (_, record) => {
    throw new RejectRecord(`hopeless: ${record.value}`);
  });
  const kit = new TestKit(app);
  const decode = await failureOf(kit.feed("ints", { key: "a", value: Buffer.from("1") }));
  assert.deepEqual([decode.failure.class, decode.failure.retriable], ["Decode", false]);
  const reject = await failureOf(kit.feed("ints", { key: "a", value: 5n }));
  assert.deepEqual([reject.failure.class, reject.failure.error, reject.failure.retriable], ["Handler", "RejectRecord", false]);
});

test("codecs", () => {
  for (const n of [0, 1, -1, Number.MAX_SAFE_INTEGER]) assert.equal(int.decode(Buffer.from(int.encode(n))), n);
  for (const n of [2n ** 63n - 1n, -(2n ** 63n)]) assert.equal(int64.decode(Buffer.from(int64.encode(n))), n);
  assert.throws(() => int.decode(Buffer.from(int64.encode(2n ** 60n))), /int64/);
  assert.throws(() => int64.decode(Buffer.alloc(7)));
  assert.throws(() => json().encode(undefined));
  assert.throws(() => bytes.encode("text" as never));
  const odd = [[0xff], [0xc3], [0xc3, 0xa4, 0x80], [0xed, 0xa0, 0x80], [0xef, 0xbf, 0xbd], [0xf0, 0x9f, 0x98, 0x80, 0xf0, 0x9f], [0x00, 0xfe, 0x41]];
  for (const one of odd) assert.deepEqual([...string.encode(string.decode(Buffer.from(one)))], one);
  assert.equal(string.decode(Buffer.from("\ufffd ü")), "\ufffd ü");
});

test("the end of a prefix", () => {
  assert.deepEqual(afterPrefix(Buffer.from("a\xff", "latin1")), new Uint8Array(Buffer.from("b")));
  assert.equal(afterPrefix(Buffer.of(255, 255)), null);
});
