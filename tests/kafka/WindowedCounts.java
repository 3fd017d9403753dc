import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.SessionStore;

/**
 * Counts per key in tumbling windows, hopping windows and sessions (also such that are kept for longer), as a user of Kafka Streams writes
 * them; what test_streams_windows.py compares Millstream with.
 *
 * <p>java WindowedCounts INPUT OUTPUT SIZE ADVANCE GAP GRACE RETENTION NAME=VALUE.. : times in milliseconds, the rest are properties of Kafka
 * Streams. Each change of a window is a record KIND|KEY|START|END with its count, a tombstone for a session that became part of another;
 * when the window is over, another one of the kind KIND-closed. Ends on SIGTERM.
 */
public final class WindowedCounts {
  private static final Serde<String> TEXT = Serdes.String();

  public static void main(String[] args) {
    Duration size = millis(args[2]);
    Duration advance = millis(args[3]);
    Duration gap = millis(args[4]);
    Duration grace = millis(args[5]);
    Duration retention = millis(args[6]);
    Properties properties = new Properties();
    for (int i = 7; i < args.length; ++i) {
      int equals = args[i].indexOf('=');
      properties.put(args[i].substring(0, equals), args[i].substring(equals + 1));
    }
    StreamsBuilder builder = new StreamsBuilder();
    KGroupedStream<String, byte[]> records = builder.stream(args[0], Consumed.with(TEXT, Serdes.ByteArray())).groupByKey();
    KTable<Windowed<String>, Long> tumbling = records.windowedBy(TimeWindows.ofSizeAndGrace(size, grace)).count();
    KTable<Windowed<String>, Long> hopping = records.windowedBy(TimeWindows.ofSizeAndGrace(size, grace).advanceBy(advance)).count();
    SessionWindowedKStream<String, byte[]> sessions = records.windowedBy(SessionWindows.ofInactivityGapAndGrace(gap, grace));
    send("tumbling", tumbling, args[1]);
    send("tumbling-closed", closed(tumbling), args[1]);
    send("hopping", hopping, args[1]);
    send("hopping-closed", closed(hopping), args[1]);
    send("sessions", sessions.count(), args[1]);
    send("kept-sessions",
        sessions.count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("kept").withKeySerde(TEXT).withRetention(retention)), args[1]);
    KafkaStreams streams = new KafkaStreams(builder.build(properties), properties);
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }

  private static Duration millis(String text) {
    return Duration.ofMillis(Long.parseLong(text));
  }

  private static KTable<Windowed<String>, Long> closed(KTable<Windowed<String>, Long> counts) {
    return counts.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded().withLoggingDisabled()));
  }

  private static void send(String kind, KTable<Windowed<String>, Long> counts, String output) {
    counts.toStream()
        .map((window, count) -> KeyValue.pair(
            kind + "|" + window.key() + "|" + window.window().start() + "|" + window.window().end(),
            count == null ? null : Long.toString(count)))
        .to(output, Produced.with(TEXT, TEXT));
  }
}
