package dev.millstream;

/** The version of this package, told to the sidecar. */
public final class Version {
  public static final String VERSION = "0.1.0";

  private Version() {}
}
