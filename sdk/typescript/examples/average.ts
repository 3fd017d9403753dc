import { App, int, json, string } from "millstream";

export const app = new App();
export const seen = app.store("seen", { key: string, value: int });
export const sums = app.store("sums", { key: string, value: json<{ n: number; sum: number }>() });
export const averages = app.output("averages", { key: string, value: json<number>() });

app.on("readings", { key: string, value: json<{ id: number; celsius: number }>() }, async (ctx, reading) => {
  if (reading.header("quality")?.toString() === "bad") return;
  const { id, celsius } = reading.value!;
  if ((await seen.get(ctx)) === id) return;
  seen.set(ctx, id);
  const total = (await sums.get(ctx)) ?? { n: 0, sum: 0 };
  const { n, sum } = { n: total.n + 1, sum: total.sum + celsius };
  sums.set(ctx, { n, sum });
  averages.emit(ctx, reading.key, sum / n, { headers: [["readings", String(n)]] });
});
