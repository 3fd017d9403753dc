package dev.millstream;

import dev.millstream.BatchRun.Slot;
import dev.millstream.internal.Bytes;
import java.util.ArrayList;
import java.util.List;
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
  private final String type;

  /** Of a type; those of windows and sessions are behind handles of their own. */
  Store(String name, Codec<K> key, Codec<V> value, String type) {
    super(name, key, value);
    this.type = type;
  }

  /** Makes a handle. */
  public static <K, V> Store<K, V> of(String name, Codec<K> key, Codec<V> value) {
    return new Store<>(name, key, value, "KeyValue");
  }

  @Override
  String what() {
    return "store";
  }

  @Override
  Map<String, Integer> ids(Schema schema) {
    return schema.storeIds;
  }

  @Override
  void checkUse(Schema schema, int id) {
    String declared = schema.stores.get(id).type();
    if (!declared.equals(type)) {
      throw new UndeclaredException(place() + " has type " + declared + ": use a "
          + (declared.equals("KeyValue") ? "" : declared) + "Store for it");
    }
  }

  /** The value of a row, whose key is not one of records. */
  V readRow(Context ctx, Bytes row) {
    int id = id(ctx);
    return read(ctx, id, ctx.batch.slot(id, row), row);
  }

  void writeRow(Context ctx, Bytes row, V value) {
    int id = id(ctx);
    write(ctx, id, ctx.batch.slot(id, row), row, value);
  }

  void writeRawRow(Context ctx, Bytes row, Bytes value) {
    int id = id(ctx);
    ctx.batch.write(ctx, id, ctx.batch.slot(id, row), row, value);
  }

  /** The bytes of rows, null for those that are absent. */
  List<Bytes> rawRows(Context ctx, List<Bytes> rows) {
    int id = id(ctx);
    ctx.batch.fetch(id, rows.stream().filter(row -> !ctx.batch.slot(id, row).known).toList());
    List<Bytes> values = new ArrayList<>(rows.size());
    rows.forEach(row -> values.add(ctx.batch.slot(id, row).value));
    return values;
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
    long size = (long) key.length + raw.length;
    if (size > most) {
      throw new OutputException(place() + ": key " + key + " and its value have " + size + " bytes, the limit is " + most);
    }
    ctx.batch.write(ctx, id, slot, key, raw);
  }
}
