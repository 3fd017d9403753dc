//! The codes of ERROR: what they mean and what to do. Written by tools/docs/errors.py from sidecar/protocol/errors.json; do not edit.

#[allow(dead_code)]
pub(crate) struct ErrorCode {
    pub code: &'static str,
    /// Connecting again does not help.
    pub is_final: bool,
    pub cause: &'static str,
    pub remedy: &'static str,
}

const ERROR_CODES: &[ErrorCode] = &[
    ErrorCode {
        code: "VersionMismatch",
        is_final: true,
        cause: "the worker and the sidecar speak no common version of the protocol; the message names both ranges",
        remedy: "upgrade the older of the two: the SDK of the program, or millstream",
    },
    ErrorCode {
        code: "HelloTimeout",
        is_final: false,
        cause: "no whole HELLO came within 5 s of the connection",
        remedy: "send HELLO at once after connecting, before anything slow; look for a process that stands still (debugger, no CPU)",
    },
    ErrorCode {
        code: "TooManyWorkers",
        is_final: false,
        cause: "as many workers as sidecar.workers.max of the manifest allows are connected",
        remedy: "open fewer connections (fewer worker processes), or raise sidecar.workers.max",
    },
    ErrorCode {
        code: "NotAllowed",
        is_final: true,
        cause: "the worker runs as a user that may not connect to this sidecar",
        remedy: "run the worker as the sidecar's own user or as one of those it allows",
    },
    ErrorCode {
        code: "Refused",
        is_final: true,
        cause: "HELLO does not fit the processor, for example a handler of an input that it does not have; the message lists what there is",
        remedy: "make the names of the program and of the manifest agree",
    },
    ErrorCode {
        code: "BadFrame",
        is_final: false,
        cause: "a frame that is no message of the protocol, or not one at this place; the message names kind and field",
        remedy: "a bug of the SDK (or of the sidecar, where the worker says it): run millstream conform against the program, and report it with the message",
    },
    ErrorCode {
        code: "FrameTooLarge",
        is_final: false,
        cause: "the length of a frame is beyond the cap told in WELCOME (limits.frame)",
        remedy: "write and emit less for one record; an SDK ends its RESULT early when the frame is full",
    },
    ErrorCode {
        code: "UnknownBatch",
        is_final: false,
        cause: "RESULT, GET, SCAN or EXTEND names a seq that this session was not sent",
        remedy: "a bug of the SDK: answer only batches of the connection at hand, each once",
    },
    ErrorCode {
        code: "UnknownStore",
        is_final: false,
        cause: "a store, join or lookup id that WELCOME did not list",
        remedy: "a bug of the SDK: ids are indexes in stores, then joins, then lookups of this session's WELCOME",
    },
    ErrorCode {
        code: "UnknownOutput",
        is_final: false,
        cause: "an output id that WELCOME did not list",
        remedy: "a bug of the SDK: ids are indexes in outputs of this session's WELCOME",
    },
    ErrorCode {
        code: "Flood",
        is_final: false,
        cause: "more unanswered GETs and SCANs, or more EXTENDs, than a worker may have",
        remedy: "wait for answers before asking for more; read several keys in one call; send EXTEND once per item at most",
    },
    ErrorCode {
        code: "Unresponsive",
        is_final: false,
        cause: "the worker held no batch and did not answer PING within 20 s",
        remedy: "let the SDK read its socket: look for code that blocks the whole process, or a process that was stopped",
    },
    ErrorCode {
        code: "NotReading",
        is_final: false,
        cause: "frames pile up because the worker does not read them",
        remedy: "read the socket while handlers run; look for a handler that blocks the thread of the SDK",
    },
    ErrorCode {
        code: "DeadlineExceeded",
        is_final: false,
        cause: "the batch took longer than batch.deadline, without EXTEND that made progress",
        remedy: "make the handler faster (a slow service behind it?), or batch.maxRecords smaller, or batch.deadline longer",
    },
    ErrorCode {
        code: "Stopping",
        is_final: false,
        cause: "the sidecar ends",
        remedy: "nothing: the worker connects again when the sidecar is back",
    },
    ErrorCode {
        code: "Internal",
        is_final: false,
        cause: "a bug of the sender",
        remedy: "report it with the message and the lines of the log around it",
    },
    ErrorCode {
        code: "WorkerFailed",
        is_final: false,
        cause: "the worker is about to end because of an error outside any handler; the message is shown to the user",
        remedy: "correct the program: the message says what failed",
    },
];

/// One that is not known is taken as Internal, as the protocol has it.
pub(crate) fn find(code: &str) -> &'static ErrorCode {
    let named = |name: &str| ERROR_CODES.iter().find(|known| known.code == name);
    named(code).or_else(|| named("Internal")).expect("Internal is in the table")
}
