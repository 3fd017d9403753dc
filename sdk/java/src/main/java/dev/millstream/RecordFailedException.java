package dev.millstream;

/** A handler failed in a {@link TestKit}. What it threw is the cause; the rest is what the sidecar would be told. */
public final class RecordFailedException extends MillstreamException {
  private static final long serialVersionUID = 1L;
  private final String input;
  private final long offset;
  private final String failureClass;
  private final String error;
  private final boolean retriable;

  RecordFailedException(String input, long offset, String failureClass, String error, String message, boolean retriable, Throwable cause) {
    super(failureClass + " failure of \"" + input + "\" offset " + offset + ": " + message, cause);
    this.input = input;
    this.offset = offset;
    this.failureClass = failureClass;
    this.error = error;
    this.retriable = retriable;
  }

  /** The record's input. */
  public String input() {
    return input;
  }

  /** The record's offset: records of an input are counted from 0. */
  public long offset() {
    return offset;
  }

  /** "Decode", "Handler" or "Output". */
  public String failureClass() {
    return failureClass;
  }

  /** The name of what was thrown. */
  public String error() {
    return error;
  }

  /** Whether the sidecar would try again. */
  public boolean retriable() {
    return retriable;
  }
}
