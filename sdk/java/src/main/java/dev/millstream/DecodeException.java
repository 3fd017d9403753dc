package dev.millstream;

/** The key or value of a record is not what its codec expects. Failure class Decode: the record is not retried. */
public final class DecodeException extends MillstreamException {
  private static final long serialVersionUID = 1L;

  DecodeException(String message, Throwable cause) {
    super(message, cause);
  }
}
