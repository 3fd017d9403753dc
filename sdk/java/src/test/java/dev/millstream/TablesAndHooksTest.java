package dev.millstream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Joins, lookups, the loop and the hooks, in a test kit. */
class TablesAndHooksTest {
  private static final Join<String, String> CUSTOMERS = Join.of("customers", Codecs.STRING, Codecs.STRING);
  private static final Lookup<String, Long> RATES = Lookup.of("rates", Codecs.STRING, Codecs.LONG);
  private static final Store<String, Long> TOTALS = Store.of("totals", Codecs.STRING, Codecs.LONG);
  private static final Output<String, Long> LOOP = Output.of("loop", Codecs.STRING, Codecs.LONG);
  private static final Output<String, String> SPENT = Output.of("spent", Codecs.STRING, Codecs.STRING);

  /** An order has the customer as its key and "amount currency" as its value. */
  private static App shop() {
    return new App()
        .on("orders", Codecs.STRING, Codecs.STRING, (ctx, order) -> {
          String[] words = order.value().split(" ");
          LOOP.emit(ctx, order.key(), Long.parseLong(words[0]) * RATES.get(ctx, words[1]).orElse(1L));
        })
        .on("loop", Codecs.STRING, Codecs.LONG, (ctx, amount) -> {
          long spent = TOTALS.getOrDefault(ctx, 0L) + amount.value();
          TOTALS.put(ctx, spent);
          SPENT.emit(ctx, amount.key(), CUSTOMERS.get(ctx).orElse("?") + " " + spent);
        });
  }

  @Test
  void tablesAreReadAndWhatIsSentToTheLoopComesBack() {
    for (boolean prefetch : new boolean[] {true, false}) {
      TestKit kit = TestKit.of(shop()).stores(TOTALS).outputs(SPENT, LOOP).joins(CUSTOMERS).lookups(RATES).prefetch(prefetch).build();
      kit.setState(RATES, "usd", 2L);
      kit.setState(CUSTOMERS, "anna", "Anna");
      kit.feedBatch("orders", TestRecord.of("anna", "3 usd"), TestRecord.of("bob", "5 eur"));
      kit.feed("orders", TestRecord.of("anna", "1 usd").timestamp(1234));
      assertEquals(List.of(new Row<>("anna", 8L), new Row<>("bob", 5L)), kit.rows(TOTALS));
      assertEquals(List.of("Anna 6", "? 5", "Anna 8"), kit.outputs(SPENT).stream().map(TestOutput::value).toList());
      assertEquals(1234L, kit.outputs(SPENT).get(2).timestamp());
      assertEquals(List.of("anna", "bob", "anna"), kit.outputs(LOOP).stream().map(TestOutput::key).toList());
    }
  }

  @Test
  void lookupsAreScanned() {
    List<Object> seen = new ArrayList<>();
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {
      RATES.scan(ctx, KeyRange.<String>between("b", null).reversed()).forEach(row -> seen.add(row.key() + row.value()));
      seen.addAll(RATES.getMany(ctx, List.of("a", "x")));
    });
    TestKit kit = TestKit.of(app).lookups(RATES).build();
    for (long n = 0; n < 6; n++) {
      kit.setState(RATES, "abcdef".substring((int) n, (int) n + 1), n);
    }
    kit.feed("in", null, "");
    assertEquals(List.of("f5", "e4", "d3", "c2", "b1", Optional.of(0L), Optional.empty()), seen);
  }

  @Test
  void tablesThatAreNotDeclared() {
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> CUSTOMERS.get(ctx));
    RecordFailedException failed = assertThrows(RecordFailedException.class, () -> TestKit.of(app).build().feed("in", "a", ""));
    assertTrue(failed.getMessage().contains("no join \"customers\" in the manifest; declared joins: none. Add it under spec.joins"),
        failed.getMessage());
    TestKit kit = TestKit.of(app).joins(CUSTOMERS).build();
    assertTrue(assertThrows(RecordFailedException.class, () -> kit.feed("in", null, "")).getCause() instanceof NoKeyException);
    assertTrue(assertThrows(ConfigException.class, () -> kit.state(RATES, "a")).getMessage().contains("lookups: none"));
  }

  @Test
  void aRecordForTheLoopHasAKeyAndNoPartition() {
    for (Handler<String, String> send : List.<Handler<String, String>>of((ctx, record) -> LOOP.emit(ctx, null, 1L),
        (ctx, record) -> LOOP.emit(ctx, "a", 1L, new EmitOptions().partition(0)))) {
      TestKit kit = TestKit.of(new App().on("in", Codecs.STRING, Codecs.STRING, send)).outputs(LOOP).build();
      RecordFailedException failed = assertThrows(RecordFailedException.class, () -> kit.feed("in", "a", ""));
      assertEquals("Output false", failed.failureClass() + " " + failed.retriable());
    }
  }

  @Test
  void aLoopThatDoesNotEndIsFound() {
    App app = new App().on("loop", Codecs.STRING, Codecs.LONG, (ctx, record) -> LOOP.emit(ctx, record.key(), record.value()));
    TestKit kit = TestKit.of(app).outputs(LOOP).build();
    assertTrue(assertThrows(MillstreamException.class, () -> kit.feed("loop", "a", 1L)).getMessage().contains("does not end"));
  }

  @Test
  void whatIsGatheredGoesOutAtFinalize() {
    Gathered<Map<String, Long>> clicks = Gathered.of(HashMap::new);
    List<String> told = new ArrayList<>();
    App app = new App()
        .on("clicks", Codecs.STRING, Codecs.STRING, (ctx, click) -> clicks.get(ctx).merge(click.key(), 1L, Long::sum))
        .onBegin(ctx -> told.add("begin " + ctx.task() + " " + clicks.get(ctx)))
        .onFinalize(ctx -> clicks.get(ctx).forEach((key, n) -> {
          TOTALS.put(ctx, key, TOTALS.get(ctx, key).orElse(0L) + n);
          SPENT.emit(ctx, key, String.valueOf(n));
        }))
        .onCommitted(task -> told.add("committed " + task));
    TestKit kit = TestKit.of(app).task(7).stores(TOTALS).outputs(SPENT).build();
    kit.feedBatch("clicks", TestRecord.of("a", ""), TestRecord.of("b", ""), TestRecord.of("a", ""));
    kit.feed("clicks", "a", "");
    assertEquals(List.of(new Row<>("a", 3L), new Row<>("b", 1L)), kit.rows(TOTALS));
    assertEquals(List.of("a2", "b1", "a1"), kit.outputs(SPENT).stream().map(out -> out.key() + out.value()).toList());
    assertEquals(List.of("begin 7 {}", "committed 7", "begin 7 {}", "committed 7"), told);
  }

  @Test
  void aHookThatFailsHasNoEffectsAndNoDefaultKey() {
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {}).onFinalize(ctx -> {
      SPENT.emit(ctx, ctx.input(), "1");
      TOTALS.get(ctx);
    });
    TestKit kit = TestKit.of(app).stores(TOTALS).outputs(SPENT).build();
    assertTrue(assertThrows(MillstreamException.class, () -> kit.feed("in", "a", "")).getCause() instanceof NoKeyException);
    assertEquals(List.of(), kit.outputs(SPENT));
    assertThrows(ConfigException.class, () -> app.onFinalize(ctx -> {}));
  }
}
