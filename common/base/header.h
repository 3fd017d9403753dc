#ifndef MILLSTREAM_COMMON_BASE_HEADER_H_
#define MILLSTREAM_COMMON_BASE_HEADER_H_

#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace millstream {

// One header of a record. Names may repeat and order matters, as in Kafka; a value may be null.
struct Header {
  std::string name;
  MaybeBytes value;

  friend bool operator==(const Header&, const Header&) = default;
};

using Headers = std::vector<Header>;

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_HEADER_H_
