import dev.millstream.App;
import dev.millstream.Codecs;
import dev.millstream.EmitOptions;
import dev.millstream.Output;
import dev.millstream.Window;
import dev.millstream.WindowStore;
import java.time.Instant;

public final class HourlyAverage {
  record Reading(double celsius) {}

  record Sum(long n, double celsius) {}

  static final WindowStore<String, Sum> HOURS = WindowStore.of("hours", Codecs.STRING, Codecs.json(Sum.class));
  static final Output<String, Double> AVERAGES = Output.of("averages", Codecs.STRING, Codecs.json(Double.class));

  static App app() {
    return new App().on("readings", Codecs.STRING, Codecs.json(Reading.class), (ctx, reading) -> {
      for (Window<String, Sum> hour : HOURS.windows(ctx)) {
        Sum before = hour.getOrDefault(new Sum(0, 0));
        Sum sum = new Sum(before.n() + 1, before.celsius() + reading.value().celsius());
        hour.put(sum);
        EmitOptions options = new EmitOptions().header("hour", Instant.ofEpochMilli(hour.start()).toString());
        AVERAGES.emit(ctx, reading.key(), sum.celsius() / sum.n(), options);
      }
    });
  }

  public static void main(String[] args) {
    app().main();
  }
}
