#ifndef MILLSTREAM_COMMON_SPEC_QUANTITY_H_
#define MILLSTREAM_COMMON_SPEC_QUANTITY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millstream::spec {

// A Kubernetes quantity ("64Mi", "1.5Gi", "1000k", "1e6", "500m") as a whole number of its base unit, bytes above all;
// fractions are rounded up, as Kubernetes does. nullopt when it is none, negative, or beyond 2^63 - 1.
std::optional<int64_t> ParseQuantity(std::string_view text);

// The shortest exact text with a binary unit: "64Mi", "1536".
std::string FormatBytes(int64_t bytes);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_QUANTITY_H_
