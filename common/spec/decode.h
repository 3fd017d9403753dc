#ifndef MILLSTREAM_COMMON_SPEC_DECODE_H_
#define MILLSTREAM_COMMON_SPEC_DECODE_H_

#include <string>

#include "common/spec/document.h"
#include "common/spec/stream_processor.h"

namespace millstream::spec {

// Precondition of both: the document went through all passes and has no errors.
StreamProcessorSpec DecodeProcessor(const Document& document);
std::string CanonicalJsonOf(const Document& document);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_DECODE_H_
