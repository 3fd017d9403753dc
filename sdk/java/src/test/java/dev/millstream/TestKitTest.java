package dev.millstream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;

/** The test kit behaves as the sidecar does, and handles behave as their documentation says. */
class TestKitTest {
  private static final Store<String, Long> COUNTS = Store.of("counts", Codecs.STRING, Codecs.LONG);
  private static final Output<String, Long> OUT = Output.of("out", Codecs.STRING, Codecs.LONG);

  /** Counts, then does more. */
  private static TestKit counting(boolean prefetch, Handler<String, String> more) {
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {
      long n = COUNTS.get(ctx).orElse(0L) + 1;
      COUNTS.put(ctx, n);
      OUT.emit(ctx, record.key(), n);
      more.handle(ctx, record);
    });
    return TestKit.of(app).stores(COUNTS).outputs(OUT).prefetch(prefetch).build();
  }

  private static RecordFailedException failure(Handler<String, String> handler) {
    TestKit kit = counting(true, handler);
    RecordFailedException failed = assertThrows(RecordFailedException.class, () -> kit.feed("in", "a", "v"));
    assertEquals(Optional.empty(), kit.state(COUNTS, "a"));
    assertEquals(List.of(), kit.outputs(OUT));
    return failed;
  }

  @Test
  void aFailureKeepsWhatCameBefore() {
    for (boolean prefetch : new boolean[] {true, false}) {
      IllegalStateException bad = new IllegalStateException("out of luck");
      TestKit kit = counting(prefetch, (ctx, record) -> {
        if (record.value().equals("bad")) {
          COUNTS.put(ctx, "other", 5L);
          throw bad;
        }
      });
      RecordFailedException failed = assertThrows(RecordFailedException.class, () -> kit.feedBatch("in", TestRecord.of("a", "1"),
          TestRecord.of("a", "2"), TestRecord.of("a", "bad"), TestRecord.of("a", "3")));
      assertEquals(2, failed.offset());
      assertEquals("Handler java.lang.IllegalStateException true", failed.failureClass() + " " + failed.error() + " " + failed.retriable());
      assertTrue(failed.getMessage().contains("out of luck"), failed.getMessage());
      assertSame(bad, failed.getCause());
      assertEquals(List.of(failed), kit.failures());
      assertEquals(List.of(new Row<>("a", 2L)), kit.rows(COUNTS));
      assertEquals(2, kit.take(OUT).size());
      kit.feed("in", "a", "4");
      assertEquals(Optional.of(3L), kit.state(COUNTS, "a"));
      assertEquals(1, kit.outputs(OUT).size());
    }
  }

  @Test
  void scansArePagedAndSeeOwnWrites() {
    Map<KeyRange<String>, List<String>> cases = Map.of(
        KeyRange.all(), List.of("a", "k1", "k2", "k3", "k4", "k5", "k6", "new"),
        KeyRange.prefix("k"), List.of("k1", "k2", "k3", "k4", "k5", "k6"),
        KeyRange.between("k2", "k5"), List.of("k2", "k3", "k4"),
        KeyRange.<String>all().reversed().limit(4), List.of("new", "k6", "k5", "k4"));
    cases.forEach((range, wanted) -> {
      List<String> seen = new ArrayList<>();
      TestKit kit = counting(true, (ctx, record) -> {
        COUNTS.put(ctx, "new", 1L);
        COUNTS.delete(ctx, "gone");
        COUNTS.scan(ctx, range).forEach(row -> seen.add(row.key()));
      });
      for (String key : List.of("k1", "k2", "k3", "k4", "k5", "k6", "gone")) {
        kit.setState(COUNTS, key, 1L);
      }
      kit.feed("in", "a", "");
      assertEquals(wanted, seen);
    });
  }

  @Test
  void severalKeysAtOnce() {
    List<Optional<Long>> seen = new ArrayList<>();
    TestKit kit = counting(false, (ctx, record) -> seen.addAll(COUNTS.getMany(ctx, List.of("x", "a", "y", "x"))));
    kit.setState(COUNTS, "x", 7L);
    kit.feed("in", "a", "");
    assertEquals(List.of(Optional.of(7L), Optional.of(1L), Optional.empty(), Optional.of(7L)), seen);
  }

  @Test
  void outputsBeyondTheLimitsFailTheRecord() {
    Map<String, Handler<String, String>> cases = Map.of(
        "limit", (ctx, record) -> OUT.emit(ctx, "x".repeat(1 << 20), 1L),
        "timestamp -5", (ctx, record) -> OUT.emit(ctx, "a", 1L, new EmitOptions().timestamp(-5)),
        "partition", (ctx, record) -> OUT.emit(ctx, "a", 1L, new EmitOptions().partition(-1)),
        "lone surrogate", (ctx, record) -> OUT.emit(ctx, "\ud800", 1L));
    cases.forEach((text, handler) -> {
      RecordFailedException failed = failure(handler);
      assertEquals("Output", failed.failureClass(), text);
      assertFalse(failed.retriable());
      assertTrue(failed.getMessage().contains(text), failed.getMessage());
    });
  }

  @Test
  void namesThatAreNotDeclared() {
    Store<String, Long> nowhere = Store.of("nowhere", Codecs.STRING, Codecs.LONG);
    RecordFailedException failed = failure((ctx, record) -> nowhere.get(ctx));
    assertTrue(failed.getMessage().contains("no store \"nowhere\" in the manifest; declared stores: counts. Add it under spec.stores"),
        failed.getMessage());
    assertFalse(failed.retriable());
    failed = failure((ctx, record) -> Output.of("nowhere", Codecs.STRING, Codecs.LONG).emit(ctx, "a", 1L));
    assertTrue(failed.getMessage().contains("declared outputs: out."), failed.getMessage());
    TestKit kit = counting(true, (ctx, record) -> {});
    assertTrue(assertThrows(ConfigException.class, () -> kit.feed("x", "a", "")).getMessage().contains("inputs: in"));
    assertTrue(assertThrows(ConfigException.class, () -> kit.state(nowhere, "a")).getMessage().contains("stores: counts"));
    assertTrue(assertThrows(ConfigException.class, () -> kit.outputs(Output.of("x", Codecs.STRING, Codecs.LONG))).getMessage()
        .contains("outputs: out"));
    assertThrows(ConfigException.class, () -> TestKit.of(new App()).build());
  }

  @Test
  void failuresThatAreNotRetried() {
    assertFalse(failure((ctx, record) -> {
      throw new RejectRecordException("hopeless");
    }).retriable());
    RecordFailedException failed = failure((ctx, record) -> {
      throw new RejectRecordException(new IllegalArgumentException("no such thing"));
    });
    assertEquals("java.lang.IllegalArgumentException", failed.error());
    App app = new App().on("ints", Codecs.STRING, Codecs.LONG, (ctx, record) -> record.value());
    failed = assertThrows(RecordFailedException.class, () -> TestKit.of(app).build().feed("ints", "a", new byte[] {1}));
    assertEquals("Decode false", failed.failureClass() + " " + failed.retriable());
    assertTrue(failed.getMessage().contains("the value of a record of input \"ints\" (partition 0, offset 0) is not an 8-byte integer"),
        failed.getMessage());
  }

  @Test
  void stateThatAnotherCodecWrote() {
    Store<String, byte[]> raw = Store.of("counts", Codecs.STRING, Codecs.BYTES);
    TestKit kit = counting(true, (ctx, record) -> {});
    kit.setState(raw, "a", new byte[] {1});
    RecordFailedException failed = assertThrows(RecordFailedException.class, () -> kit.feed("in", "a", ""));
    assertTrue(failed.getMessage().contains("store \"counts\": the value of key \"a\" is not an 8-byte integer"), failed.getMessage());
    assertTrue(failed.retriable());
  }

  @Test
  void aRecordWithoutAKeyHasNoDefaultKey() {
    TestKit kit = counting(true, (ctx, record) -> {});
    RecordFailedException failed = assertThrows(RecordFailedException.class, () -> kit.feed("in", null, ""));
    assertTrue(failed.getCause() instanceof NoKeyException, failed.getMessage());
  }

  @Test
  void factsOfTheRecord() {
    List<Object> seen = new ArrayList<>();
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> seen.addAll(List.of(record.input(), record.topic(), record.task(),
        record.offset(), record.timestamp(), record.attempt(), record.header("h").map(Header::text).orElse("none"), record.headers().size(),
        record.value() == null, ctx.processor(), ctx.watermark().isPresent())));
    TestKit kit = TestKit.of(app).task(3).build();
    kit.advance(Duration.ofSeconds(1));
    kit.feed("in", TestRecord.of("a", null).header("h", "1").header("h", "2"));
    assertEquals(List.of("in", "in", 3, 0L, 1_700_000_001_000L, 1, "2", 2, true, "test", false), seen);
  }

  @Test
  void aContextIsForItsHandlerOnly() {
    List<Context> kept = new ArrayList<>();
    TestKit kit = counting(true, (ctx, record) -> kept.add(ctx));
    kit.feed("in", "a", "");
    assertThrows(IllegalStateException.class, () -> COUNTS.get(kept.get(0)));
    RecordFailedException failed = failure((ctx, record) -> {
      try {
        CompletableFuture.runAsync(() -> COUNTS.put(ctx, 9L)).join();
      } catch (CompletionException e) {
        throw (RuntimeException) e.getCause();
      }
    });
    assertTrue(failed.getMessage().contains("used by its handler's thread"), failed.getMessage());
  }

  @Test
  void nullIsNoValueOfAStore() {
    assertTrue(failure((ctx, record) -> COUNTS.put(ctx, null)).getMessage().contains("use delete"));
  }

  @Test
  void aBatchWhoseResultDoesNotFitOneFrameGoesInTwo() {
    Output<String, byte[]> large = Output.of("out", Codecs.STRING, Codecs.BYTES);
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> large.emit(ctx, "k", new byte[1_000_000]));
    TestKit kit = TestKit.of(app).outputs(large).build();
    TestRecord[] records = new TestRecord[40];
    java.util.Arrays.fill(records, TestRecord.of("a", ""));
    kit.feedBatch("in", records);
    assertEquals(40, kit.outputs(large).size());
  }

  @Test
  void aTypeThatTheCodecDoesNotTake() {
    TestKit kit = counting(true, (ctx, record) -> {});
    assertTrue(assertThrows(IllegalArgumentException.class, () -> kit.feed("in", 5, "")).getMessage().contains("does not take a java.lang.Integer"));
  }

  @Test
  void oneHandlerPerInput() {
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {});
    assertThrows(ConfigException.class, () -> app.on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {}));
  }
}
