package dev.millstream;

import dev.millstream.internal.BatchItem.OpenWindow;
import dev.millstream.internal.Bytes;
import dev.millstream.internal.RowKeys;
import java.util.List;
import java.util.Optional;
import java.util.function.BinaryOperator;

/**
 * The session that a record belongs to, from its first record to its last, this one included, or one that closes; in milliseconds since
 * 1970; valid while its handler runs. See {@link SessionStore}.
 *
 * @param <K> the store's keys
 * @param <V> the store's values
 */
public final class OpenSession<K, V> {
  private final Store<K, V> store;
  private final BinaryOperator<V> merging;
  private final Context ctx;
  private final Bytes row;
  private final List<Bytes> parts;
  private final long start;
  private final long end;
  private boolean written;

  OpenSession(Store<K, V> store, BinaryOperator<V> merging, Context ctx, OpenWindow open) {
    this.store = store;
    this.merging = merging;
    this.ctx = ctx;
    this.start = open.span().start();
    this.end = open.span().end();
    this.row = RowKeys.session(ctx.key(), start, end);
    this.parts = open.parts().stream().map(part -> RowKeys.session(ctx.key(), part.start(), part.end())).toList();
  }

  /** The key whose session it is. */
  public K key() {
    return store.decodeKey(ctx.key());
  }

  /** The time of its first record. */
  public long start() {
    return start;
  }

  /** The time of its last record. */
  public long end() {
    return end;
  }

  /** The values of the sessions that it is made of, in the order of time: none for a first record, several where a record connects some. */
  public List<V> values() {
    return rawValues().stream().map(raw -> store.decode(row, raw)).toList();
  }

  // An empty value is a session without one.
  private List<Bytes> rawValues() {
    return store.rawRows(ctx, parts).stream().filter(raw -> raw != null && raw.length > 0).toList();
  }

  /**
   * The value so far, merged if there are several.
   *
   * @throws OutputException if there are several and the store does not say how to merge
   */
  public Optional<V> get() {
    return written ? Optional.ofNullable(store.readRow(ctx, row)) : values().stream().reduce(this::merge);
  }

  /** As {@link #get}, or {@code otherwise}. */
  public V getOrDefault(V otherwise) {
    return get().orElse(otherwise);
  }

  /** Writes the value of the session as it is now. */
  public void put(V value) {
    store.writeRow(ctx, row, value);
    written = true;
  }

  /** Forgets the value: the session goes on without one. */
  public void delete() {
    store.writeRawRow(ctx, row, null);
    written = true;
  }

  private V merge(V first, V second) {
    if (merging == null) {
      throw new OutputException(store.place() + ": this record connects sessions with values: write the merged value with put, or say how to "
          + "merge: SessionStore.of(...).merging((a, b) -> ...), and app.sessions(store) where no handler looks at the session");
    }
    return merging.apply(first, second);
  }

  /** After the handler: what it did not write is carried over. */
  void finish() {
    if (written || parts.equals(List.of(row))) {
      return;
    }
    List<Bytes> raw = rawValues();
    if (raw.size() == 1) {
      store.writeRawRow(ctx, row, raw.get(0));
    } else if (!raw.isEmpty()) {
      store.writeRow(ctx, row, values().stream().reduce(this::merge).orElseThrow());
    }
  }
}
