package dev.millstream;

/** The sidecar answered HELLO with ERROR. */
public final class RefusedException extends MillstreamException {
  private static final long serialVersionUID = 1L;
  private final String code;

  RefusedException(String code, String message) {
    super(message + " (" + code + ")");
    this.code = code;
  }

  /** The sidecar's, one of the codes of the protocol. */
  public String code() {
    return code;
  }
}
