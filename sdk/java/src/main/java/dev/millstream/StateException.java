package dev.millstream;

/** State that cannot be read: the sidecar says why, or a stored value is not what the codec of its store expects. */
public final class StateException extends MillstreamException {
  private static final long serialVersionUID = 1L;

  StateException(String message, Throwable cause) {
    super(message, cause);
  }
}
