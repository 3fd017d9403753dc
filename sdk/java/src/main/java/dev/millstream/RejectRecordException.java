package dev.millstream;

/**
 * Throw it in a handler for a record that will never succeed: it is not retried, {@code errors.onFailure} of the manifest applies at once.
 */
public class RejectRecordException extends MillstreamException {
  private static final long serialVersionUID = 1L;

  public RejectRecordException(String message) {
    super(message);
  }

  public RejectRecordException(String message, Throwable cause) {
    super(message, cause);
  }

  /** With the message of its cause. */
  public RejectRecordException(Throwable cause) {
    super(cause.getMessage(), cause);
  }
}
