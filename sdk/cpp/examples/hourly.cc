#include <millstream/json.h>
#include <millstream/typed.h>
#include <millstream/typed_time.h>

namespace ms = millstream::worker;

struct Hour {
  int64_t readings = 0;
  double sum = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Hour, readings, sum)

// In the manifest: stores: [{name: hours, type: Window, window: {size: 1h, grace: 5m}}]
const ms::TypedWindowStore<ms::String, ms::Json<Hour>> hours("hours");
const ms::TypedOutput<ms::String, ms::Json<double>> averages("averages");

void AddHourly(ms::App& app) {
  ms::On<ms::String, ms::Json<double>>(app, "celsius", [](ms::Context& ctx, const auto& reading) -> absl::Status {
    if (!reading.key || !reading.value) return ms::RejectRecord("a reading has a sensor and a value");
    const auto windows = hours.Windows(ctx);  // none for a reading that is too late
    if (!windows.ok()) return windows.status();
    for (const ms::Window& window : *windows) {
      const auto before = hours.Get(ctx, window);
      if (!before.ok()) return before.status();
      Hour hour = before->value_or(Hour());
      hour.readings += 1;
      hour.sum += *reading.value;
      if (absl::Status status = hours.Put(ctx, window, hour); !status.ok()) return status;
      const double average = hour.sum / static_cast<double>(hour.readings);
      const ms::EmitOptions at_start{.timestamp_ms = window.start_ms};
      if (absl::Status status = averages.Emit(ctx, reading.key, average, at_start); !status.ok()) return status;
    }
    return absl::OkStatus();
  });
}

int main() {
  ms::App app;
  AddHourly(app);
  return app.Main();
}
