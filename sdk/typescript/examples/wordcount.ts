import { App, bytes, int, json, string } from "millstream";

export const app = new App();
export const counts = app.store("counts", { key: string, value: int });
export const totals = app.output("word-counts", { key: string, value: json<number>() });

app.on("words", { key: string, value: bytes }, async (ctx, word) => {
  const n = ((await counts.get(ctx)) ?? 0) + 1;
  counts.set(ctx, n);
  totals.emit(ctx, word.key, n);
});
