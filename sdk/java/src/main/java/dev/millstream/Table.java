package dev.millstream;

import dev.millstream.BatchRun.Slot;
import dev.millstream.internal.Bytes;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;

/**
 * What can be read by key: a {@link Store}, a {@link Join} or a {@link Lookup} of the manifest, with the codecs of its keys and values.
 * Declare it once, next to the handlers; it is safe for use by all of them. One that the manifest does not declare fails the record that
 * uses it with {@link UndeclaredException}, which lists those it does.
 *
 * <p>Calls without a key mean the record's own; a record that has none fails with {@link NoKeyException}. A value that cannot be read gives
 * {@link StateException}, a key that cannot be encoded {@link OutputException}.
 *
 * @param <K> its keys
 * @param <V> its values
 */
public abstract class Table<K, V> {
  private final String name;
  final Codec<K> keyCodec;
  final Codec<V> valueCodec;
  private volatile Binding bound = Binding.NONE;

  Table(String name, Codec<K> keyCodec, Codec<V> valueCodec) {
    this.name = Objects.requireNonNull(name, () -> "the name of a " + what());
    this.keyCodec = Objects.requireNonNull(keyCodec, () -> "the codec of the keys of " + place());
    this.valueCodec = Objects.requireNonNull(valueCodec, () -> "the codec of the values of " + place());
  }

  /** "store", "join" or "lookup". */
  abstract String what();

  /** Ids by name. */
  abstract Map<String, Integer> ids(Schema schema);

  /** Whether it is what the handle takes it for. */
  void checkUse(Schema schema, int id) {}

  final String place() {
    return what() + " \"" + name + "\"";
  }

  /** Its name in the manifest. */
  public final String name() {
    return name;
  }

  /** The value of the record's own key. Changing what it returned changes nothing: use put. */
  public final Optional<V> get(Context ctx) {
    int id = ownId(ctx);
    return Optional.ofNullable(read(ctx, id, ctx.batch.ownSlot(id, ctx.item.keyIndex), ctx.key()));
  }

  /** The value of any key. */
  public final Optional<V> get(Context ctx, K key) {
    int id = id(ctx);
    Bytes raw = encodeKey(key);
    return Optional.ofNullable(read(ctx, id, ctx.batch.slot(id, raw), raw));
  }

  /** The value of the record's own key, or {@code otherwise}. */
  public final V getOrDefault(Context ctx, V otherwise) {
    int id = ownId(ctx);
    V value = read(ctx, id, ctx.batch.ownSlot(id, ctx.item.keyIndex), ctx.key());
    return value == null ? otherwise : value;
  }

  /** The values of several keys, in their order, in as few round trips as possible. */
  public final List<Optional<V>> getMany(Context ctx, Collection<? extends K> keys) {
    int id = id(ctx);
    List<Bytes> raws = new ArrayList<>(keys.size());
    List<Bytes> missing = new ArrayList<>();
    Set<Slot> asked = Collections.newSetFromMap(new IdentityHashMap<>());
    for (K key : keys) {
      Bytes raw = encodeKey(key);
      raws.add(raw);
      Slot slot = ctx.batch.slot(id, raw);
      if (!slot.known && asked.add(slot)) {
        missing.add(raw);
      }
    }
    ctx.batch.fetch(id, missing);
    List<Optional<V>> values = new ArrayList<>(raws.size());
    for (Bytes raw : raws) {
      values.add(Optional.ofNullable(read(ctx, id, ctx.batch.slot(id, raw), raw)));
    }
    return values;
  }

  /**
   * The rows of a range, paged as they are read; the writes of the batch up to then are seen. To be gone through while the handler runs, as
   * often as you like.
   */
  public final Iterable<Row<K, V>> scan(Context ctx, KeyRange<? extends K> range) {
    int id = id(ctx);
    Bytes from = range.from == null ? null : encodeKey(range.from);
    Bytes to = range.to == null ? null : encodeKey(range.to);
    if (range.prefix != null) {
      from = encodeKey(range.prefix);
      to = afterPrefix(from);
    }
    var request = new Link.ScanRequest(id, from, to, range.limit, range.reversed, null, List.of());
    return () -> new Rows(ctx, request);
  }

