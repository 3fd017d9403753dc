// The conformance worker of the TypeScript SDK: does what docs/reference/conformance.md says.
//
//   npm run build && millstream conform --profile conformance/profile.yaml -- node dist/conformance/worker.js
import { setTimeout as sleep } from "node:timers/promises";

import { App, RejectRecord, bytes, int64, type Clock, type Context, type Record, type Session, type Timer, type VisitEnd, type Visited } from "../src/index.js";

type Bytes = Uint8Array;

const app = new App();
const raw = { key: bytes, value: bytes };
const named = <T>(names: string[], make: (name: string) => T): Map<string, T> => new Map(names.map((name) => [name, make(name)]));
const stores = named(["counts", "archive", "nowhere", "scripts"], (name) => app.store(name, raw));
const windowStores = named(["minutes", "hops", "final"], (name) => app.windowStore(name, raw));
const sessionStores = new Map([
  ["visits", app.sessionStore("visits", { ...raw, merge: (a, b) => Buffer.concat([a, Buffer.from("+"), b]) })],
  ["stays", app.sessionStore("stays", raw)],
]);
const tables = new Map([["people", app.join("people", raw)], ["rates", app.lookup("rates", raw)], ...stores]);
const outputs = named(["out", "reads", "nowhere", "loop"], (name) => app.output(name, raw));
const timers = named(["tick event", "tick wall", "other event", "other wall"], (id) => {
  const [name, clock] = id.split(" ") as [string, Clock];
  return app.timer(name, { key: bytes, clock });
});
const walk = app.visit("walk", { store: stores.get("counts")!, data: bytes });
const gathered = app.gathered<string[]>(() => []);

// A word of a script: ~ is null, % alone is empty, %ff a byte.
function word(text: string | undefined): Buffer | null {
  if (text === undefined || text === "~") return null;
  if (text === "%") return Buffer.alloc(0);
  const unescaped = Buffer.from(text).toString("latin1").replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
  return Buffer.from(unescaped, "latin1");
}

const textOf = (data: Bytes): string => Buffer.from(data).toString();
const more = (number: Bytes | undefined): Buffer => Buffer.from(String(Number(textOf(number ?? Buffer.from("0"))) + 1));
const show = (ctx: Context, key: Bytes | null, value: Bytes | undefined): void => outputs.get("reads")!.emit(ctx, key, value ?? null);

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

/** What a script runs for: a record, a timer, a window that closes, a row of a visit. */
interface Subject {
  ctx: Context;
  key: Bytes | null;
  record?: Record<Bytes, Bytes>;
}

const boundsOf = (row: { readonly start: number; readonly end: number }): string => `${row.start}..${row.end}`;
const withValue = (bounds: string, ...values: (Bytes | undefined)[]): Buffer => {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? Buffer.from(bounds) : Buffer.from([`${bounds}=`, ...known.map((value) => Buffer.from(value!).toString("latin1")).join(",")].join(""), "latin1");
};

/** Commands on plain stores, joins and lookups; false: it is none of them. */
async function onTable({ ctx, key: own }: Subject, words: string[]): Promise<boolean> {
  const table = tables.get(words[1] ?? "")!;
  const store = stores.get(words[1] ?? "")!;
  switch (words[0]) {
    case "get": case "join": case "lookup": {
      const key = word(words[2]) ?? undefined;
      show(ctx, key ?? own, await table.get(ctx, key as Bytes));
      return true;
    }
    case "get_many": {
      const keys = words.slice(2).map((text) => word(text)!);
      (await table.getMany(ctx, keys)).forEach((value, n) => show(ctx, keys[n]!, value));
      return true;
    }
    case "scan": case "scan_table": {
      const [from, to] = [word(words[2]), word(words[3])];
      const range = { ...(from && { from }), ...(to && { to }), limit: Number(words[4]), reverse: words[5] === "reverse" };
      for await (const [key, value] of table.scan(ctx, range)) show(ctx, key, value);
      return true;
    }
    case "count": {
      const count = more(await store.get(ctx));
      store.set(ctx, count);
      outputs.get("out")!.emit(ctx, own, count);
      return true;
    }
    case "set": return store.set(ctx, word(words[2])!, word(words[3]) ?? undefined), true;
    case "set_size": return store.set(ctx, Buffer.alloc(Number(words[2]), "x")), true;
    case "delete": return store.delete(ctx, word(words[2]) ?? undefined), true;
  }
  return false;
}

/** Commands on windows. */
async function onWindows({ ctx, key }: Subject, words: string[]): Promise<boolean> {
  const store = windowStores.get(words[1] ?? "")!;
  switch (words[0]) {
    case "windows":
      for (const window of store.windows(ctx)) show(ctx, key, withValue(boundsOf(window), await window.get()));
      return true;
    case "count_windows":
      for (const window of store.windows(ctx)) {
        const count = more(await window.get());
        window.set(count);
        outputs.get("out")!.emit(ctx, key, withValue(boundsOf(window), count));
      }
      return true;
    case "set_windows": return store.windows(ctx).forEach((window) => window.set(word(words[2])!)), true;
    case "delete_windows": return store.windows(ctx).forEach((window) => window.delete()), true;
    case "window": return show(ctx, key, await store.window(ctx, Number(words[2])).get()), true;
    case "set_window": return store.window(ctx, Number(words[2])).set(word(words[3])!), true;
  }
  return false;
}

