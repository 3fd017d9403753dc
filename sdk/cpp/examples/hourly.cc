#include <millstream/json.h>
#include <millstream/typed.h>

namespace ms = millstream::worker;

struct Hour {
  int64_t readings = 0;
  double sum = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Hour, readings, sum)

const ms::TypedStore<ms::String, ms::Json<Hour>> hours("hours");  // "SENSOR@START" -> what the hour adds up to
const ms::TypedOutput<ms::String, ms::Json<double>> averages("averages");

void AddHourly(ms::App& app) {
  ms::On<ms::String, ms::Json<double>>(app, "celsius", [](ms::Context& ctx, const auto& reading) -> absl::Status {
    if (!reading.key || !reading.value) return ms::RejectRecord("a reading has a sensor and a value");
    constexpr int64_t kHour = 3'600'000;
    const std::string window = *reading.key + "@" + std::to_string(ctx.timestamp_ms() / kHour * kHour);
    const auto before = hours.Get(ctx, window);
    if (!before.ok()) return before.status();
    Hour hour = before->value_or(Hour());
    hour.readings += 1;
    hour.sum += *reading.value;
    if (absl::Status status = hours.Put(ctx, window, hour); !status.ok()) return status;
    return averages.Emit(ctx, window, hour.sum / static_cast<double>(hour.readings));
  });
}

int main() {
  ms::App app;
  AddHourly(app);
  return app.Main();
}
