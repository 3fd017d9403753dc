/** Base of every error this package raises. */
export class MillstreamError extends Error {
  override name = this.constructor.name;
}

/** The program and the manifest do not fit together. Starting again unchanged does not help. */
export class ConfigError extends MillstreamError {}

/** Nobody listens at the socket. Start the program through `millstream run`, or wait for the sidecar. */
export class NoSidecarError extends MillstreamError {}

/** The sidecar sent something that is not the worker protocol. The connection is closed and made anew. */
export class ProtocolError extends MillstreamError {
  constructor(message: string, readonly code: string = "BadFrame") {
    super(message);
  }
}

/** The sidecar answered HELLO with ERROR; `code` is the sidecar's. */
export class RefusedError extends MillstreamError {
  constructor(readonly code: string, message: string) {
    super(message);
  }
}

/** A handler used a store or an output that the manifest does not declare. The message lists those it does. */
export class UndeclaredError extends MillstreamError {}

/** State by default key of a record without key. Name a key, or send records with keys. */
export class NoKeyError extends MillstreamError {}

/** The key or value of a record is not what its codec expects. Failure class Decode. */
export class DecodeError extends MillstreamError {}

/** A value that cannot be encoded, or is beyond the limits of its store or output. Failure class Output. */
export class OutputError extends MillstreamError {}

/** Throw it in a handler for a record that will never succeed: it is not retried, `errors.onFailure` applies at once. */
export class RejectRecord extends MillstreamError {}

/** The batch no longer counts (cancelled, or the connection ended). Let it pass; nothing of the batch is committed. */
export class BatchVoided extends MillstreamError {
  constructor() {
    super("the batch no longer counts");
  }
}

export function listed(names: Iterable<string>): string {
  return [...names].join(", ") || "none";
}
