#include "sidecar/engine/testing/scripted_handler.h"

#include <cstdio>
#include <cstdlib>

#include "common/base/strings.h"

namespace millstream::engine::testing {
namespace {

// FNV-1a, as hex: good enough to tell histories apart, short enough to read.
std::string Digest(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char out[17];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(hash));
  return out;
}

std::string IndexKey(const Input& input, int64_t number) {
  std::string key(1, "ghi"[input.side]);
  return key += std::to_string(number % 5);
}

}  // namespace

std::string Input::Encode() const {
  return StrCat(std::string(1, static_cast<char>(fate)), side, loops ? ">" : ":", id);
}

Input Input::Decode(std::string_view value) {
  Input input;
  input.fate = static_cast<Fate>(value.at(0));
  input.side = value.at(1) - '0';
  input.loops = value.at(2) == '>';
  input.id = std::atoll(std::string(value.substr(3)).c_str());
  return input;
}

Wants WantsOf(const Input& input) {
  Wants wants;
  if (input.id % 3 == 0) wants.index_key = IndexKey(input, input.id);
  wants.scan = input.id % 7 == 0;
  wants.from = IndexKey(input, 0);
  wants.to = IndexKey(input, 3);
  return wants;
}

Effects Handle(const std::optional<std::string>& key, const Input& input, const Reads& reads) {
  Effects effects;
  std::string history = StrCat(reads.total.value_or("-"), "|", reads.index.value_or("-"), "|", input.id);
  for (const auto& [row, value] : reads.rows) StrAppend(&history, "|", row, "=", value);
  const std::string digest = Digest(history);
  if (key) {
    const bool remove = input.id % 11 == 0;
    effects.writes.push_back({kTotals, *key, remove ? MaybeBytes() : MaybeBytes(digest)});
  }
  if (input.id % 3 == 0) effects.writes.push_back({kIndex, IndexKey(input, input.id), digest});
  if (input.id % 13 == 0) effects.writes.push_back({kIndex, IndexKey(input, input.id + 1), std::nullopt});
  effects.output = StrCat(input.id, ":", digest);
  if (input.loops && (input.side == kLoopSide ? input.id % 8 == 0 && input.id < 2 * kLoopIds : input.id % 4 == 0)) {
    effects.loop.emplace_back(StrCat("l", input.id % 5),
                              Input{.id = input.id + kLoopIds, .side = kLoopSide, .loops = true});
  }
  return effects;
}

int64_t IdOf(std::string_view output) { return std::atoll(std::string(output.substr(0, output.find(':'))).c_str()); }

Effects Model::Apply(const std::optional<std::string>& key, const Input& input) {
  auto get = [this](uint32_t store, const std::string& of) {
    auto it = stores_[store].find(of);
    return it == stores_[store].end() ? MaybeBytes() : MaybeBytes(it->second);
  };
  Reads reads;
  if (key) reads.total = get(kTotals, *key);
  const Wants wants = WantsOf(input);
  if (wants.index_key) reads.index = get(kIndex, *wants.index_key);
  if (wants.scan) reads.rows.assign(stores_[kIndex].lower_bound(wants.from), stores_[kIndex].lower_bound(wants.to));
  Effects effects = Handle(key, input, reads);
  for (const Write& write : effects.writes) {
    if (write.value) {
      stores_[write.store][write.key] = *write.value;
    } else {
      stores_[write.store].erase(write.key);
    }
  }
  return effects;
}

}  // namespace millstream::engine::testing
