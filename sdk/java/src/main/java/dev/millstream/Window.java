package dev.millstream;

import dev.millstream.internal.Bytes;
import java.util.Optional;

/**
 * A window {@code [start, end)} of one key, in milliseconds since 1970; valid while its handler runs. See {@link WindowStore}.
 *
 * @param <K> the store's keys
 * @param <V> the store's values
 */
public final class Window<K, V> {
  private final Store<K, V> store;
  private final Context ctx;
  private final Bytes rawKey;
  private final Bytes row;
  private final long start;
  private final long end;

  Window(Store<K, V> store, Context ctx, Bytes rawKey, Bytes row, long start, long end) {
    this.store = store;
    this.ctx = ctx;
    this.rawKey = rawKey;
    this.row = row;
    this.start = start;
    this.end = end;
  }

  /** The key whose window it is. */
  public K key() {
    return store.decodeKey(rawKey);
  }

  /** Its first moment. */
  public long start() {
    return start;
  }

  /** The first moment behind it. */
  public long end() {
    return end;
  }

  /** Its value. */
  public Optional<V> get() {
    return Optional.ofNullable(store.readRow(ctx, row));
  }

  /** Its value, or {@code otherwise}. */
  public V getOrDefault(V otherwise) {
    V value = store.readRow(ctx, row);
    return value == null ? otherwise : value;
  }

  /**
   * Writes its value.
   *
   * @throws OutputException if it cannot be encoded or is beyond the store's limit
   */
  public void put(V value) {
    store.writeRow(ctx, row, value);
  }

  /** Forgets its value. Nothing is given when it closes then. */
  public void delete() {
    store.writeRawRow(ctx, row, null);
  }

  @Override
  public String toString() {
    return store.name() + rawKey + "[" + start + ", " + end + ")";
  }
}
