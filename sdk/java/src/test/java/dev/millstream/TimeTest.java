package dev.millstream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.internal.BatchFrame;
import dev.millstream.internal.BatchItem;
import dev.millstream.internal.Bytes;
import dev.millstream.internal.FrameReader;
import dev.millstream.internal.FrameWriter;
import dev.millstream.internal.Frames;
import dev.millstream.internal.Kind;
import dev.millstream.internal.RowKeys;
import dev.millstream.internal.WelcomeFrame;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Windows, sessions and timers: in a test kit, and as frames. */
class TimeTest {
  private static final Duration MINUTE = Duration.ofMinutes(1);
  private static final WindowStore<String, Long> COUNTS = WindowStore.of("counts", Codecs.STRING, Codecs.LONG);
  private static final SessionStore<String, Long> VISITS = SessionStore.of("visits", Codecs.STRING, Codecs.LONG).merging(Long::sum);
  private static final Timers<String> REMINDER = Timers.of("reminder", Codecs.STRING);
  private static final Output<String, String> OUT = Output.of("out", Codecs.STRING, Codecs.STRING);

  private static App counting() {
    return new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {
      for (Window<String, Long> window : COUNTS.windows(ctx)) {
        window.put(window.getOrDefault(0L) + 1);
      }
    });
  }

  private static void feed(TestKit kit, String key, String value, long seconds) {
    kit.feed("in", TestRecord.of(key, value).timestamp(seconds * 1000));
  }

  @Test
  void windowsOneAfterTheOther() {
    for (boolean prefetch : new boolean[] {true, false}) {
      TestKit kit = TestKit.of(counting()).windows(COUNTS, MINUTE, Duration.ofMinutes(10)).prefetch(prefetch).build();
      feed(kit, "a", "", 1);
      feed(kit, "a", "", 59);
      feed(kit, "b", "", 59);
      feed(kit, "a", "", 60);
      feed(kit, "a", "", 2);
      assertEquals(Map.of(0L, 3L, 60_000L, 1L), kit.windows(COUNTS, "a"));
      assertEquals(Map.of(0L, 1L), kit.windows(COUNTS, "b"));
    }
  }

  @Test
  void windowsThatOverlapAndTimesBefore1970() {
    TestKit kit = TestKit.of(counting()).windows(COUNTS, MINUTE, Duration.ofSeconds(30), Duration.ofMinutes(10)).build();
    feed(kit, "a", "", -1);
    feed(kit, "a", "", 45);
    assertEquals(Map.of(-60_000L, 1L, -30_000L, 1L, 0L, 1L, 30_000L, 1L), kit.windows(COUNTS, "a"));
  }

  @Test
  void recordsBehindTheGraceAreLate() {
    TestKit kit = TestKit.of(counting()).windows(COUNTS, MINUTE, Duration.ofSeconds(10)).lateness(Duration.ofSeconds(5)).build();
    feed(kit, "a", "", 1);
    feed(kit, "a", "", 74); // event time is 69 s: the first window is open until 70 s
    feed(kit, "a", "", 2);
    assertEquals(2L, kit.windows(COUNTS, "a").get(0L));
    feed(kit, "a", "", 75);
    feed(kit, "a", "", 3);
    assertEquals(1, kit.late());
    assertEquals(Map.of(60_000L, 2L), kit.windows(COUNTS, "a"));
  }

  @Test
  void windowsThatCloseAreGivenOnce() {
    App app = counting().onClose(COUNTS, (ctx, window) -> OUT.emit(ctx, window.key(), window.start() + ":" + window.getOrDefault(0L)));
    TestKit kit = TestKit.of(app).windows(COUNTS, MINUTE, Duration.ofSeconds(10)).outputs(OUT).build();
    feed(kit, "a", "", 1);
    feed(kit, "b", "", 2);
    feed(kit, "a", "", 65);
    assertEquals(List.of(), kit.outputs(OUT));
    feed(kit, "a", "", 70);
    feed(kit, "a", "", 71);
    assertEquals(List.of("a 0:1 59999", "b 0:1 59999"),
        kit.outputs(OUT).stream().map(out -> out.key() + " " + out.value() + " " + out.timestamp()).toList());
  }

  @Test
  void sessionsGrowAndMerge() {
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {
      if (record.value().equals("count")) {
        VISITS.session(ctx).ifPresent(visit -> visit.put(visit.getOrDefault(0L) + 1));
      }
    }).sessions(VISITS);
    TestKit kit = TestKit.of(app).sessions(VISITS, Duration.ofSeconds(10), Duration.ofMinutes(10)).build();
    feed(kit, "a", "count", 0);
    feed(kit, "a", "count", 10);
    feed(kit, "a", "count", 30);
    feed(kit, "a", "", 50);
    assertEquals(new java.util.TreeMap<>(Map.of(0L, 2L, 30_000L, 1L)).toString(), kit.sessions(VISITS, "a").toString().replace(", 50000=null", ""));
    feed(kit, "a", "", 20); // connects two: the handler does not look, they are merged all the same
    assertEquals("{0=3, 50000=null}", kit.sessions(VISITS, "a").toString());
    feed(kit, "a", "", 40); // the value is carried to the longer session
    assertEquals("{0=3}", kit.sessions(VISITS, "a").toString());
  }

  @Test
  void sessionsThatCloseAreGivenOnce() {
    for (boolean prefetch : new boolean[] {true, false}) {
      List<String> given = new ArrayList<>();
      App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {
        if (record.value().equals("count")) {
          VISITS.session(ctx).ifPresent(visit -> visit.put(visit.getOrDefault(0L) + 1));
        }
      }).sessions(VISITS).onClose(VISITS, (ctx, session) -> {
        assertEquals(session, VISITS.session(ctx).orElseThrow());
        given.add(session.key() + " " + session.start() + ".." + session.end() + "=" + session.get().map(String::valueOf).orElse("-"));
        OUT.emit(ctx, session.key(), session.get().map(String::valueOf).orElse("-"));
        if (session.start() == 90_000) {
          throw new IllegalStateException("ninety");
        }
      });
      TestKit kit = TestKit.of(app).sessions(VISITS, Duration.ofSeconds(10), Duration.ofSeconds(5)).outputs(OUT).prefetch(prefetch).build();
      feed(kit, "a", "count", 0);
      feed(kit, "a", "count", 10);
      feed(kit, "a", "count", 20);
      feed(kit, "a", "count", 12);
      feed(kit, "b", "", 35);
      assertEquals(List.of(), given);
      kit.feed("in", TestRecord.of("c", "count").timestamp(35_001));
      assertEquals(List.of("a 0..20000=4"), given);
      assertEquals(20_000L, kit.outputs(OUT).get(0).timestamp());
      assertEquals("{}", kit.sessions(VISITS, "a").toString(), "a kit keeps none that was given");
      feed(kit, "a", "count", 90);
      assertEquals(List.of("a 0..20000=4", "b 35000..35000=-", "c 35001..35001=1"), given);
      assertThrows(RecordFailedException.class, () -> feed(kit, "a", "count", 2000));
      feed(kit, "a", "count", 2001);
      assertEquals(4, given.size(), "one that was given up does not come again");
      assertEquals(3, kit.outputs(OUT).size());
      assertEquals("{2000000=2}", kit.sessions(VISITS, "a").toString());
    }
  }

  @Test
  void sessionsThatNobodyCanMergeFailTheRecord() {
    SessionStore<String, Long> plain = SessionStore.of("visits", Codecs.STRING, Codecs.LONG);
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {
      OpenSession<String, Long> visit = plain.session(ctx).orElseThrow();
      if (record.value().equals("all")) {
        visit.put(visit.values().stream().mapToLong(n -> n).sum());
      } else if (visit.values().size() < 2) {
        visit.put(1L);
      }
    });
    TestKit kit = TestKit.of(app).sessions(plain, Duration.ofSeconds(10), Duration.ofMinutes(10)).build();
    feed(kit, "a", "", 0);
    feed(kit, "a", "", 20);
    RecordFailedException failed = assertThrows(RecordFailedException.class, () -> feed(kit, "a", "", 10));
    assertTrue(failed.getMessage().contains("SessionStore.of(...).merging("), failed.getMessage());
    feed(kit, "a", "all", 10);
    assertEquals("{0=2}", kit.sessions(plain, "a").toString());
  }

  @Test
  void timersAreSetMovedAndCancelled() {
    Timers<String> wall = Timers.ofWallClock("wall", Codecs.STRING);
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {
      switch (record.value()) {
        case "set" -> REMINDER.set(ctx, record.timestamp() + 60_000);
        case "other" -> REMINDER.set(ctx, "other", record.timestamp() + 60_000);
        case "cancel" -> REMINDER.cancel(ctx);
        case "wall" -> wall.set(ctx, Instant.ofEpochMilli(1_700_000_000_000L).plusSeconds(5));
        default -> { }
      }
    }).onTimer(REMINDER, (ctx, timer) -> OUT.emit(ctx, timer.key(), timer.name() + timer.time()))
        .onTimer(wall, (ctx, timer) -> OUT.emit(ctx, timer.key(), timer.name()));
    TestKit kit = TestKit.of(app).outputs(OUT).build();
    feed(kit, "a", "set", 0);
    feed(kit, "a", "set", 10);
    feed(kit, "b", "set", 10);
    feed(kit, "b", "cancel", 11);
    feed(kit, "a", "other", 12);
    feed(kit, "c", "wall", 13);
    feed(kit, "x", "", 69);
    assertEquals(List.of(), kit.take(OUT));
    feed(kit, "x", "", 70);
    assertEquals(List.of("a reminder70000 70000"), kit.take(OUT).stream().map(o -> o.key() + " " + o.value() + " " + o.timestamp()).toList());
    feed(kit, "x", "", 100);
    assertEquals(List.of("other reminder72000"), kit.take(OUT).stream().map(o -> o.key() + " " + o.value()).toList());
    kit.advance(Duration.ofSeconds(4));
    assertEquals(List.of(), kit.take(OUT));
    kit.advance(Duration.ofSeconds(1));
    assertEquals(List.of("c wall"), kit.take(OUT).stream().map(o -> o.key() + " " + o.value()).toList());
  }

  @Test
  void whatDoesNotFitTheManifest() {
    App timed = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> REMINDER.set(ctx, 5));
    RecordFailedException failed = assertThrows(RecordFailedException.class, () -> TestKit.of(timed).build().feed("in", "a", ""));
    assertTrue(failed.getMessage().contains("add timers: {} under spec"), failed.getMessage());
    Store<String, Long> plain = Store.of("counts", Codecs.STRING, Codecs.LONG);
    App wrong = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> plain.get(ctx));
    TestKit kit = TestKit.of(wrong).windows(COUNTS, MINUTE, MINUTE).build();
    failed = assertThrows(RecordFailedException.class, () -> kit.feed("in", "a", ""));
    assertTrue(failed.getMessage().contains("store \"counts\" has type Window: use a WindowStore for it"), failed.getMessage());
    App closing = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {}).onClose(COUNTS, (ctx, window) -> {});
    assertTrue(assertThrows(ConfigException.class, () -> TestKit.of(closing).stores(plain).build()).getMessage().contains("set emit: Final"));
  }

  // -- frames

  private static Schema timedSchema(App app) {
    WelcomeFrame welcome = new WelcomeFrame();
    welcome.version = 1;
    welcome.timers = true;
    welcome.inputs = List.of(new WelcomeFrame.Port("in", "in", "", 0));
    welcome.outputs = List.of(new WelcomeFrame.Port("out", "out", "", 0));
    welcome.stores = List.of(new WelcomeFrame.Port("counts", "", "Window", 0, 60_000, false), new WelcomeFrame.Port("visits", "", "Session", 0));
    return new Schema(welcome, app);
  }

  @Test
  void aBatchWithWindowsAndSessions() {
    // The golden frame batch-windows: two open windows, one of them new; a late record; a session that connects two, one not sent along.
    byte[] frame = HexFormat.of().parseHex("980501000091c4016b9299000000cf0000018bcfe5680000c40176c001939300cf0000018bcfe540f0cf0000018bcfe62b50"
        + "9300cf0000018bcfe56800cf0000018bcfe652609401fbcf0000018bcfe568009292fb03920a0a98000001cf0000018bcfe5680100c4046c617465c0018200919193"
        + "cf0000018bcfe540f0cf0000018bcfe62b50c4013701919293fb03c40161930a0ac70001cf0000018bcfe56800");
    List<String> seen = new ArrayList<>();
    WindowStore<byte[], String> counts = WindowStore.of("counts", Codecs.BYTES, Codecs.STRING);
    SessionStore<byte[], String> visits = SessionStore.of("visits", Codecs.BYTES, Codecs.STRING);
    App app = new App().on("in", Codecs.BYTES, Codecs.STRING, (ctx, record) -> {
      counts.windows(ctx).forEach(window -> seen.add(window.start() + "-" + window.end() + " " + window.getOrDefault("none")));
      visits.session(ctx).ifPresent(visit -> {
        seen.add(visit.start() + "-" + visit.end() + " " + visit.values());
        visit.put("ab");
      });
    });
    Schema schema = timedSchema(app);
    FrameReader r = new FrameReader(frame);
    int fields = r.fields("frame", 1) - 1;
    r.uint64("kind");
    BatchFrame batch = BatchFrame.read(r, fields, schema.shape);
    List<Bytes> asked = new ArrayList<>();
    Link link = new KitLink(List.of(), Map.of()) {
      @Override
      public Bytes[] get(BatchRun run, int store, List<Bytes> keys) {
        asked.addAll(keys);
        return keys.stream().map(key -> Bytes.of("b".getBytes(StandardCharsets.UTF_8))).toArray(Bytes[]::new);
      }
    };
    byte[] result = new BatchRun(schema, link, batch).run();
    assertEquals(List.of("1699999990000-1700000050000 7", "1700000000000-1700000060000 none", "-5-1700000000000 [a, b]"), seen);
    Bytes key = Bytes.of("k".getBytes(StandardCharsets.UTF_8));
    assertEquals(List.of(RowKeys.session(key, 10, 10)), asked);
    // Sign bits are flipped in the keys of sessions.
    byte[] row = RowKeys.session(key, -5, 1_700_000_000_000L).toArray();
    assertEquals("6b7ffffffffffffffb8000018bcfe56800", HexFormat.of().formatHex(row));
    byte[] wanted = Frames.begin(Kind.RESULT, 5).int64(1).int64(2).nil().map(1).int64(1).list(1).list(2).maybeBin(row)
        .maybeBin("ab".getBytes(StandardCharsets.UTF_8)).list(0).toBytes();
    assertEquals(HexFormat.of().formatHex(wanted), HexFormat.of().formatHex(result));
    assertEquals("6bfffffffffffffffb", HexFormat.of().formatHex(RowKeys.window(key, -5).toArray()));
  }

  @Test
  void aTimerThatAnEarlierItemMovedIsPassedOver() {
    List<String> seen = new ArrayList<>();
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {})
        .onTimer(REMINDER, (ctx, timer) -> {
          seen.add(timer.key() + timer.time());
          REMINDER.set(ctx, "b", 99);
          REMINDER.cancel(ctx, "c");
        });
    Schema schema = timedSchema(app);
    FrameWriter w = Frames.begin(Kind.BATCH, 7).int64(1).int64(0).int64(0).list(3);
    for (String key : List.of("a", "b", "c")) {
      w.maybeBin(key.getBytes(StandardCharsets.UTF_8));
    }
    w.list(3);
    for (int key = 0; key < 3; key++) {
      w.list(6).int64(BatchItem.TIMER).int64(key).int64(0).text("reminder").int64(7).int64(1);
    }
    FrameReader r = new FrameReader(w.map(0).nil().toBytes());
    int fields = r.fields("frame", 1) - 1;
    r.uint64("kind");
    byte[] result = new BatchRun(schema, new KitLink(List.of(), Map.of()), BatchFrame.read(r, fields, schema.shape)).run();
    assertEquals(List.of("a7"), seen);
    byte[] wanted = Frames.begin(Kind.RESULT, 6).int64(1).int64(3).nil().map(0).list(0).list(2)
        .list(4).maybeBin("b".getBytes(StandardCharsets.UTF_8)).int64(0).text("reminder").int64(99)
        .list(4).maybeBin("c".getBytes(StandardCharsets.UTF_8)).int64(0).text("reminder").nil().toBytes();
    assertEquals(HexFormat.of().formatHex(wanted), HexFormat.of().formatHex(result));
  }
}
