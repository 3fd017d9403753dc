package dev.millstream;

import dev.millstream.internal.Bytes;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Objects;

/**
 * A handle on timers of one name. Declare it once, next to the handlers, and register what happens when one is due:
 *
 * <pre>{@code
 * static final Timers<String> REMINDER = Timers.of("reminder", Codecs.STRING);
 *
 * app.on("orders", Codecs.STRING, Codecs.BYTES, (ctx, order) -> REMINDER.set(ctx, order.timestamp() + 3_600_000))
 *     .onTimer(REMINDER, (ctx, timer) -> REMINDERS.emit(ctx, timer.key(), timer.time()));
 * }</pre>
 *
 * <p>A timer is known by key, clock and name: setting it again moves it. It is committed together with the record that set it, and handled
 * once in committed effect, also after a crash. The manifest needs {@code timers: {}}.
 *
 * @param <K> the keys
 */
public final class Timers<K> {
  private static final int MAX_NAME_BYTES = 255;
  private static final int EVENT_TIME = 0;
  private static final int WALL_CLOCK = 1;

  final int clock;
  private final String name;
  private final Codec<K> keyCodec;

  private Timers(String name, Codec<K> keyCodec, int clock) {
    if (name.getBytes(StandardCharsets.UTF_8).length > MAX_NAME_BYTES) {
      throw new ConfigException("the name of a timer has at most " + MAX_NAME_BYTES + " bytes: " + name);
    }
    this.name = name;
    this.keyCodec = Objects.requireNonNull(keyCodec, "the codec of the keys of timers");
    this.clock = clock;
  }

  /** Timers of event time: due when the task's records have come that far. */
  public static <K> Timers<K> of(String name, Codec<K> key) {
    return new Timers<>(name, key, EVENT_TIME);
  }

  /** Timers of the wall clock. */
  public static <K> Timers<K> ofWallClock(String name, Codec<K> key) {
    return new Timers<>(name, key, WALL_CLOCK);
  }

  /** Its name. */
  public String name() {
    return name;
  }

  /** What it is known by. */
  record Id(int clock, String name) {}

  Id id() {
    return new Id(clock, name);
  }

  K decodeKey(Bytes raw) {
    return keyCodec.decode(raw.array, raw.offset, raw.length);
  }

  /** Sets the timer of the record's own key, in milliseconds since 1970. A time that has passed is due at once. */
  public void set(Context ctx, long time) {
    stage(ctx, ownKey(ctx), time);
  }

  /** Sets the timer of the record's own key. */
  public void set(Context ctx, Instant time) {
    set(ctx, time.toEpochMilli());
  }

  /** Sets the timer of any key of the task, in milliseconds since 1970. */
  public void set(Context ctx, K key, long time) {
    stage(ctx, Bytes.of(keyCodec.encode(key)), time);
  }

  /** Forgets the timer of the record's own key. Cancelling what is not set is fine. */
  public void cancel(Context ctx) {
    stage(ctx, ownKey(ctx), null);
  }

  /** Forgets the timer of any key of the task. */
  public void cancel(Context ctx, K key) {
    stage(ctx, Bytes.of(keyCodec.encode(key)), null);
  }

  private Bytes ownKey(Context ctx) {
    if (ctx.key() == null) {
      throw new NoKeyException("timer \"" + name + "\"");
    }
    return ctx.key();
  }

  private void stage(Context ctx, Bytes key, Long time) {
    ctx.check();
    Schema schema = ctx.batch.schema;
    if (!schema.timers) {
      throw new UndeclaredException("timer \"" + name + "\": the manifest has no timers; add timers: {} under spec");
    }
    if (time != null && (time < schema.minTimestamp || time > schema.maxTimestamp)) {
      throw new OutputException("timer \"" + name + "\": time " + time + " is outside " + schema.minTimestamp + " to " + schema.maxTimestamp);
    }
    ctx.batch.stageTimer(new BatchRun.StagedTimer(key, id(), time));
  }
}
