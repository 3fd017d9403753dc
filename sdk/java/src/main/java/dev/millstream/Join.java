package dev.millstream;

import java.util.Map;

/**
 * A handle on a join of the manifest: a compacted topic that others write to, partitioned as the inputs are; each task reads its own
 * partition of it. The value of the record's own key comes with the batch. Read-only; it shows the topic as it is now.
 *
 * @param <K> the topic's keys
 * @param <V> the topic's values
 */
public final class Join<K, V> extends Table<K, V> {
  private Join(String name, Codec<K> key, Codec<V> value) {
    super(name, key, value);
  }

  /** Makes a handle. */
  public static <K, V> Join<K, V> of(String name, Codec<K> key, Codec<V> value) {
    return new Join<>(name, key, value);
  }

  @Override
  String what() {
    return "join";
  }

  @Override
  Map<String, Integer> ids(Schema schema) {
    return schema.joinIds;
  }
}
