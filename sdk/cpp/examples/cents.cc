#include <millstream/json.h>
#include <millstream/typed.h>

#include <cmath>

namespace ms = millstream::worker;

struct Order {
  double amount = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Order, amount)

const ms::TypedOutput<ms::String, ms::Json<int64_t>> order_cents("order-cents");

void AddCents(ms::App& app) {
  ms::On<ms::String, ms::Json<Order>>(app, "orders", [](ms::Context& ctx, const auto& order) -> absl::Status {
    if (!order.value || order.value->amount <= 0) return absl::OkStatus();
    return order_cents.Emit(ctx, order.key, std::llround(order.value->amount * 100), {.headers = ctx.headers()});
  });
}

int main() {
  ms::App app;
  AddCents(app);
  return app.Main();
}
