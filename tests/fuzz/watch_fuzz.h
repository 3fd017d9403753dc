#ifndef MILLSTREAM_TESTS_FUZZ_WATCH_FUZZ_H_
#define MILLSTREAM_TESTS_FUZZ_WATCH_FUZZ_H_

#include <string_view>

namespace millstream {

// One fuzz input: its first byte chooses how small the pieces are in which the rest reaches the decoder of Kubernetes
// watches. Whole and in pieces it must give the same events and end the same way. Aborts if something does not hold.
void FuzzWatch(std::string_view input);

}  // namespace millstream

#endif  // MILLSTREAM_TESTS_FUZZ_WATCH_FUZZ_H_
