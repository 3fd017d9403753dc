#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_VERSION_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_VERSION_H_

namespace millstream::worker {

/// Of this SDK; that of the sidecar may be another, they agree by the protocol.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_VERSION_H_
