// The conformance worker of the TypeScript SDK: does what docs/reference/conformance.md says.
//
//   npm run build && millstream conform --profile conformance/profile.yaml -- node dist/conformance/worker.js
import { setTimeout as sleep } from "node:timers/promises";

import { App, RejectRecord, bytes, int64, type Context, type Record } from "../src/index.js";

const app = new App();
const raw = { key: bytes, value: bytes };
const stores = new Map(["counts", "archive", "nowhere"].map((name) => [name, app.store(name, raw)]));
const outputs = new Map(["out", "reads", "nowhere"].map((name) => [name, app.output(name, raw)]));
type Raw = Record<Uint8Array, Uint8Array>;

// A word of a script: ~ is null, % alone is empty, %ff a byte.
function word(text: string | undefined): Buffer | null {
  if (text === undefined || text === "~") return null;
  if (text === "%") return Buffer.alloc(0);
  const unescaped = Buffer.from(text).toString("latin1").replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
  return Buffer.from(unescaped, "latin1");
}

function emit(ctx: Context, words: string[]): void {
  const headers = words.slice(6).map((pair) => {
    const at = pair.indexOf("=");
    return [pair.slice(0, at), word(pair.slice(at + 1))] as const;
  });
  outputs.get(words[1]!)!.emit(ctx, word(words[2]), word(words[3]), {
    headers,
    ...(words.length > 4 && words[4] !== "~" ? { timestamp: Number(words[4]) } : {}),
    ...(words.length > 5 && words[5] !== "~" ? { partition: Number(words[5]) } : {}),
  });
}

const show = (ctx: Context, key: Uint8Array | null, value: Uint8Array | undefined): void => outputs.get("reads")!.emit(ctx, key, value ?? null);

async function run(ctx: Context, record: Raw, words: string[]): Promise<void> {
  const store = stores.get(words[1] ?? "")!;
  const out = outputs.get("out")!;
  switch (words[0]) {
    case "get": {
      const key = word(words[2]) ?? undefined;
      return show(ctx, key ?? record.rawKey, await store.get(ctx, key));
    }
    case "get_many": {
      const keys = words.slice(2).map((text) => word(text)!);
      return (await store.getMany(ctx, keys)).forEach((value, n) => show(ctx, keys[n]!, value));
    }
    case "scan": {
      const [from, to] = [word(words[2]), word(words[3])];
      const range = { ...(from && { from }), ...(to && { to }), limit: Number(words[4]), reverse: words[5] === "reverse" };
      for await (const [key, value] of store.scan(ctx, range)) show(ctx, key, value);
      return;
    }
    case "count": {
      const count = Buffer.from(String(Number(Buffer.from((await store.get(ctx)) ?? Buffer.from("0")).toString()) + 1));
      store.set(ctx, count);
      return out.emit(ctx, record.rawKey, count);
    }
    case "set": return store.set(ctx, word(words[2])!, word(words[3]) ?? undefined);
    case "set_size": return store.set(ctx, Buffer.alloc(Number(words[2]), "x"));
    case "delete": return store.delete(ctx, word(words[2]) ?? undefined);
    case "emit": return emit(ctx, words);
    case "emit_size": return outputs.get(words[1]!)!.emit(ctx, record.rawKey, Buffer.alloc(Number(words[2]), "x"));
    case "info": return out.emit(ctx, null, Buffer.from(`${record.input} ${record.task} ${record.offset} ${record.timestamp} ${record.attempt}`));
    case "fail": throw new Error(word(words[1])!.toString());
    case "fail_size": throw new Error("x".repeat(Number(words[1])));
    case "reject": throw new RejectRecord(word(words[1])!.toString());
    case "sleep": return sleep(Number(words[1]));
    case "crash": process.exit(3);
  }
  throw new Error(`no command ${words[0]}`);
}

app.on("script", raw, async (ctx, record) => {
  for (const line of Buffer.from(record.value!).toString().split("\n")) await run(ctx, record, line.split(" "));
});
app.on("echo", raw, (ctx, record) => outputs.get("out")!.emit(ctx, record.rawKey, record.rawValue, { headers: record.headers }));
app.on("ints", { key: bytes, value: int64 }, (ctx, record) => outputs.get("out")!.emit(ctx, record.rawKey, Buffer.from(String(record.value))));

await app.run();
