import dev.millstream.App;
import dev.millstream.Codecs;
import dev.millstream.Output;
import dev.millstream.Store;

public final class WordCount {
  static final Store<String, Long> COUNTS = Store.of("counts", Codecs.STRING, Codecs.LONG);
  static final Output<String, Long> TOTALS = Output.of("word-counts", Codecs.STRING, Codecs.json(Long.class));

  static App app() {
    return new App().on("words", Codecs.STRING, Codecs.BYTES, (ctx, word) -> {
      long n = COUNTS.getOrDefault(ctx, 0L) + 1;
      COUNTS.put(ctx, n);
      TOTALS.emit(ctx, word.key(), n);
    });
  }

  public static void main(String[] args) {
    app().main();
  }
}
