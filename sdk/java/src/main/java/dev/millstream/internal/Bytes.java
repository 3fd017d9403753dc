package dev.millstream.internal;

import java.util.Arrays;

/**
 * A byte string that nobody changes: a view of a frame, or bytes of its own. Equal, hashed and ordered by its bytes; the order is that of
 * the log, unsigned.
 */
public final class Bytes implements Comparable<Bytes> {
  public final byte[] array;
  public final int offset;
  public final int length;
  private int hash;

  public Bytes(byte[] array, int offset, int length) {
    this.array = array;
    this.offset = offset;
    this.length = length;
  }

  /** All of an array, which is not copied; null for null. */
  public static Bytes of(byte[] array) {
    return array == null ? null : new Bytes(array, 0, array.length);
  }

  /** A copy of its own. */
  public byte[] toArray() {
    return Arrays.copyOfRange(array, offset, offset + length);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Bytes that && Arrays.equals(array, offset, offset + length, that.array, that.offset, that.offset + that.length);
  }

  @Override
  public int hashCode() {
    if (hash == 0) {
      int sum = 1;
      for (int at = offset; at < offset + length; at++) {
        sum = 31 * sum + array[at];
      }
      hash = sum;
    }
    return hash;
  }

  @Override
  public int compareTo(Bytes that) {
    return Arrays.compareUnsigned(array, offset, offset + length, that.array, that.offset, that.offset + that.length);
  }

  /** For errors: text where it is text, cut where it is long. */
  @Override
  public String toString() {
    int most = 80;
    String text = Utf8.decode(array, offset, Math.min(length, most));
    return '"' + text + (length > most ? "..." : "") + '"';
  }
}
