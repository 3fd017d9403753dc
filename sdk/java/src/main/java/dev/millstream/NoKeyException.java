package dev.millstream;

/** The default key, for a record without a key. Name a key, or send records with keys. */
public final class NoKeyException extends MillstreamException {
  private static final long serialVersionUID = 1L;

  NoKeyException(String place) {
    super(place + ": the record has no key, so there is no default key; name one, or send records with keys");
  }
}
