import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.millstream.Header;
import dev.millstream.TestKit;
import dev.millstream.TestOutput;
import dev.millstream.TestRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** The README's programs do what it says, and are the files of examples/. */
class ExamplesTest {
  @Test
  void aStatelessMap() {
    TestKit kit = TestKit.of(Cents.app()).outputs(Cents.CENTS).build();
    Header one = Header.of("h", "1");
    Header none = new Header("h", null);
    kit.feedBatch("orders", TestRecord.of("a", new Cents.Order(1.25)).header(one).header(none), TestRecord.of("a", new Cents.Order(0)));
    assertEquals(List.of(new TestOutput<>("a", 125L, List.of(one, none), kit.now(), null)), kit.outputs(Cents.CENTS));
  }

  @Test
  void aKeyedCount() {
    TestKit kit = TestKit.of(WordCount.app()).stores(WordCount.COUNTS).outputs(WordCount.TOTALS).build();
    byte[] notText = {(byte) 0xff};
    for (Object word : List.of("x", "y", notText, "x", notText)) {
      kit.feed("words", word, null);
    }
    assertEquals(Optional.of(2L), kit.state(WordCount.COUNTS, "x"));
    assertEquals(Optional.of(1L), kit.state(WordCount.COUNTS, "y"));
    assertEquals(Optional.of(2L), kit.state(WordCount.COUNTS, "\udcff"));
    assertEquals(List.of("x1", "y1", "\udcff1", "x2", "\udcff2"),
        kit.outputs(WordCount.TOTALS).stream().map(out -> out.key() + out.value()).toList());
  }

  @Test
  void aWindowedAggregate() {
    // As in the README.
    TestKit kit = TestKit.of(HourlyAverage.app())
        .windows(HourlyAverage.HOURS, Duration.ofHours(1), Duration.ofMinutes(5))
        .outputs(HourlyAverage.AVERAGES)
        .build();
    kit.feed("readings", "s", new HourlyAverage.Reading(10));
    kit.feed("readings", "s", new HourlyAverage.Reading(20));
    kit.advance(Duration.ofHours(1));
    kit.feed("readings", "s", new HourlyAverage.Reading(5));
    assertEquals(List.of("10.0 2023-11-14T22:00:00Z", "15.0 2023-11-14T22:00:00Z", "5.0 2023-11-14T23:00:00Z"),
        kit.outputs(HourlyAverage.AVERAGES).stream().map(out -> out.value() + " " + out.headers().get(0).text()).toList());
    assertEquals(new HourlyAverage.Sum(1, 5), kit.windows(HourlyAverage.HOURS, "s").get(Instant.parse("2023-11-14T23:00:00Z").toEpochMilli()));
  }

  @Test
  void theReadmeShowsTheExamples() throws IOException {
    Matcher samples = Pattern.compile("<!-- sample: (\\w+) -->\n```java\n(.*?)```", Pattern.DOTALL).matcher(Files.readString(Path.of("README.md")));
    List<String> names = new ArrayList<>();
    while (samples.find()) {
      names.add(samples.group(1));
      assertEquals(Files.readString(Path.of("examples", samples.group(1) + ".java")), samples.group(2));
    }
    assertEquals(List.of("Cents", "WordCount", "HourlyAverage"), names);
  }
}
