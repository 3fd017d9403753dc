package app;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.millstream.TestKit;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Without a sidecar: mvn test. */
class MainTest {
  @Test
  void countsPerKey() {
    TestKit kit = TestKit.of(Main.app()).stores(Main.COUNTS).outputs(Main.TOTALS).build();
    for (String word : List.of("tea", "milk", "tea")) {
      kit.feed("words", word, null);
    }
    assertEquals(Optional.of(2L), kit.state(Main.COUNTS, "tea"));
    assertEquals(List.of("tea 1", "milk 1", "tea 2"), kit.outputs(Main.TOTALS).stream().map(o -> o.key() + " " + o.value().count()).toList());
  }
}
