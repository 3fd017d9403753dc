// Third of three: per airport of arrival, what all of its routes add up to.
import { App, json, string } from "millstream";

type Route = { flights: number; late: number; miles: number };

export const app = new App();
const airports = app.store("airports", { key: string, value: json<Record<string, Route>>() });
const arrivals = app.output("arrivals", { key: string, value: json<Route & { routes: number }>() });

app.on("routes", { key: string, value: json<Route & { from: string }>() }, async (ctx, update) => {
  const { from, ...route } = update.value!;
  const known = { ...(await airports.get(ctx)), [from]: route }; // the newest value of a route takes the place of the one before
  airports.set(ctx, known);
  const sum = { flights: 0, late: 0, miles: 0, routes: 0 };
  for (const { flights, late, miles } of Object.values(known)) {
    sum.flights += flights;
    sum.late += late;
    sum.miles += miles;
    sum.routes += 1;
  }
  arrivals.emit(ctx, update.key, sum);
});

await app.run();
