// __NAME__: counts the records of every key and emits the new count each time.
import { App, bytes, json, string } from "millstream";

export const app = new App();
export const counts = app.store("counts", { key: string, value: json<number>() });
export const totals = app.output("word-counts", { key: string, value: json<{ count: number }>() });

app.on("words", { key: string, value: bytes }, async (ctx, word) => {
  const n = ((await counts.get(ctx)) ?? 0) + 1;
  counts.set(ctx, n);
  totals.emit(ctx, word.key, { count: n });
});
