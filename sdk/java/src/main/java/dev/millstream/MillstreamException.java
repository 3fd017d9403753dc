package dev.millstream;

/** Base of every exception of this package. All are unchecked: a handler lets them pass. */
public class MillstreamException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public MillstreamException(String message) {
    super(message);
  }

  public MillstreamException(String message, Throwable cause) {
    super(message, cause);
  }
}
