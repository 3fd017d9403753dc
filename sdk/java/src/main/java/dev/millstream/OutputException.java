package dev.millstream;

/** A value that cannot be encoded, or is beyond the limits of its store or output. Failure class Output: the record is not retried. */
public final class OutputException extends MillstreamException {
  private static final long serialVersionUID = 1L;

  OutputException(String message) {
    super(message);
  }

  OutputException(String message, Throwable cause) {
    super(message, cause);
  }
}
