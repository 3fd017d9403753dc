#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_HANDLER_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_HANDLER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/bytes.h"

namespace millstream::engine::testing {

// Beyond the limit that the scripted world gives its output.
inline constexpr size_t kTooLarge = 4096;

// The user code of the scripted world: a pure function of a record and what it reads, whose results depend on the order
// and on every value read. The worker runs it over the protocol, the model over a plain map; both must agree.

// How handling a record goes wrong.
enum class Fate : char {
  kFine = 'f',
  kFailsOnce = 'o',  // the first attempt fails
  kFails = 'p',      // every attempt fails
  kCrashes = 'c',    // every attempt ends the worker
  kOverLimit = 'l',  // every attempt emits a record that is too large
};

struct Input {
  int64_t id = 0;  // unique in its task
  Fate fate = Fate::kFine;
  // Which input it comes from. Records of different inputs touch different keys: their order between inputs is not
  // defined.
  int side = 0;
  // Some of these send a record through the loop, which has side kLoopSide and an id of its own, and may go round
  // again.
  bool loops = false;
  // No attempt succeeds.
  bool NeverDone() const { return fate == Fate::kFails || fate == Fate::kCrashes || fate == Fate::kOverLimit; }
  std::string Encode() const;
  static Input Decode(std::string_view value);
};

constexpr int kLoopSide = 2;
constexpr int64_t kLoopIds = 1'000'000'000;  // added to the id with every round

constexpr uint32_t kTotals = 0;  // store: one value per record key; prefetched
constexpr uint32_t kIndex = 1;   // store: keys the handler chooses; read by GET and SCAN

struct Wants {
  std::optional<std::string> index_key;
  bool scan = false;  // of kIndex, three of its five keys: [from, to)
  std::string from, to;
};
Wants WantsOf(const Input& input);

struct Reads {
  MaybeBytes total;  // of the record key; null key: nothing
  MaybeBytes index;
  std::vector<std::pair<Bytes, Bytes>> rows;
};

struct Write {
  uint32_t store = 0;
  std::string key;
  MaybeBytes value;
};
struct Effects {
  std::vector<Write> writes;
  std::string output;  // value; the key is the record's
  std::vector<std::pair<std::string, Input>> loop;
};
Effects Handle(const std::optional<std::string>& key, const Input& input, const Reads& reads);

// The id in an output value.
int64_t IdOf(std::string_view output);

// One partition's worth of state by the model.
class Model {
 public:
  using Stores = std::vector<std::map<Bytes, Bytes>>;
  Model() : stores_(2) {}
  Effects Apply(const std::optional<std::string>& key, const Input& input);
  const Stores& stores() const { return stores_; }

 private:
  Stores stores_;
};

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_HANDLER_H_
