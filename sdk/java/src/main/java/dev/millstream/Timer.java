package dev.millstream;

import java.time.Instant;

/**
 * A timer that is due.
 *
 * @param name its name
 * @param key whose timer it is; the default key of state
 * @param time when it was to be due, in milliseconds since 1970; the default time of outputs
 * @param attempt 1 for the first try, one more after each failure
 */
public record Timer<K>(String name, K key, long time, int attempt) {
  /** When it was to be due. */
  public Instant instant() {
    return Instant.ofEpochMilli(time);
  }
}
