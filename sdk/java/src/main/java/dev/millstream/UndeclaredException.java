package dev.millstream;

/** A handler used a store or an output that the manifest does not declare. The message lists those it does. */
public final class UndeclaredException extends MillstreamException {
  private static final long serialVersionUID = 1L;

  UndeclaredException(String message) {
    super(message);
  }

  UndeclaredException(String what, String name, Iterable<String> declared) {
    super("no " + what + " \"" + name + "\" in the manifest; declared " + what + "s: " + Schema.listed(declared)
        + ". Add it under spec." + what + "s to use it");
  }
}
