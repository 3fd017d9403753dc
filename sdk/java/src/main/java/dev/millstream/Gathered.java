package dev.millstream;

import java.util.Objects;
import java.util.function.Supplier;

/**
 * What a program gathers over the records of a task for {@link App#onFinalize} to send. Declare it once, next to the handlers:
 *
 * <pre>{@code
 * static final Gathered<Map<String, Long>> CLICKS = Gathered.of(HashMap::new);
 *
 * app.on("clicks", Codecs.STRING, Codecs.BYTES, (ctx, click) -> CLICKS.get(ctx).merge(click.key(), 1L, Long::sum))
 *     .onFinalize(ctx -> CLICKS.get(ctx).forEach((key, clicks) -> OUT.emit(ctx, key, clicks)));
 * }</pre>
 *
 * <p>Gather last in a handler: a record that fails must not have gathered anything, since nothing of this is undone. It is gone after
 * onFinalize, and when the sidecar drops what it has of the task (a transaction was aborted, the task moved).
 *
 * @param <T> what is gathered, by one thread at a time
 */
public final class Gathered<T> {
  private final Supplier<T> empty;

  private Gathered(Supplier<T> empty) {
    this.empty = Objects.requireNonNull(empty, "what there is before anything was gathered");
  }

  /** Makes a handle; `empty` makes what there is before anything was gathered. */
  public static <T> Gathered<T> of(Supplier<T> empty) {
    return new Gathered<>(empty);
  }

  /** That of the context's task. */
  @SuppressWarnings("unchecked") // only we put something under this key
  public T get(Context ctx) {
    ctx.check();
    return (T) ctx.batch.gathered.computeIfAbsent(this, handle -> empty.get());
  }
}
