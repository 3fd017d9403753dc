#ifndef MILLSTREAM_SIDECAR_PROTOCOL_ERROR_CODES_H_
#define MILLSTREAM_SIDECAR_PROTOCOL_ERROR_CODES_H_

// The codes of ERROR frames, both directions. They are labels of metrics too, so the set is small and fixed; the
// message of the frame carries everything else.
namespace millstream::protocol {

// Sent by the sidecar before there is a session.
inline constexpr char kVersionMismatch[] = "VersionMismatch";  // the message names both ranges
inline constexpr char kHelloTimeout[] = "HelloTimeout";        // no whole HELLO within the deadline
inline constexpr char kTooManyWorkers[] = "TooManyWorkers";    // sidecar.workers.max of the manifest is reached
inline constexpr char kNotAllowed[] = "NotAllowed";            // the peer runs as a user that may not connect
inline constexpr char kRefused[] = "Refused";  // HELLO does not fit the processor, e.g. a handler of no input

// Sent by the sidecar at any time.
inline constexpr char kBadFrame[] = "BadFrame";            // not a message of the protocol, or not at this place
inline constexpr char kFrameTooLarge[] = "FrameTooLarge";  // the length is beyond the cap told in WELCOME
inline constexpr char kUnknownBatch[] =
    "UnknownBatch";  // RESULT, GET, SCAN or EXTEND for a seq this session was not sent
inline constexpr char kUnknownStore[] = "UnknownStore";    // a store, join or lookup id beyond WELCOME's lists
inline constexpr char kUnknownOutput[] = "UnknownOutput";  // an output id beyond WELCOME's list
inline constexpr char kFlood[] = "Flood";                // more unanswered GETs or more EXTENDs than a worker may send
inline constexpr char kUnresponsive[] = "Unresponsive";  // PING not answered while idle
inline constexpr char kNotReading[] = "NotReading";      // frames pile up because the peer does not read them
inline constexpr char kDeadlineExceeded[] = "DeadlineExceeded";  // the batch took longer than batch.deadline
inline constexpr char kStopping[] = "Stopping";                  // the sidecar ends
inline constexpr char kInternal[] = "Internal";                  // a bug of the sender

// Sent by a worker: kWorkerFailed for a crash it can still report (an exception outside any handler, with its
// traceback).
inline constexpr char kWorkerFailed[] = "WorkerFailed";

}  // namespace millstream::protocol

#endif  // MILLSTREAM_SIDECAR_PROTOCOL_ERROR_CODES_H_
