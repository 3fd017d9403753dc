package app;

import dev.millstream.App;
import dev.millstream.Codecs;
import dev.millstream.Output;
import dev.millstream.Store;

/** __NAME__: counts the records of every key and emits the new count each time. */
public final class Main {
  record Count(long count) {}

  static final Store<String, Long> COUNTS = Store.of("counts", Codecs.STRING, Codecs.json(Long.class));
  static final Output<String, Count> TOTALS = Output.of("word-counts", Codecs.STRING, Codecs.json(Count.class));

  static App app() {
    return new App().on("words", Codecs.STRING, Codecs.BYTES, (ctx, word) -> {
      long n = COUNTS.getOrDefault(ctx, 0L) + 1;
      COUNTS.put(ctx, n);
      TOTALS.emit(ctx, word.key(), new Count(n));
    });
  }

  public static void main(String[] args) {
    app().main();
  }
}
