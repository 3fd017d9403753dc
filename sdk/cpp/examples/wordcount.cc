#include <millstream/json.h>
#include <millstream/typed.h>

namespace ms = millstream::worker;

const ms::TypedStore<ms::String, ms::Json<int64_t>> counts("counts");
const ms::TypedOutput<ms::String, ms::Json<int64_t>> word_counts("word-counts");

void AddWordCount(ms::App& app) {
  ms::On<ms::String, ms::Bytes>(app, "words", [](ms::Context& ctx, const auto& word) -> absl::Status {
    const auto before = counts.Get(ctx);  // of the record's own key
    if (!before.ok()) return before.status();
    const int64_t count = before->value_or(0) + 1;
    if (absl::Status status = counts.Put(ctx, count); !status.ok()) return status;
    return word_counts.Emit(ctx, word.key, count);
  });
}

int main() {
  ms::App app;
  AddWordCount(app);
  return app.Main();
}
