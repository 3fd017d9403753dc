import { App, json, string } from "millstream";

export const app = new App();
export const minutes = app.windowStore("minutes", { key: string, value: json<{ n: number; sum: number }>() });
export const averages = app.output("minute-averages", { key: string, value: json<number>() });

app.on("readings", { key: string, value: json<{ celsius: number }>() }, async (ctx, reading) => {
  if (reading.header("quality")?.toString() === "bad") return;
  for (const minute of minutes.windows(ctx)) {
    const { n, sum } = (await minute.get()) ?? { n: 0, sum: 0 };
    minute.set({ n: n + 1, sum: sum + reading.value!.celsius });
  }
});

app.onClose(minutes, (ctx, minute) => {
  const { n, sum } = minute.value;
  averages.emit(ctx, minute.key, sum / n, { headers: [["readings", String(n)], ["minute", new Date(minute.start).toISOString()]] });
});
