package dev.millstream;

/** The sidecar sent something that is not the worker protocol. The connection is closed and made anew. */
public final class ProtocolException extends MillstreamException {
  private static final long serialVersionUID = 1L;
  private final String code;

  public ProtocolException(String code, String message) {
    super(message);
    this.code = code;
  }

  /** One of the codes of the protocol's ERROR. */
  public String code() {
    return code;
  }
}
