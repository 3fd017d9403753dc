package dev.millstream;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/** A record to feed to a {@link TestKit}. */
public final class TestRecord {
  final Object key;
  final Object value;
  final List<Header> headers = new ArrayList<>();
  Long timestamp;

  private TestRecord(Object key, Object value) {
    this.key = key;
    this.value = value;
  }

  /** Key and value go through the input's codecs; null is null, and {@code byte[]} is taken as it is, so that a test can feed what is not valid. */
  public static TestRecord of(Object key, Object value) {
    return new TestRecord(key, value);
  }

  /** Adds a header with a value in UTF-8; null for a null value. */
  public TestRecord header(String name, String value) {
    return header(Header.of(name, value));
  }

  /** Adds a header. */
  public TestRecord header(Header header) {
    headers.add(header);
    return this;
  }

  /** In milliseconds since 1970; by default the kit's {@link TestKit#now}. */
  public TestRecord timestamp(long milliseconds) {
    timestamp = milliseconds;
    return this;
  }

  /** As the other. */
  public TestRecord timestamp(Instant time) {
    return timestamp(time.toEpochMilli());
  }
}
