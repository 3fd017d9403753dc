package dev.millstream;

import java.time.Instant;

/**
 * A visit has come to the end of the task's rows. There is no key: calls of state need one named.
 *
 * @param visit the name of the visit
 * @param data what the visit was started with; null for nothing
 * @param time when the visit was started, in milliseconds since 1970; the default time of outputs
 * @param attempt 1 for the first try, one more after each failure
 */
public record VisitEnd<D>(String visit, D data, long time, int attempt) {
  /** When the visit was started. */
  public Instant instant() {
    return Instant.ofEpochMilli(time);
  }
}