/** Commands on sessions, timers and visits. */
async function onTime({ ctx, key }: Subject, words: string[]): Promise<boolean> {
  const session = (): Session<Bytes, Bytes> | undefined => sessionStores.get(words[1]!)!.session(ctx);
  const timer = (clock = "event"): Timer<Bytes> => timers.get(`${words[1]} ${clock}`)!;
  switch (words[0]) {
    case "session": {
      const found = session();
      show(ctx, key, found && withValue(boundsOf(found), ...(await found.values())));
      return true;
    }
    case "set_session": return session()!.set(word(words[2])!), true;
    case "count_session": {
      const found = session()!;
      const count = (await found.values()).reduce((sum, value) => sum + Number(textOf(value)), 1);
      found.set(Buffer.from(String(count)));
      outputs.get("out")!.emit(ctx, key, Buffer.from(`${boundsOf(found)}=${count}`));
      return true;
    }
    case "timer": return timer(words[3]).set(ctx, Number(words[2]), word(words[4]) ?? undefined), true;
    case "cancel": return timer(words[2]).cancel(ctx, word(words[3]) ?? undefined), true;
    case "visit": return changeVisit(ctx, words), true;
    case "visit_size": return walk.start(ctx, Buffer.alloc(Number(words[2]), "x")), true;
    case "watermark": return outputs.get("out")!.emit(ctx, null, ctx.watermark === undefined ? null : Buffer.from(String(ctx.watermark))), true;
  }
  return false;
}

function changeVisit(ctx: Context, words: string[]): void {
  const visit = words[1] === walk.name ? walk : app.visit(words[1]!, { store: stores.get("counts")!, data: bytes });
  if (words[2] === "start") visit.start(ctx, word(words[3]) ?? undefined);
  else visit[words[2] as "stop" | "pause" | "resume"](ctx);
}

async function run(subject: Subject, words: string[]): Promise<void> {
  const { ctx, key, record } = subject;
  const out = outputs.get("out")!;
  switch (words[0]) {
    case "emit": return emit(ctx, words);
    case "emit_size": return outputs.get(words[1]!)!.emit(ctx, key, Buffer.alloc(Number(words[2]), "x"));
    case "info": return out.emit(ctx, null, Buffer.from(`${record!.input} ${record!.task} ${record!.offset} ${record!.timestamp} ${record!.attempt}`));
    case "fail": throw new Error(word(words[1])!.toString());
    case "fail_size": throw new Error("x".repeat(Number(words[1])));
    case "reject": throw new RejectRecord(word(words[1])!.toString());
    case "gather": return gathered.change(ctx, (texts) => texts.push(word(words[1])!.toString()));
    case "sleep": return sleep(Number(words[1]));
    case "crash": process.exit(3);
  }
  if (!(await onTable(subject, words)) && !(await onWindows(subject, words)) && !(await onTime(subject, words))) throw new Error(`no command ${words[0]}`);
}

async function runScript(subject: Subject, script: Bytes): Promise<void> {
  for (const line of textOf(script).split("\n")) await run(subject, line.split(" "));
}

/** The script that the store has for a timer or a window, if there is one. */
async function runStored(subject: Subject): Promise<void> {
  const script = await stores.get("scripts")!.get(subject.ctx);
  if (script !== undefined) await runScript(subject, script);
}

async function sendGathered(ctx: Context): Promise<void> {
  for (const text of gathered.take(ctx)) {
    if (text === "fail") throw new Error(text);
    const key = Buffer.from(text.slice("count:".length));
    if (!text.startsWith("count:")) outputs.get("out")!.emit(ctx, null, Buffer.from(text));
    else stores.get("counts")!.set(ctx, more(await stores.get("counts")!.get(ctx, key)), key);
  }
}

app.on("script", raw, (ctx, record) => runScript({ ctx, key: record.rawKey, record }, record.value!));
app.on("echo", raw, (ctx, record) => outputs.get("out")!.emit(ctx, record.rawKey, record.rawValue, { headers: record.headers }));
app.on("ints", { key: bytes, value: int64 }, (ctx, record) => outputs.get("out")!.emit(ctx, record.rawKey, Buffer.from(String(record.value))));

// What a manifest has to declare is there only in the cases that have it.
const needs = (process.env["CONFORMANCE_NEEDS"] ?? "").split(",");
if (needs.includes("timers")) {
  for (const timer of timers.values()) {
    app.onTimer(timer, async (ctx, due) => {
      outputs.get("out")!.emit(ctx, due.key, Buffer.from(`${due.name} ${due.clock} ${due.time} ${due.attempt}`));
      await runStored({ ctx, key: due.key });
    });
  }
}
if (needs.includes("visits")) {
  const facts = ({ visit, time, attempt, data }: Visited<Bytes, Bytes, Bytes> | VisitEnd<Bytes>): Buffer =>
    Buffer.concat([Buffer.from(`${visit} ${time} ${attempt} `), data ?? Buffer.from("~")]);
  app.onVisit(walk, async (ctx, row) => {
    outputs.get("out")!.emit(ctx, row.key, facts(row));
    show(ctx, row.key, row.value);
    await runStored({ ctx, key: row.key });
  });
  app.onVisitEnd(walk, (ctx, end) => outputs.get("out")!.emit(ctx, null, facts(end)));
}
if (needs.includes("closings")) {
  app.onClose(windowStores.get("final")!, async (ctx, window) => {
    outputs.get("out")!.emit(ctx, window.key, withValue(boundsOf(window), window.value));
    await runStored({ ctx, key: window.key });
  });
}
if (needs.includes("sessionClosings")) {
  app.onClose(sessionStores.get("stays")!, async (ctx, session) => {
    outputs.get("out")!.emit(ctx, session.key, withValue(boundsOf(session), session.value));
    await runStored({ ctx, key: session.key });
  });
}
if (needs.includes("hooks")) app.onBegin(() => {}).onFinalize(sendGathered).onCommitted(() => {});

await app.run();
