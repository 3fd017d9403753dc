#ifndef MILLSTREAM_COMMON_SPEC_READER_H_
#define MILLSTREAM_COMMON_SPEC_READER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/spec/diagnostic.h"
#include "common/spec/value.h"

namespace millstream::spec {

struct ReadError {
  Position at;
  std::string message;
  Judge judge = Judge::kSchema;  // kCode: a bound of ours, kubectl may read further
};

struct ReadResult {
  std::vector<Value> documents;    // those read before the error, empty ones left out
  std::optional<ReadError> error;  // reading cannot go on behind one
};

// Text of any origin -> documents, within the bounds of manifest.h (size, depth, nodes, bytes of expanded aliases).
// Takes JSON where the text is JSON, YAML otherwise.
ReadResult ReadDocuments(std::string_view text);

// The two behind it. Both want valid UTF-8 (CheckText).
ReadResult ReadYaml(std::string_view text);
ReadResult ReadJson(std::string_view text);

// Size, UTF-8, no zero bytes or other control characters: what any text must pass first.
std::optional<ReadError> CheckText(std::string_view text);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_READER_H_
