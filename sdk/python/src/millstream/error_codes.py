"""The codes of ERROR: what they mean and what to do. Written by tools/docs/errors.py from sidecar/protocol/errors.json; do not edit."""

from __future__ import annotations

from typing import Dict, Final, NamedTuple


class ErrorCode(NamedTuple):
    code: str
    final: bool  # connecting again does not help
    cause: str
    remedy: str


ERROR_CODES: Final[Dict[str, ErrorCode]] = {
    "VersionMismatch": ErrorCode(
        "VersionMismatch", True,
        "the worker and the sidecar speak no common version of the protocol; the message names both ranges",
        "upgrade the older of the two: the SDK of the program, or millstream",
    ),
    "HelloTimeout": ErrorCode(
        "HelloTimeout", False,
        "no whole HELLO came within 5 s of the connection",
        "send HELLO at once after connecting, before anything slow; look for a process that stands still (debugger, no CPU)",
    ),
    "TooManyWorkers": ErrorCode(
        "TooManyWorkers", False,
        "as many workers as sidecar.workers.max of the manifest allows are connected",
        "open fewer connections (fewer worker processes), or raise sidecar.workers.max",
    ),
    "NotAllowed": ErrorCode(
        "NotAllowed", True,
        "the worker runs as a user that may not connect to this sidecar",
        "run the worker as the sidecar's own user or as one of those it allows",
    ),
    "Refused": ErrorCode(
        "Refused", True,
        "HELLO does not fit the processor, for example a handler of an input that it does not have; the message lists what there is",
        "make the names of the program and of the manifest agree",
    ),
    "BadFrame": ErrorCode(
        "BadFrame", False,
        "a frame that is no message of the protocol, or not one at this place; the message names kind and field",
        "a bug of the SDK (or of the sidecar, where the worker says it): run millstream conform against the program, and report it with the message",
    ),
    "FrameTooLarge": ErrorCode(
        "FrameTooLarge", False,
        "the length of a frame is beyond the cap told in WELCOME (limits.frame)",
        "write and emit less for one record; an SDK ends its RESULT early when the frame is full",
    ),
    "UnknownBatch": ErrorCode(
        "UnknownBatch", False,
        "RESULT, GET, SCAN or EXTEND names a seq that this session was not sent",
        "a bug of the SDK: answer only batches of the connection at hand, each once",
    ),
    "UnknownStore": ErrorCode(
        "UnknownStore", False,
        "a store, join or lookup id that WELCOME did not list",
        "a bug of the SDK: ids are indexes in stores, then joins, then lookups of this session's WELCOME",
    ),
    "UnknownOutput": ErrorCode(
        "UnknownOutput", False,
        "an output id that WELCOME did not list",
        "a bug of the SDK: ids are indexes in outputs of this session's WELCOME",
    ),
    "Flood": ErrorCode(
        "Flood", False,
        "more unanswered GETs and SCANs, or more EXTENDs, than a worker may have",
        "wait for answers before asking for more; read several keys in one call; send EXTEND once per item at most",
    ),
    "Unresponsive": ErrorCode(
        "Unresponsive", False,
        "the worker held no batch and did not answer PING within 20 s",
        "let the SDK read its socket: look for code that blocks the whole process, or a process that was stopped",
    ),
    "NotReading": ErrorCode(
        "NotReading", False,
        "frames pile up because the worker does not read them",
        "read the socket while handlers run; look for a handler that blocks the thread of the SDK",
    ),
    "DeadlineExceeded": ErrorCode(
        "DeadlineExceeded", False,
        "the batch took longer than batch.deadline, without EXTEND that made progress",
        "make the handler faster (a slow service behind it?), or batch.maxRecords smaller, or batch.deadline longer",
    ),
    "Stopping": ErrorCode(
        "Stopping", False,
        "the sidecar ends",
        "nothing: the worker connects again when the sidecar is back",
    ),
    "Internal": ErrorCode(
        "Internal", False,
        "a bug of the sender",
        "report it with the message and the lines of the log around it",
    ),
    "WorkerFailed": ErrorCode(
        "WorkerFailed", False,
        "the worker is about to end because of an error outside any handler; the message is shown to the user",
        "correct the program: the message says what failed",
    ),
}


def find(code: str) -> ErrorCode:
    """One that is not known is taken as Internal, as the protocol has it."""
    return ERROR_CODES.get(code) or ERROR_CODES["Internal"]