  private final class Rows implements Iterator<Row<K, V>> {
    private final Context ctx;
    private final Link.ScanRequest request;
    private Iterator<Row<Bytes, Bytes>> page = Collections.emptyIterator();
    private Bytes cursor;
    private boolean last;
    private int given;

    Rows(Context ctx, Link.ScanRequest request) {
      this.ctx = ctx;
      this.request = request;
    }

    @Override
    public boolean hasNext() {
      while (!page.hasNext()) {
        if (last || request.limit() > 0 && given >= request.limit()) {
          return false;
        }
        ctx.check();
        int left = request.limit() > 0 ? request.limit() - given : 0;
        Link.Page next = ctx.batch.scan(new Link.ScanRequest(request.store(), request.from(), request.to(), left, request.reverse(), cursor,
            ctx.batch.newOps()));
        page = next.rows().iterator();
        cursor = next.cursor();
        last = cursor == null;
      }
      return request.limit() == 0 || given < request.limit();
    }

    @Override
    public Row<K, V> next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      given++;
      Row<Bytes, Bytes> raw = page.next();
      return new Row<>(decodeKey(raw.key()), decode(raw.key(), raw.value()));
    }
  }

  /** The first byte string after all that begin with a prefix; null if there is none. */
  static Bytes afterPrefix(Bytes prefix) {
    byte[] after = prefix.toArray();
    int end = after.length;
    while (end > 0 && after[end - 1] == (byte) 0xff) {
      end--;
    }
    if (end == 0) {
      return null;
    }
    after[end - 1]++;
    return Bytes.of(Arrays.copyOf(after, end));
  }

  final int id(Context ctx) {
    ctx.check();
    Binding binding = bound;
    if (binding.schema() != ctx.batch.schema) {
      Integer id = ids(ctx.batch.schema).get(name);
      if (id == null) {
        throw new UndeclaredException(what(), name, ids(ctx.batch.schema).keySet());
      }
      checkUse(ctx.batch.schema, id);
      bound = binding = new Binding(ctx.batch.schema, id);
    }
    return binding.id();
  }

  final int ownId(Context ctx) {
    if (ctx.key() == null) {
      throw new NoKeyException(place());
    }
    return id(ctx);
  }

  final Bytes encodeKey(K key) {
    Objects.requireNonNull(key, () -> place() + ": a key is never null");
    try {
      return Bytes.of(keyCodec.encode(key));
    } catch (RuntimeException e) {
      throw new OutputException(place() + ": a key cannot be encoded as " + keyCodec.name() + ": " + Failures.text(e), e);
    }
  }

  final Bytes encodeValue(V value) {
    Objects.requireNonNull(value, () -> place() + ": a value is never null; use delete");
    try {
      return Bytes.of(valueCodec.encode(value));
    } catch (RuntimeException e) {
      throw new OutputException(place() + ": a value cannot be encoded as " + valueCodec.name() + ": " + Failures.text(e), e);
    }
  }

  final V read(Context ctx, int id, Slot slot, Bytes key) {
    if (!slot.known) {
      ctx.batch.fetch(id, List.of(key));
    }
    return slot.value == null ? null : decode(key, slot.value);
  }

  final K decodeKey(Bytes raw) {
    try {
      return keyCodec.decode(raw.array, raw.offset, raw.length);
    } catch (RuntimeException e) {
      throw new StateException(place() + ": a key is not " + keyCodec.name() + ": " + Failures.text(e), e);
    }
  }

  final V decode(Bytes key, Bytes raw) {
    try {
      return valueCodec.decode(raw.array, raw.offset, raw.length);
    } catch (RuntimeException e) {
      throw new StateException(place() + ": the value of key " + key + " is not " + valueCodec.name() + ": " + Failures.text(e)
          + "; was its codec changed?", e);
    }
  }
}
