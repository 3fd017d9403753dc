package dev.millstream;

/** Program and manifest, or their versions, do not fit together. Starting again unchanged does not help. */
public final class ConfigException extends MillstreamException {
  private static final long serialVersionUID = 1L;

  public ConfigException(String message) {
    super(message);
  }
}
