#ifndef MILLSTREAM_TESTS_FUZZ_PROTOCOL_FUZZ_H_
#define MILLSTREAM_TESTS_FUZZ_PROTOCOL_FUZZ_H_

#include <string_view>

namespace millstream {

// One fuzz input: its first byte says in how small pieces the rest arrives, the rest is a stream of frames. Splits
// them, decodes each in both directions, and encodes what is legal again: that must decode, and encode to the same
// bytes. Aborts if not.
void FuzzProtocol(std::string_view input);

}  // namespace millstream

#endif  // MILLSTREAM_TESTS_FUZZ_PROTOCOL_FUZZ_H_
