package dev.millstream;

import dev.millstream.internal.BatchFrame;
import dev.millstream.internal.Bytes;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * A record of an input, as its handler sees it: valid while the handler runs.
 *
 * @param <K> its key
 * @param <V> its value
 */
public final class InputRecord<K, V> {
  private final Context ctx;
  private final Registered<K, V> registered;
  private K key;
  private V value;
  private boolean keyRead;
  private boolean valueRead;
  private List<Header> headers;

  InputRecord(Context ctx, Registered<K, V> registered) {
    this.ctx = ctx;
    this.registered = registered;
  }

  /**
   * The key; null for a record without one. Decoded when it is first asked for.
   *
   * @throws DecodeException if it is not what the codec expects
   */
  public K key() {
    if (!keyRead) {
      key = decode("key", ctx.key(), registered.key());
      keyRead = true;
    }
    return key;
  }

  /**
   * The value; null for a tombstone. Decoded when it is first asked for.
   *
   * @throws DecodeException if it is not what the codec expects
   */
  public V value() {
    if (!valueRead) {
      value = decode("value", ctx.item.value, registered.value());
      valueRead = true;
    }
    return value;
  }

  private <T> T decode(String what, Bytes raw, Codec<T> codec) {
    if (raw == null) {
      return null;
    }
    try {
      return codec.decode(raw.array, raw.offset, raw.length);
    } catch (RuntimeException e) {
      throw new DecodeException("the " + what + " of a record of input \"" + input() + "\" (partition " + task() + ", offset " + offset()
          + ") is not " + codec.name() + ": " + Failures.text(e), e);
    }
  }

  /** A copy of the key's bytes; null for a record without one. */
  public byte[] rawKey() {
    return ctx.key() == null ? null : ctx.key().toArray();
  }

  /** A copy of the value's bytes; null for a tombstone. */
  public byte[] rawValue() {
    return ctx.item.value == null ? null : ctx.item.value.toArray();
  }

  /** All headers in order; names may repeat. */
  public List<Header> headers() {
    if (headers == null) {
      headers = BatchFrame.headers(ctx.item.headers, Header::new);
    }
    return headers;
  }

  /** The last header of a name. */
  public Optional<Header> header(String name) {
    return headers().stream().filter(header -> header.name().equals(name)).reduce((first, last) -> last);
  }

  /** In milliseconds since 1970, possibly negative. */
  public long timestamp() {
    return ctx.item.timestamp;
  }

  /** The timestamp. */
  public Instant time() {
    return Instant.ofEpochMilli(timestamp());
  }

  /** The input's name in the manifest. */
  public String input() {
    return ctx.input();
  }

  /** The topic behind the input. */
  public String topic() {
    return ctx.batch.schema.inputs.get(ctx.item.input).topic();
  }

  /** The partition it comes from, which is its task. */
  public int task() {
    return ctx.task();
  }

  /** Its offset in the partition. */
  public long offset() {
    return ctx.item.offset;
  }

  /** 1 for the first try of this record, one more after each failure. */
  public int attempt() {
    return ctx.item.attempt;
  }
}
