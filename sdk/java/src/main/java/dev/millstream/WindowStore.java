package dev.millstream;

import dev.millstream.internal.Bytes;
import dev.millstream.internal.RowKeys;
import java.util.List;

/**
 * A handle on a store of type Window: a value for each window of time of each key. Declare it once, next to the handlers.
 *
 * <pre>{@code
 * for (Window<String, Long> window : PER_MINUTE.windows(ctx)) {
 *   window.put(window.getOrDefault(0L) + 1);
 * }
 * }</pre>
 *
 * @param <K> its keys
 * @param <V> its values
 */
public final class WindowStore<K, V> {
  final Store<K, V> rows;

  private WindowStore(Store<K, V> rows) {
    this.rows = rows;
  }

  /** Makes a handle. */
  public static <K, V> WindowStore<K, V> of(String name, Codec<K> key, Codec<V> value) {
    return new WindowStore<>(new Store<>(name, key, value, "Window"));
  }

  /** Its name in the manifest. */
  public String name() {
    return rows.name();
  }

  /** The open windows that the record belongs to, in the order of their start; none if it is late, or has no key. */
  public List<Window<K, V>> windows(Context ctx) {
    int id = rows.id(ctx);
    if (ctx.key() == null) {
      return List.of();
    }
    return ctx.item.windows.stream().filter(open -> open.store() == id).map(open -> window(ctx, ctx.key(), open.span().start())).toList();
  }

  /** The window of the record's key that begins at a time, in milliseconds since 1970: open or not, as long as it is kept. */
  public Window<K, V> window(Context ctx, long start) {
    rows.ownId(ctx);
    return window(ctx, ctx.key(), start);
  }

  /** The same of any key of the task. */
  public Window<K, V> window(Context ctx, K key, long start) {
    return window(ctx, rows.encodeKey(key), start);
  }

  Window<K, V> window(Context ctx, Bytes key, long start) {
    long size = ctx.batch.schema.stores.get(rows.id(ctx)).size();
    return new Window<>(rows, ctx, key, RowKeys.window(key, start), start, start + size);
  }
}
