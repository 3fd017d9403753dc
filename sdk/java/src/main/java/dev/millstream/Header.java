package dev.millstream;

import dev.millstream.internal.Utf8;
import java.util.Arrays;
import java.util.Objects;

/**
 * A header of a record.
 *
 * @param name names may repeat; bytes that are no UTF-8 are kept as {@link Codecs#STRING} does
 * @param value null for a null value; not to be changed
 */
public record Header(String name, byte[] value) {
  public Header {
    Objects.requireNonNull(name, "a header needs a name");
  }

  /** With a value in UTF-8; null for a null value. */
  public static Header of(String name, String value) {
    return new Header(name, value == null ? null : Utf8.encode(value));
  }

  /** The value as UTF-8; null for a null value. */
  public String text() {
    return value == null ? null : Utf8.decode(value, 0, value.length);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Header that && name.equals(that.name) && Arrays.equals(value, that.value);
  }

  @Override
  public int hashCode() {
    return 31 * name.hashCode() + Arrays.hashCode(value);
  }

  @Override
  public String toString() {
    return name + "=" + text();
  }
}
