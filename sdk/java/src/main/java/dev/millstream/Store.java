package dev.millstream;

import dev.millstream.BatchRun.Slot;
import dev.millstream.internal.Bytes;
import java.util.Map;
import java.util.Objects;

/**
 * A handle on a state store of the manifest: what a program remembers by key, committed together with the records that made it.
 *
 * <p>Reads see what the batch has written before. Keys belong to the task of the record: the same key of another partition is another one.
 * A value that cannot be encoded or is beyond the store's limit gives {@link OutputException}.
 *
 * @param <K> its keys
 * @param <V> its values
 */
public final class Store<K, V> extends Table<K, V> {
  private Store(String name, Codec<K> key, Codec<V> value) {
    super(name, key, value);
  }

  /** Makes a handle. */
  public static <K, V> Store<K, V> of(String name, Codec<K> key, Codec<V> value) {
    return new Store<>(name, key, value);
  }

  @Override
  String what() {
    return "store";
  }

  @Override
  Map<String, Integer> ids(Schema schema) {
    return schema.storeIds;
  }

  /** Writes the value of the record's own key. */
  public void put(Context ctx, V value) {
    int id = ownId(ctx);
    write(ctx, id, ctx.batch.ownSlot(id, ctx.item.keyIndex), ctx.key(), value);
  }

  /** Writes the value of any key. */
  public void put(Context ctx, K key, V value) {
    int id = id(ctx);
    Bytes raw = encodeKey(key);
    write(ctx, id, ctx.batch.slot(id, raw), raw, value);
  }

  /** Forgets the record's own key. Deleting what is not there is fine. */
  public void delete(Context ctx) {
    int id = ownId(ctx);
    ctx.batch.write(ctx, id, ctx.batch.ownSlot(id, ctx.item.keyIndex), ctx.key(), null);
  }

  /** Forgets any key. */
  public void delete(Context ctx, K key) {
    int id = id(ctx);
    Bytes raw = encodeKey(key);
    ctx.batch.write(ctx, id, ctx.batch.slot(id, raw), raw, null);
  }

  private void write(Context ctx, int id, Slot slot, Bytes key, V value) {
    Bytes raw = encodeValue(value);
    long most = ctx.batch.schema.stores.get(id).max();
    if (raw.length > most) {
      throw new OutputException(place() + ": the value of key " + key + " has " + raw.length + " bytes, the limit is " + most);
    }
    ctx.batch.write(ctx, id, slot, key, raw);
  }
}
