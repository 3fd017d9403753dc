import { App, json, string } from "millstream";

export const app = new App();
export const cents = app.output("order-cents", { key: string, value: json<number>() });

app.on("orders", { key: string, value: json<{ amount: number }>() }, (ctx, order) => {
  if (order.value!.amount > 0) {
    cents.emit(ctx, order.key, Math.round(order.value!.amount * 100), { headers: order.headers });
  }
});
