package dev.millstream.conformance;

import dev.millstream.App;
import dev.millstream.Codecs;
import dev.millstream.Context;
import dev.millstream.OpenSession;
import dev.millstream.SessionStore;
import dev.millstream.Timer;
import dev.millstream.Timers;
import dev.millstream.Visit;
import dev.millstream.Window;
import dev.millstream.WindowStore;
import java.io.ByteArrayOutputStream;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** What scripts do with windows, sessions, timers and visits, and what happens when timers are due, windows close and rows are visited. */
final class TimeCommands {
  private static final Map<String, WindowStore<byte[], byte[]>> WINDOWS = new HashMap<>();
  private static final Map<String, SessionStore<byte[], byte[]>> SESSIONS = new HashMap<>();
  /** By clock and name. */
  private static final Map<String, Timers<byte[]>> TIMERS = new HashMap<>();

  static {
    for (String name : List.of("minutes", "hops", "final")) {
      WINDOWS.put(name, WindowStore.of(name, Codecs.BYTES, Codecs.BYTES));
    }
    SESSIONS.put("visits", SessionStore.of("visits", Codecs.BYTES, Codecs.BYTES)
        .merging((earlier, later) -> join(List.of(earlier, later), '+')));
    SESSIONS.put("stays", SessionStore.of("stays", Codecs.BYTES, Codecs.BYTES));
    for (String name : List.of("tick", "other")) {
      TIMERS.put("event " + name, Timers.of(name, Codecs.BYTES));
      TIMERS.put("wall " + name, Timers.ofWallClock(name, Codecs.BYTES));
    }
  }

  private static final Visit<byte[], byte[], byte[]> WALK = visit("walk");

  private TimeCommands() {}

  private static Visit<byte[], byte[], byte[]> visit(String name) {
    return Visit.of(name, ConformanceWorker.COUNTS, Codecs.BYTES);
  }

