#include "processor.h"

#include <millstream/json.h>
#include <millstream/typed.h>

namespace ms = millstream::worker;

namespace {

const ms::TypedStore<ms::String, ms::Json<int64_t>> counts("counts");
const ms::TypedOutput<ms::String, ms::Json<>> word_counts("word-counts");

}  // namespace

void AddHandlers(ms::App& app) {
  ms::On<ms::String, ms::Bytes>(app, "words", [](ms::Context& ctx, const auto& word) -> absl::Status {
    const auto before = counts.Get(ctx);
    if (!before.ok()) return before.status();
    const int64_t count = before->value_or(0) + 1;
    if (absl::Status status = counts.Put(ctx, count); !status.ok()) return status;
    return word_counts.Emit(ctx, word.key, nlohmann::json{{"count", count}});
  });
}
