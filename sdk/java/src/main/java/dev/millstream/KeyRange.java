package dev.millstream;

import java.util.Objects;

/**
 * Keys of a scan, in the order of their bytes. Immutable.
 *
 * @param <K> the store's keys
 */
public final class KeyRange<K> {
  final K from;
  final K to;
  final K prefix;
  final int limit;
  final boolean reversed;

  private KeyRange(K from, K to, K prefix, int limit, boolean reversed) {
    this.from = from;
    this.to = to;
    this.prefix = prefix;
    this.limit = limit;
    this.reversed = reversed;
  }

  /** Every key. */
  public static <K> KeyRange<K> all() {
    return new KeyRange<>(null, null, null, 0, false);
  }

  /** Keys from {@code from} up to before {@code to}; null is open. */
  public static <K> KeyRange<K> between(K from, K to) {
    return new KeyRange<>(from, to, null, 0, false);
  }

  /** Keys whose bytes begin with those of {@code prefix}. */
  public static <K> KeyRange<K> prefix(K prefix) {
    return new KeyRange<>(null, null, Objects.requireNonNull(prefix, "a prefix"), 0, false);
  }

  /** At most so many rows; 0 is all. */
  public KeyRange<K> limit(int rows) {
    if (rows < 0) {
      throw new IllegalArgumentException("a limit of " + rows + " rows; 0 is all");
    }
    return new KeyRange<>(from, to, prefix, rows, reversed);
  }

  /** From the end. */
  public KeyRange<K> reversed() {
    return new KeyRange<>(from, to, prefix, limit, !reversed);
  }
}