  private static byte[] join(List<byte[]> parts, char between) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    for (int i = 0; i < parts.size(); i++) {
      if (i > 0) {
        out.write(between);
      }
      out.writeBytes(parts.get(i));
    }
    return out.toByteArray();
  }

  /** {@code START..END=VALUE}, or the bounds alone. */
  private static byte[] span(long start, long end, Optional<byte[]> value) {
    byte[] bounds = ConformanceWorker.bytes(start + ".." + end);
    return value.isPresent() ? join(List.of(bounds, value.get()), '=') : bounds;
  }

  private static long number(byte[] digits) {
    return Long.parseLong(ConformanceWorker.text(digits));
  }

  /** False for a command of another kind. */
  static boolean run(Context ctx, byte[] own, String[] words) {
    switch (words[0]) {
      case "windows", "count_windows", "set_windows", "delete_windows" -> {
        for (Window<byte[], byte[]> window : WINDOWS.get(words[1]).windows(ctx)) {
          onWindow(ctx, own, window, words);
        }
      }
      case "window" -> ConformanceWorker.show(ctx, own, WINDOWS.get(words[1]).window(ctx, Long.parseLong(words[2])).get());
      case "set_window" -> WINDOWS.get(words[1]).window(ctx, Long.parseLong(words[2])).put(ConformanceWorker.word(words[3]));
      case "session" -> showSession(ctx, own, SESSIONS.get(words[1]).session(ctx));
      case "count_session" -> countSession(ctx, own, SESSIONS.get(words[1]).session(ctx).orElseThrow());
      case "set_session" -> SESSIONS.get(words[1]).session(ctx).orElseThrow().put(ConformanceWorker.word(words[2]));
      case "timer" -> setTimer(ctx, words);
      case "cancel" -> cancelTimer(ctx, words);
      case "visit" -> changeVisit(ctx, words);
      case "visit_size" -> WALK.start(ctx, ConformanceWorker.bytes("x".repeat(Integer.parseInt(words[2]))));
      case "watermark" -> ConformanceWorker.emit(ctx, null,
          ctx.watermark().isPresent() ? ConformanceWorker.bytes(String.valueOf(ctx.watermark().getAsLong())) : null);
      default -> {
        return false;
      }
    }
    return true;
  }

  private static void onWindow(Context ctx, byte[] own, Window<byte[], byte[]> window, String[] words) {
    switch (words[0]) {
      case "windows" -> ConformanceWorker.show(ctx, own, Optional.of(span(window.start(), window.end(), window.get())));
      case "count_windows" -> {
        byte[] count = ConformanceWorker.bytes(String.valueOf(number(window.getOrDefault(new byte[] {'0'})) + 1));
        window.put(count);
        ConformanceWorker.emit(ctx, own, span(window.start(), window.end(), Optional.of(count)));
      }
      case "set_windows" -> window.put(ConformanceWorker.word(words[2]));
      default -> window.delete();
    }
  }

  private static void showSession(Context ctx, byte[] own, Optional<OpenSession<byte[], byte[]>> session) {
    ConformanceWorker.show(ctx, own, session.map(open -> {
      List<byte[]> values = open.values();
      return span(open.start(), open.end(), values.isEmpty() ? Optional.empty() : Optional.of(join(values, ',')));
    }));
  }

  private static void countSession(Context ctx, byte[] own, OpenSession<byte[], byte[]> session) {
    long before = session.values().stream().mapToLong(TimeCommands::number).sum();
    byte[] count = ConformanceWorker.bytes(String.valueOf(before + 1));
    session.put(count);
    ConformanceWorker.emit(ctx, own, span(session.start(), session.end(), Optional.of(count)));
  }

  /** timer NAME TIME [event|wall [KEY]] */
  private static void setTimer(Context ctx, String[] words) {
    Timers<byte[]> timers = TIMERS.get((words.length > 3 ? words[3] : "event") + " " + words[1]);
    long time = Long.parseLong(words[2]);
    if (words.length > 4) {
      timers.set(ctx, ConformanceWorker.word(words[4]), time);
    } else {
      timers.set(ctx, time);
    }
  }

  /** cancel NAME [event|wall [KEY]] */
  private static void cancelTimer(Context ctx, String[] words) {
    Timers<byte[]> timers = TIMERS.get((words.length > 2 ? words[2] : "event") + " " + words[1]);
    if (words.length > 3) {
      timers.cancel(ctx, ConformanceWorker.word(words[3]));
    } else {
      timers.cancel(ctx);
    }
  }

  /** visit NAME start [DATA], visit NAME stop|pause|resume */
  private static void changeVisit(Context ctx, String[] words) {
    Visit<byte[], byte[], byte[]> visit = visit(words[1]);
    switch (words[2]) {
      case "start" -> visit.start(ctx, words.length > 3 ? ConformanceWorker.word(words[3]) : null);
      case "stop" -> visit.stop(ctx);
      case "pause" -> visit.pause(ctx);
      default -> visit.resume(ctx);
    }
  }

  private static byte[] facts(String visit, long time, int attempt, byte[] data) {
    return join(List.of(ConformanceWorker.bytes(visit + " " + time + " " + attempt), data == null ? new byte[] {'~'} : data), ' ');
  }

  private static void visits(App app) {
    app.onVisit(WALK, (ctx, row) -> {
      ConformanceWorker.emit(ctx, row.key(), facts(row.visit(), row.time(), row.attempt(), row.data()));
      ConformanceWorker.show(ctx, row.key(), Optional.of(row.value()));
      ConformanceWorker.runStored(ctx, row.key());
    });
    app.onVisitEnd(WALK, (ctx, end) -> ConformanceWorker.emit(ctx, null, facts(end.visit(), end.time(), end.attempt(), end.data())));
  }

  private static void due(Context ctx, String clock, Timer<byte[]> timer) throws InterruptedException {
    ConformanceWorker.emit(ctx, timer.key(),
        ConformanceWorker.bytes(timer.name() + " " + clock + " " + timer.time() + " " + timer.attempt()));
    ConformanceWorker.runStored(ctx, timer.key());
  }

  private static void closed(Context ctx, Window<byte[], byte[]> window) throws InterruptedException {
    ConformanceWorker.emit(ctx, window.key(), span(window.start(), window.end(), window.get()));
    ConformanceWorker.runStored(ctx, window.key());
  }

  /** The handlers of what the case at hand needs. */
  static void handlers(App app, List<String> needs) {
    if (needs.contains("timers")) {
      TIMERS.forEach((id, timers) -> app.onTimer(timers, (ctx, timer) -> due(ctx, id.substring(0, id.indexOf(' ')), timer)));
    }
    if (needs.contains("visits")) {
      visits(app);
    }
    if (needs.contains("closings")) {
      app.onClose(WINDOWS.get("final"), TimeCommands::closed);
    }
    if (needs.contains("sessionClosings")) {
      app.onClose(SESSIONS.get("stays"), (ctx, session) -> {
        ConformanceWorker.emit(ctx, session.key(), span(session.start(), session.end(), session.get()));
        ConformanceWorker.runStored(ctx, session.key());
      });
    }
    if (needs.contains("sessions")) {
      SESSIONS.values().forEach(app::sessions);
    }
  }
}
