package dev.millstream;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** What is not usual about an emitted record: {@code new EmitOptions().header("trace", id).partition(3)}. Not thread-safe. */
public final class EmitOptions {
  static final EmitOptions USUAL = new EmitOptions();

  final List<Header> headers = new ArrayList<>(0);
  Long timestamp;
  Integer partition;

  /** The usual: no headers, the time of the record being handled, a partition by the hash of the key. */
  public EmitOptions() {}

  /** Adds a header with a value in UTF-8; null for a null value. */
  public EmitOptions header(String name, String value) {
    return header(Header.of(name, value));
  }

  /** Adds a header. */
  public EmitOptions header(Header header) {
    headers.add(Objects.requireNonNull(header, "a header"));
    return this;
  }

  /** Adds headers, such as those of the record being handled. */
  public EmitOptions headers(Iterable<Header> more) {
    more.forEach(this::header);
    return this;
  }

  /** The timestamp, in milliseconds since 1970. */
  public EmitOptions timestamp(long milliseconds) {
    timestamp = milliseconds;
    return this;
  }

  /** The timestamp. */
  public EmitOptions timestamp(Instant time) {
    return timestamp(time.toEpochMilli());
  }

  /** The partition, from 0. */
  public EmitOptions partition(int number) {
    partition = number;
    return this;
  }
}
