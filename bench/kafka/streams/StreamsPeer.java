import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The benchmark's program on Kafka Streams: counts records per key, or keeps the last value of a key, in a RocksDB store with a changelog,
 * and emits one output for each input.
 *
 * <p>java StreamsPeer TASK INPUT OUTPUT NAME=VALUE.. : TASK is count or keep, the rest are properties of Kafka Streams. On standard output,
 * one line each: STATE of the instance, RESTORED records of a changelog partition. Ends on SIGTERM.
 */
public final class StreamsPeer {
  public static void main(String[] args) throws Exception {
    Properties properties = new Properties();
    for (int i = 3; i < args.length; ++i) {
      int equals = args[i].indexOf('=');
      properties.put(args[i].substring(0, equals), args[i].substring(equals + 1));
    }
    KafkaStreams streams = new KafkaStreams(topology(args[0], args[1], args[2]).build(properties), properties);
    streams.setStateListener((now, before) -> say("STATE " + now));
    streams.setGlobalStateRestoreListener(new Restores());
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }

  private static StreamsBuilder topology(String task, String input, String output) {
    StreamsBuilder builder = new StreamsBuilder();
    KGroupedStream<Bytes, byte[]> records =
        builder.stream(input, Consumed.with(Serdes.Bytes(), Serdes.ByteArray())).groupByKey();
    KTable<Bytes, byte[]> results;
    if (task.equals("count")) {
      results = records
          .count(Materialized.<Bytes, Long, KeyValueStore<Bytes, byte[]>>as("state").withKeySerde(Serdes.Bytes()).withCachingDisabled())
          .mapValues(count -> Long.toString(count).getBytes(StandardCharsets.US_ASCII));
    } else {
      results = records.reduce((before, value) -> value,
          Materialized.<Bytes, byte[], KeyValueStore<Bytes, byte[]>>as("state").withKeySerde(Serdes.Bytes())
              .withValueSerde(Serdes.ByteArray()).withCachingDisabled())
          .mapValues(value -> Integer.toString(value.length).getBytes(StandardCharsets.US_ASCII));
    }
    results.toStream().to(output, Produced.with(Serdes.Bytes(), Serdes.ByteArray()));
    return builder;
  }

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  /** When the restores began and ended, and how much they read. */
  private static final class Restores implements StateRestoreListener {
    @Override
    public void onRestoreStart(TopicPartition partition, String store, long from, long to) {
      say("RESTORING " + System.currentTimeMillis() + " " + partition + " " + (to - from));
    }

    @Override
    public void onBatchRestored(TopicPartition partition, String store, long offset, long count) {}

    @Override
    public void onRestoreEnd(TopicPartition partition, String store, long total) {
      say("RESTORED " + System.currentTimeMillis() + " " + partition + " " + total);
    }
  }
}
