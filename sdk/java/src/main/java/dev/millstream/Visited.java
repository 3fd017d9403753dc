package dev.millstream;

import java.time.Instant;

/**
 * A row that a visit has come to. State and outputs are as for a record of its key: {@code store.put(ctx, ...)} writes the row.
 *
 * @param visit the name of the visit
 * @param key its key; the default key of state
 * @param value its value, as it is now
 * @param data what the visit was started with; null for nothing
 * @param time when the visit was started, in milliseconds since 1970: the time of the record that did; the default time of outputs
 * @param attempt 1 for the first try, one more after each failure
 */
public record Visited<K, V, D>(String visit, K key, V value, D data, long time, int attempt) {
  /** When the visit was started. */
  public Instant instant() {
    return Instant.ofEpochMilli(time);
  }
}
