package millstream

// Written by tools/docs/errors.py from sidecar/protocol/errors.json; do not edit.

// The codes of ERROR frames: docs/reference/protocol.md.
const (
	codeVersionMismatch  = "VersionMismatch"
	codeHelloTimeout     = "HelloTimeout"
	codeTooManyWorkers   = "TooManyWorkers"
	codeNotAllowed       = "NotAllowed"
	codeRefused          = "Refused"
	codeBadFrame         = "BadFrame"
	codeFrameTooLarge    = "FrameTooLarge"
	codeUnknownBatch     = "UnknownBatch"
	codeUnknownStore     = "UnknownStore"
	codeUnknownOutput    = "UnknownOutput"
	codeFlood            = "Flood"
	codeUnresponsive     = "Unresponsive"
	codeNotReading       = "NotReading"
	codeDeadlineExceeded = "DeadlineExceeded"
	codeStopping         = "Stopping"
	codeInternal         = "Internal"
	codeWorkerFailed     = "WorkerFailed"
)

type errorCode struct {
	code          string
	final         bool // connecting again does not help
	cause, remedy string
}

var errorCodes = []errorCode{
	{codeVersionMismatch, true,
		"the worker and the sidecar speak no common version of the protocol; the message names both ranges",
		"upgrade the older of the two: the SDK of the program, or millstream"},
	{codeHelloTimeout, false,
		"no whole HELLO came within 5 s of the connection",
		"send HELLO at once after connecting, before anything slow; look for a process that stands still (debugger, no CPU)"},
	{codeTooManyWorkers, false,
		"as many workers as sidecar.workers.max of the manifest allows are connected",
		"open fewer connections (fewer worker processes), or raise sidecar.workers.max"},
	{codeNotAllowed, true,
		"the worker runs as a user that may not connect to this sidecar",
		"run the worker as the sidecar's own user or as one of those it allows"},
	{codeRefused, true,
		"HELLO does not fit the processor, for example a handler of an input that it does not have; the message lists what there is",
		"make the names of the program and of the manifest agree"},
	{codeBadFrame, false,
		"a frame that is no message of the protocol, or not one at this place; the message names kind and field",
		"a bug of the SDK (or of the sidecar, where the worker says it): run millstream conform against the program, and report it with the message"},
	{codeFrameTooLarge, false,
		"the length of a frame is beyond the cap told in WELCOME (limits.frame)",
		"write and emit less for one record; an SDK ends its RESULT early when the frame is full"},
	{codeUnknownBatch, false,
		"RESULT, GET, SCAN or EXTEND names a seq that this session was not sent",
		"a bug of the SDK: answer only batches of the connection at hand, each once"},
	{codeUnknownStore, false,
		"a store, join or lookup id that WELCOME did not list",
		"a bug of the SDK: ids are indexes in stores, then joins, then lookups of this session's WELCOME"},
	{codeUnknownOutput, false,
		"an output id that WELCOME did not list",
		"a bug of the SDK: ids are indexes in outputs of this session's WELCOME"},
	{codeFlood, false,
		"more unanswered GETs and SCANs, or more EXTENDs, than a worker may have",
		"wait for answers before asking for more; read several keys in one call; send EXTEND once per item at most"},
	{codeUnresponsive, false,
		"the worker held no batch and did not answer PING within 20 s",
		"let the SDK read its socket: look for code that blocks the whole process, or a process that was stopped"},
	{codeNotReading, false,
		"frames pile up because the worker does not read them",
		"read the socket while handlers run; look for a handler that blocks the thread of the SDK"},
	{codeDeadlineExceeded, false,
		"the batch took longer than batch.deadline, without EXTEND that made progress",
		"make the handler faster (a slow service behind it?), or batch.maxRecords smaller, or batch.deadline longer"},
	{codeStopping, false,
		"the sidecar ends",
		"nothing: the worker connects again when the sidecar is back"},
	{codeInternal, false,
		"a bug of the sender",
		"report it with the message and the lines of the log around it"},
	{codeWorkerFailed, false,
		"the worker is about to end because of an error outside any handler; the message is shown to the user",
		"correct the program: the message says what failed"},
}

// findErrorCode gives what there is to say about a code. One that is not known is taken as Internal, as the protocol
// has it.
func findErrorCode(code string) errorCode {
	var internal errorCode
	for _, known := range errorCodes {
		if known.code == code {
			return known
		}
		if known.code == codeInternal {
			internal = known
		}
	}
	return internal
}
