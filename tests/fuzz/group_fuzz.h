#ifndef MILLSTREAM_TESTS_FUZZ_GROUP_FUZZ_H_
#define MILLSTREAM_TESTS_FUZZ_GROUP_FUZZ_H_

#include <string_view>

namespace millstream {

// One fuzz input: its first byte chooses what a broker or another member of the group may have sent, the rest is that.
// Decodes it; what is accepted is encoded again, must decode, and encode to the same bytes. A JoinGroup answer is also
// planned as the leader would. Aborts if something does not hold.
void FuzzGroup(std::string_view input);

}  // namespace millstream

#endif  // MILLSTREAM_TESTS_FUZZ_GROUP_FUZZ_H_
