import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** Partitions as the Java client's default partitioner chooses them for records with a key. */
public class KafkaClient {
  public static void main(String[] args) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    StringBuilder out = new StringBuilder();
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] parts = line.split(" ", -1);
      out.append(BuiltInPartitioner.partitionForKey(HexFormat.of().parseHex(parts[0]), Integer.parseInt(parts[1]))).append('\n');
    }
    System.out.print(out);
  }
}
