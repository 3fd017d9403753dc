package dev.millstream;

import java.util.Map;

/**
 * A handle on a lookup of the manifest: a whole topic that others write to, any key of it. Read-only; it shows the topic as it is now.
 *
 * @param <K> the topic's keys
 * @param <V> the topic's values
 */
public final class Lookup<K, V> extends Table<K, V> {
  private Lookup(String name, Codec<K> key, Codec<V> value) {
    super(name, key, value);
  }

  /** Makes a handle. */
  public static <K, V> Lookup<K, V> of(String name, Codec<K> key, Codec<V> value) {
    return new Lookup<>(name, key, value);
  }

  @Override
  String what() {
    return "lookup";
  }

  @Override
  Map<String, Integer> ids(Schema schema) {
    return schema.lookupIds;
  }
}
