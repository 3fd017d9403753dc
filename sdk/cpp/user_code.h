#ifndef MILLSTREAM_SDK_CPP_USER_CODE_H_
#define MILLSTREAM_SDK_CPP_USER_CODE_H_

#include <exception>

#include "absl/status/status.h"
#include "common/base/strings.h"

namespace millstream::worker {

// Calls a function of the program; what it throws becomes a status.
template <typename F>
absl::Status CallUserCode(const F& code) {
  try {
    return code();
  } catch (const std::exception& error) {
    return absl::UnknownError(StrCat("exception: ", error.what()));
  } catch (...) {
    return absl::UnknownError("an exception that is no std::exception");
  }
}

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_USER_CODE_H_
