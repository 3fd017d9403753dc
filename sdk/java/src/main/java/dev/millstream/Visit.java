package dev.millstream;

import dev.millstream.internal.Bytes;
import java.util.Objects;

/**
 * A handle on a visit of the manifest: a walk over all rows of a store in this task, beside the input. Declare it once, next to the
 * handlers, and register what happens with a row:
 *
 * <pre>{@code
 * static final Visit<String, Long, Long> INTEREST = Visit.of("interest", ACCOUNTS, Codecs.LONG);
 *
 * app.on("commands", Codecs.STRING, Codecs.LONG, (ctx, command) -> INTEREST.start(ctx, command.value()))
 *     .onVisit(INTEREST, (ctx, row) -> ACCOUNTS.put(ctx, row.value() + row.data()));
 * }</pre>
 *
 * <p>Starting, stopping, pausing and resuming count if the record does that asked for it, and from that record on. A walk survives
 * everything that state survives, and goes on behind the rows that are committed. The manifest needs
 * {@code visits: [{name: interest, store: accounts}]}.
 *
 * @param <K> the keys of the store
 * @param <V> its values
 * @param <D> what the visit is started with
 */
public final class Visit<K, V, D> {
  /** The capability of HELLO by which a program says that it takes rows of visits. */
  static final String CAPABILITY = "visits";

  private static final int MAX_DATA_BYTES = 4096;

  /** What is done to a visit; RESULT has its ordinal. */
  enum What { START, STOP, PAUSE, RESUME }

  private final String name;
  final Store<K, V> store;
  final Codec<D> dataCodec;

  private Visit(String name, Store<K, V> store, Codec<D> dataCodec) {
    this.name = Objects.requireNonNull(name, "the name of a visit");
    this.store = Objects.requireNonNull(store, "the store of a visit");
    this.dataCodec = Objects.requireNonNull(dataCodec, "the codec of the data of a visit");
  }

  /** Makes a handle; {@code store} is the one that the manifest names for the visit, {@code data} the codec of what it is started with. */
  public static <K, V, D> Visit<K, V, D> of(String name, Store<K, V> store, Codec<D> data) {
    return new Visit<>(name, store, data);
  }

  /** Its name in the manifest. */
  public String name() {
    return name;
  }

  /**
   * Begins a walk; one that is under way begins anew, one that is paused as well. The data comes with every row, at most 4096 bytes of it;
   * null is none.
   *
   * @throws OutputException if the data cannot be encoded or is too long, and in a hook
   * @throws UndeclaredException if the manifest does not declare the visit
   */
  public void start(Context ctx, D data) {
    byte[] raw = null;
    try {
      raw = data == null ? null : dataCodec.encode(data);
    } catch (RuntimeException e) {
      throw new OutputException(place() + ": its data cannot be encoded as " + dataCodec.name() + ": " + Failures.text(e), e);
    }
    if (raw != null && raw.length > MAX_DATA_BYTES) {
      throw new OutputException(place() + ": its data has " + raw.length + " bytes, the limit is " + MAX_DATA_BYTES);
    }
    stage(ctx, What.START, raw);
  }

  /** As the other, without data. */
  public void start(Context ctx) {
    start(ctx, null);
  }

  /** Ends a walk where it is: neither a row nor its end comes any more. Stopping what does not run is fine. */
  public void stop(Context ctx) {
    stage(ctx, What.STOP, null);
  }

  /** Holds a walk where it is, until resume, start or stop. */
  public void pause(Context ctx) {
    stage(ctx, What.PAUSE, null);
  }

  /** Lets a paused walk go on. */
  public void resume(Context ctx) {
    stage(ctx, What.RESUME, null);
  }

  private void stage(Context ctx, What what, byte[] data) {
    ctx.check();
    int id = ctx.batch.schema.visitId(name);
    if (id < 0) {
      throw new UndeclaredException("visit", name, ctx.batch.schema.visitNames());
    }
    if (ctx.item == null) {
      throw new OutputException(place() + ": a hook starts and stops none, they belong to the time of a record");
    }
    ctx.batch.stageVisit(new BatchRun.StagedVisit(id, what, data));
  }

  private String place() {
    return "visit \"" + name + "\"";
  }

  D decodeData(Bytes raw) {
    if (raw == null) {
      return null;
    }
    try {
      return dataCodec.decode(raw.array, raw.offset, raw.length);
    } catch (RuntimeException e) {
      throw new DecodeException("the data of " + place() + " is not " + dataCodec.name() + ": " + Failures.text(e), e);
    }
  }

  /** The row of the item at hand; null if an earlier one of the batch deleted it. */
  Visited<K, V, D> visited(Context ctx) {
    V value = store.getOrDefault(ctx, null);
    return value == null ? null
        : new Visited<>(name, store.decodeKey(ctx.key()), value, decodeData(ctx.item.value), ctx.item.timestamp, ctx.item.attempt);
  }

  VisitEnd<D> end(Context ctx) {
    return new VisitEnd<>(name, decodeData(ctx.item.value), ctx.item.timestamp, ctx.item.attempt);
  }
}
