package dev.millstream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Visits, in a test kit. */
class VisitTest {
  private static final Store<String, Long> OTHERS = Store.of("others", Codecs.STRING, Codecs.LONG);
  private static final Store<String, Long> ACCOUNTS = Store.of("accounts", Codecs.STRING, Codecs.LONG);
  private static final Visit<String, Long, Long> INTEREST = Visit.of("interest", ACCOUNTS, Codecs.LONG);
  private static final Output<String, String> REPORTS = Output.of("reports", Codecs.STRING, Codecs.STRING);

  /** Adds what the visit's data says to every account, and reports at its end; records do what their value says. */
  private static App bank() {
    return new App()
        .on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {
          String[] words = record.value().split(" ");
          Long number = words.length > 1 ? (Long) Long.parseLong(words[1]) : null;
          switch (words[0]) {
            case "set" -> ACCOUNTS.put(ctx, number);
            case "start" -> INTEREST.start(ctx, number);
            case "pause" -> {
              INTEREST.start(ctx, number);
              INTEREST.pause(ctx);
            }
            case "resume" -> INTEREST.resume(ctx);
            case "stop" -> INTEREST.stop(ctx);
            default -> {
              INTEREST.start(ctx);
              throw new IllegalStateException("no");
            }
          }
        })
        .onVisit(INTEREST, (ctx, row) -> {
          if (row.value() < 0) {
            throw new IllegalStateException(row.key() + " is overdrawn");
          }
          if (row.value() == 1000) {
            ACCOUNTS.delete(ctx, row.key() + "b");
          } else if (row.data() != null) {
            ACCOUNTS.put(ctx, row.value() + row.data());
          }
        })
        .onVisitEnd(INTEREST, (ctx, end) -> {
          assertThrows(NoKeyException.class, () -> ACCOUNTS.get(ctx));
          REPORTS.emit(ctx, "end", end.visit() + " " + end.data() + " " + end.time() + " " + end.attempt() + " " + ctx.input());
        });
  }

  private static TestKit.Builder builder(App app) {
    return TestKit.of(app).stores(OTHERS, ACCOUNTS).outputs(REPORTS).visits(INTEREST);
  }

  private static TestRecord at(long time, String value) {
    return TestRecord.of("a", value).timestamp(time);
  }

  private static List<String> reports(TestKit kit) {
    return kit.outputs(REPORTS).stream().map(TestOutput::value).toList();
  }

  @Test
  void aVisitComesToEveryRowAndThenToItsEnd() {
    for (boolean prefetch : new boolean[] {true, false}) {
      TestKit kit = builder(bank()).prefetch(prefetch).build();
      for (int n = 0; n < 250; n++) { // more than a page
        kit.setState(ACCOUNTS, String.format("%03d", n), (long) n);
      }
      kit.feed("in", at(5, "start 2"));
      for (int n = 0; n < 250; n++) {
        assertEquals(Optional.of(n + 2L), kit.state(ACCOUNTS, String.format("%03d", n)));
      }
      kit.feed("in", at(6, "start"));
      assertEquals(List.of("interest 2 5 1 (visit)", "interest null 6 1 (visit)"), reports(kit));
      assertEquals(List.of(5L, 6L), kit.outputs(REPORTS).stream().map(TestOutput::timestamp).toList());
    }
  }

  @Test
  void aPausedVisitWaitsUntilItIsResumed() {
    TestKit kit = builder(bank()).build();
    kit.feedBatch("in", at(1, "set 1"), at(2, "pause 3"), at(3, "set 10"));
    assertEquals(Optional.of(10L), kit.state(ACCOUNTS, "a"));
    assertEquals(List.of("interest"), kit.visits());
    kit.feed("in", at(4, "resume"));
    assertEquals(Optional.of(13L), kit.state(ACCOUNTS, "a"));
    assertEquals(List.of(), kit.visits());
    kit.feed("in", at(5, "pause 3"));
    kit.feed("in", at(6, "stop"));
    assertEquals(List.of(), kit.visits());
    assertEquals(1, reports(kit).size());
  }

  @Test
  void aTestStartsAVisit() {
    TestKit kit = builder(bank()).build();
    kit.setState(ACCOUNTS, "b", 1L);
    kit.visit(INTEREST, 5L);
    assertEquals(Optional.of(6L), kit.state(ACCOUNTS, "b"));
    Visit<String, Long, Long> other = Visit.of("other", ACCOUNTS, Codecs.LONG);
    assertTrue(assertThrows(ConfigException.class, () -> kit.visit(other, 1L)).getMessage().contains("visits: interest"));
  }

  @Test
  void aRowThatFailsIsGivenUpAndTheWalkGoesOn() {
    TestKit kit = builder(bank()).build();
    kit.setState(ACCOUNTS, "a", 1L);
    kit.setState(ACCOUNTS, "b", -1L);
    kit.setState(ACCOUNTS, "c", 1L);
    var failed = assertThrows(RecordFailedException.class, () -> kit.feed("in", at(1, "start 2")));
    assertTrue(failed.getMessage().contains("b is overdrawn"), failed.getMessage());
    assertEquals(Optional.of(3L), kit.state(ACCOUNTS, "a"));
    assertEquals(Optional.of(1L), kit.state(ACCOUNTS, "c"));
    kit.advance(Duration.ofMillis(1));
    assertEquals(Optional.of(3L), kit.state(ACCOUNTS, "c"));
  }

  @Test
  void aRowThatAnEarlierOneDeletedIsPassedOver() {
    TestKit kit = builder(bank()).build();
    kit.setState(ACCOUNTS, "a", 1000L);
    kit.setState(ACCOUNTS, "ab", -1L);
    kit.setState(ACCOUNTS, "c", 1L);
    kit.feed("in", at(1, "start 2"));
    assertEquals(Optional.empty(), kit.state(ACCOUNTS, "ab"));
    assertEquals(Optional.of(3L), kit.state(ACCOUNTS, "c"));
  }

  @Test
  void aStartThatFailsIsNone() {
    TestKit kit = builder(bank()).build();
    assertThrows(RecordFailedException.class, () -> kit.feed("in", at(1, "fail")));
    assertEquals(List.of(), kit.visits());
    assertEquals(List.of(), reports(kit));
  }

  private static void assertRefused(String why, TestKit.Builder builder) {
    String message = assertThrows(ConfigException.class, builder::build).getMessage();
    assertTrue(message.contains(why), message);
  }

  @Test
  void visitsThatDoNotFitTheManifest() {
    assertRefused("declares visit \"audit\"", builder(bank()).visits(Visit.of("audit", OTHERS, Codecs.LONG)));
    TestKit.Builder none = TestKit.of(bank()).stores(OTHERS, ACCOUNTS).outputs(REPORTS);
    assertRefused("does not declare; add {name: interest, store: accounts}", none);
    assertRefused("walks store \"others\" in the manifest, and \"accounts\" in the program",
        none.visits(Visit.of("interest", OTHERS, Codecs.LONG)));
    assertRefused("walks store \"nowhere\"; stores: others, accounts",
        builder(bank()).visits(Visit.of("more", Store.of("nowhere", Codecs.LONG, Codecs.LONG), Codecs.LONG)));
    assertThrows(ConfigException.class, () -> bank().onVisit(INTEREST, (ctx, row) -> {}));
    assertThrows(ConfigException.class, () -> bank().onVisitEnd(INTEREST, (ctx, end) -> {}));
  }

  @Test
  void visitsThatCannotBe() {
    Visit<String, Long, String> other = Visit.of("other", ACCOUNTS, Codecs.STRING);
    Visit<String, Long, String> wordy = Visit.of("interest", ACCOUNTS, Codecs.STRING);
    App app = bank().on("more", Codecs.STRING, Codecs.STRING, (ctx, record) -> {
      if (record.value().equals("other")) {
        other.stop(ctx);
      } else {
        wordy.start(ctx, record.value());
      }
    });
    TestKit kit = builder(app).build();
    var undeclared = assertThrows(RecordFailedException.class, () -> kit.feed("more", "a", "other"));
    assertTrue(undeclared.getMessage().contains("no visit \"other\" in the manifest; declared visits: interest"), undeclared.getMessage());
    var tooLong = assertThrows(RecordFailedException.class, () -> kit.feed("more", "a", "x".repeat(4097)));
    assertTrue(tooLong.getMessage().contains("its data has 4097 bytes, the limit is 4096"), tooLong.getMessage());
    TestKit hooked = builder(bank().onFinalize(INTEREST::stop)).build();
    var inHook = assertThrows(MillstreamException.class, () -> hooked.feed("in", at(1, "set 1")));
    assertTrue(inHook.getMessage().contains("a hook starts and stops none"), inHook.getMessage());
  }
}
