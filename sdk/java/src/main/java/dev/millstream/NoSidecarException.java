package dev.millstream;

/** Nobody listens at the socket. Start the program through {@code millstream run}, or wait for the sidecar. */
public final class NoSidecarException extends MillstreamException {
  private static final long serialVersionUID = 1L;

  public NoSidecarException(String message, Throwable cause) {
    super(message, cause);
  }
}
