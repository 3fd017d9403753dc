// Written by tools/docs/errors.py from sidecar/protocol/errors.json; do not edit.

/** What a code of ERROR means and what to do about it. */
export interface ErrorCode {
  readonly code: string;
  /** Connecting again does not help. */
  readonly final: boolean;
  readonly cause: string;
  readonly remedy: string;
}

export const ERROR_CODES: readonly ErrorCode[] = [
  { code: "VersionMismatch", final: true,
    cause: "the worker and the sidecar speak no common version of the protocol; the message names both ranges",
    remedy: "upgrade the older of the two: the SDK of the program, or millstream" },
  { code: "HelloTimeout", final: false,
    cause: "no whole HELLO came within 5 s of the connection",
    remedy: "send HELLO at once after connecting, before anything slow; look for a process that stands still (debugger, no CPU)" },
  { code: "TooManyWorkers", final: false,
    cause: "as many workers as sidecar.workers.max of the manifest allows are connected",
    remedy: "open fewer connections (fewer worker processes), or raise sidecar.workers.max" },
  { code: "NotAllowed", final: true,
    cause: "the worker runs as a user that may not connect to this sidecar",
    remedy: "run the worker as the sidecar's own user or as one of those it allows" },
  { code: "Refused", final: true,
    cause: "HELLO does not fit the processor, for example a handler of an input that it does not have; the message lists what there is",
    remedy: "make the names of the program and of the manifest agree" },
  { code: "BadFrame", final: false,
    cause: "a frame that is no message of the protocol, or not one at this place; the message names kind and field",
    remedy: "a bug of the SDK (or of the sidecar, where the worker says it): run millstream conform against the program, and report it with the message" },
  { code: "FrameTooLarge", final: false,
    cause: "the length of a frame is beyond the cap told in WELCOME (limits.frame)",
    remedy: "write and emit less for one record; an SDK ends its RESULT early when the frame is full" },
  { code: "UnknownBatch", final: false,
    cause: "RESULT, GET, SCAN or EXTEND names a seq that this session was not sent",
    remedy: "a bug of the SDK: answer only batches of the connection at hand, each once" },
  { code: "UnknownStore", final: false,
    cause: "a store, join or lookup id that WELCOME did not list",
    remedy: "a bug of the SDK: ids are indexes in stores, then joins, then lookups of this session's WELCOME" },
  { code: "UnknownOutput", final: false,
    cause: "an output id that WELCOME did not list",
    remedy: "a bug of the SDK: ids are indexes in outputs of this session's WELCOME" },
  { code: "Flood", final: false,
    cause: "more unanswered GETs and SCANs, or more EXTENDs, than a worker may have",
    remedy: "wait for answers before asking for more; read several keys in one call; send EXTEND once per item at most" },
  { code: "Unresponsive", final: false,
    cause: "the worker held no batch and did not answer PING within 20 s",
    remedy: "let the SDK read its socket: look for code that blocks the whole process, or a process that was stopped" },
  { code: "NotReading", final: false,
    cause: "frames pile up because the worker does not read them",
    remedy: "read the socket while handlers run; look for a handler that blocks the thread of the SDK" },
  { code: "DeadlineExceeded", final: false,
    cause: "the batch took longer than batch.deadline, without EXTEND that made progress",
    remedy: "make the handler faster (a slow service behind it?), or batch.maxRecords smaller, or batch.deadline longer" },
  { code: "Stopping", final: false,
    cause: "the sidecar ends",
    remedy: "nothing: the worker connects again when the sidecar is back" },
  { code: "Internal", final: false,
    cause: "a bug of the sender",
    remedy: "report it with the message and the lines of the log around it" },
  { code: "WorkerFailed", final: false,
    cause: "the worker is about to end because of an error outside any handler; the message is shown to the user",
    remedy: "correct the program: the message says what failed" },
];

/** One that is not known is taken as Internal, as the protocol has it. */
export function findErrorCode(code: string): ErrorCode {
  return ERROR_CODES.find((known) => known.code === code) ?? ERROR_CODES.find((known) => known.code === "Internal")!;
}
