import dev.millstream.App;
import dev.millstream.Codecs;
import dev.millstream.EmitOptions;
import dev.millstream.Output;
import dev.millstream.Store;
import java.time.Instant;
import java.time.temporal.ChronoUnit;

public final class HourlyAverage {
  record Reading(double celsius) {}

  record Sum(long n, double celsius) {}

  static final Store<String, Sum> SUMS = Store.of("sums", Codecs.STRING, Codecs.json(Sum.class));
  static final Output<String, Double> AVERAGES = Output.of("averages", Codecs.STRING, Codecs.json(Double.class));

  static App app() {
    return new App().on("readings", Codecs.STRING, Codecs.json(Reading.class), (ctx, reading) -> {
      Instant hour = reading.time().truncatedTo(ChronoUnit.HOURS);
      String bucket = reading.key() + "@" + hour;
      Sum before = SUMS.get(ctx, bucket).orElse(new Sum(0, 0));
      Sum sum = new Sum(before.n() + 1, before.celsius() + reading.value().celsius());
      SUMS.put(ctx, bucket, sum);
      AVERAGES.emit(ctx, reading.key(), sum.celsius() / sum.n(), new EmitOptions().header("hour", hour.toString()));
    });
  }

  public static void main(String[] args) {
    app().main();
  }
}
