package dev.millstream;

import dev.millstream.internal.BatchItem.OpenWindow;
import java.util.Objects;
import java.util.Optional;
import java.util.function.BinaryOperator;

/**
 * A handle on a store of type Session: a value for each session of each key, that is for records with no gap between them. Declare it once,
 * next to the handlers.
 *
 * <pre>{@code
 * static final SessionStore<String, Long> VISITS = SessionStore.of("visits", Codecs.STRING, Codecs.LONG).merging(Long::sum);
 *
 * VISITS.session(ctx).ifPresent(visit -> visit.put(visit.getOrDefault(0L) + 1));
 * }</pre>
 *
 * <p>A record that connects sessions makes one of them. If the handler does not write its value: one value stays as it is, several are merged
 * as {@link #merging} says, or fail the record.
 *
 * @param <K> its keys
 * @param <V> its values
 */
public final class SessionStore<K, V> {
  final Store<K, V> rows;
  private final BinaryOperator<V> merging;

  private SessionStore(Store<K, V> rows, BinaryOperator<V> merging) {
    this.rows = rows;
    this.merging = merging;
  }

  /** Makes a handle. */
  public static <K, V> SessionStore<K, V> of(String name, Codec<K> key, Codec<V> value) {
    return new SessionStore<>(new Store<>(name, key, value, "Session"), null);
  }

  /** A handle that makes one value of two, the earlier one first. */
  public SessionStore<K, V> merging(BinaryOperator<V> merge) {
    return new SessionStore<>(rows, Objects.requireNonNull(merge, "a merge"));
  }

  /** Its name in the manifest. */
  public String name() {
    return rows.name();
  }

  /** The session that the record belongs to; empty if it is late, or has no key. When a session closes: that one. */
  @SuppressWarnings("unchecked") // the sessions of a store are made here
  public Optional<OpenSession<K, V>> session(Context ctx) {
    return Optional.ofNullable((OpenSession<K, V>) ctx.session(rows.id(ctx), open -> open(ctx, open)));
  }

  OpenSession<K, V> open(Context ctx, OpenWindow open) {
    return new OpenSession<>(rows, merging, ctx, open);
  }
}
