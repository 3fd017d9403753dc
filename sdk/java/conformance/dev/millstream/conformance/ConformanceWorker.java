package dev.millstream.conformance;

import dev.millstream.App;
import dev.millstream.Codecs;
import dev.millstream.Context;
import dev.millstream.EmitOptions;
import dev.millstream.Gathered;
import dev.millstream.Header;
import dev.millstream.InputRecord;
import dev.millstream.Join;
import dev.millstream.KeyRange;
import dev.millstream.Lookup;
import dev.millstream.Output;
import dev.millstream.RejectRecordException;
import dev.millstream.Row;
import dev.millstream.Store;
import dev.millstream.Table;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The conformance worker of the Java SDK: does what docs/reference/conformance.md says. */
public final class ConformanceWorker {
  static final Store<byte[], byte[]> COUNTS = Store.of("counts", Codecs.BYTES, Codecs.BYTES);
  private static final Map<String, Store<byte[], byte[]>> STORES = new HashMap<>(Map.of("counts", COUNTS));
  private static final Join<byte[], byte[]> PEOPLE = Join.of("people", Codecs.BYTES, Codecs.BYTES);
  private static final Lookup<byte[], byte[]> RATES = Lookup.of("rates", Codecs.BYTES, Codecs.BYTES);
  private static final Gathered<List<String>> GATHERED = Gathered.of(ArrayList::new);
  private static final Map<String, Output<byte[], byte[]>> OUTPUTS = new HashMap<>();

  static {
    for (String name : List.of("archive", "scripts", "nowhere")) {
      STORES.put(name, Store.of(name, Codecs.BYTES, Codecs.BYTES));
    }
    for (String name : List.of("out", "reads", "loop", "nowhere")) {
      OUTPUTS.put(name, Output.of(name, Codecs.BYTES, Codecs.BYTES));
    }
  }

  private ConformanceWorker() {}

  /** A word of a script: ~ is null, % alone is empty, %ff a byte. */
  static byte[] word(String text) {
    if (text.equals("~")) {
      return null;
    }
    if (text.equals("%")) {
      return new byte[0];
    }
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    byte[] raw = bytes(text);
    for (int at = 0; at < raw.length; at++) {
      if (raw[at] == '%') {
        out.write(Integer.parseInt(new String(raw, at + 1, 2, StandardCharsets.US_ASCII), 16));
        at += 2;
      } else {
        out.write(raw[at]);
      }
    }
    return out.toByteArray();
  }

  static String text(byte[] data) {
    return new String(data, StandardCharsets.UTF_8);
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static void emit(Context ctx, byte[] key, byte[] value) {
    OUTPUTS.get("out").emit(ctx, key, value);
  }

  private static Table<byte[], byte[]> table(String[] words) {
    return switch (words[1]) {
      case "people" -> PEOPLE;
      case "rates" -> RATES;
      default -> STORES.get(words[1]);
    };
  }

  static void show(Context ctx, byte[] key, Optional<byte[]> value) {
    OUTPUTS.get("reads").emit(ctx, key, value.orElse(null));
  }

  private static void get(Context ctx, byte[] own, String[] words) {
    Table<byte[], byte[]> store = table(words);
    if (words.length > 2) {
      byte[] key = word(words[2]);
      show(ctx, key, store.get(ctx, key));
    } else {
      show(ctx, own, store.get(ctx));
    }
  }

  private static void getMany(Context ctx, String[] words) {
    List<byte[]> keys = new ArrayList<>();
    for (int at = 2; at < words.length; at++) {
      keys.add(word(words[at]));
    }
    List<Optional<byte[]>> values = STORES.get(words[1]).getMany(ctx, keys);
    for (int at = 0; at < keys.size(); at++) {
      show(ctx, keys.get(at), values.get(at));
    }
  }

  private static void scan(Context ctx, String[] words) {
    KeyRange<byte[]> range = KeyRange.between(word(words[2]), word(words[3])).limit(Integer.parseInt(words[4]));
    for (Row<byte[], byte[]> row : table(words).scan(ctx, words[5].equals("reverse") ? range.reversed() : range)) {
      show(ctx, row.key(), Optional.of(row.value()));
    }
  }

  private static byte[] more(byte[] number) {
    return bytes(String.valueOf(Long.parseLong(text(number)) + 1));
  }

  private static void sendGathered(Context ctx) {
    for (String text : GATHERED.get(ctx)) {
      if (text.equals("fail")) {
        throw new IllegalStateException(text);
      } else if (text.startsWith("count:")) {
        byte[] key = bytes(text.substring("count:".length()));
        STORES.get("counts").put(ctx, key, more(STORES.get("counts").get(ctx, key).orElse(bytes("0"))));
      } else {
        OUTPUTS.get("out").emit(ctx, null, bytes(text));
      }
    }
  }

  private static void count(Context ctx, byte[] own, String[] words) {
    Store<byte[], byte[]> store = STORES.get(words[1]);
    byte[] more = more(store.getOrDefault(ctx, bytes("0")));
    store.put(ctx, more);
    emit(ctx, own, more);
  }

  private static void emit(Context ctx, String[] words) {
    EmitOptions options = new EmitOptions();
    if (words.length > 4 && !words[4].equals("~")) {
      options.timestamp(Long.parseLong(words[4]));
    }
    if (words.length > 5 && !words[5].equals("~")) {
      options.partition(Integer.parseInt(words[5]));
    }
    for (int at = 6; at < words.length; at++) {
      String[] header = words[at].split("=", 2);
      options.header(new Header(header[0], word(header[1])));
    }
    OUTPUTS.get(words[1]).emit(ctx, word(words[2]), word(words[3]), options);
  }

  /** {@code own}: the key of the record, the timer or the window at hand; {@code record} is null for the latter two. */
  private static void run(Context ctx, byte[] own, InputRecord<byte[], byte[]> record, String[] words) throws InterruptedException {
    if (TimeCommands.run(ctx, own, words)) {
      return;
    }
    switch (words[0]) {
      case "get", "join", "lookup" -> get(ctx, own, words);
      case "get_many" -> getMany(ctx, words);
      case "scan", "scan_table" -> scan(ctx, words);
      case "gather" -> GATHERED.get(ctx).add(text(word(words[1])));
      case "count" -> count(ctx, own, words);
      case "set" -> {
        if (words.length > 3) {
          STORES.get(words[1]).put(ctx, word(words[3]), word(words[2]));
        } else {
          STORES.get(words[1]).put(ctx, word(words[2]));
        }
      }
      case "set_size" -> STORES.get(words[1]).put(ctx, bytes("x".repeat(Integer.parseInt(words[2]))));
      case "delete" -> {
        if (words.length > 2) {
          STORES.get(words[1]).delete(ctx, word(words[2]));
        } else {
          STORES.get(words[1]).delete(ctx);
        }
      }
      case "emit" -> emit(ctx, words);
      case "emit_size" -> OUTPUTS.get(words[1]).emit(ctx, own, bytes("x".repeat(Integer.parseInt(words[2]))));
      case "info" -> OUTPUTS.get("out").emit(ctx, null, bytes(record.input() + " " + record.task() + " " + record.offset() + " "
          + record.timestamp() + " " + record.attempt()));
      case "fail" -> throw new IllegalStateException(text(word(words[1])));
      case "fail_size" -> throw new IllegalStateException("x".repeat(Integer.parseInt(words[1])));
      case "reject" -> throw new RejectRecordException(text(word(words[1])));
      case "sleep" -> Thread.sleep(Long.parseLong(words[1]));
      case "crash" -> Runtime.getRuntime().halt(3);
      default -> throw new IllegalArgumentException("no command " + words[0]);
    }
  }

  private static void runScript(Context ctx, byte[] own, InputRecord<byte[], byte[]> record, byte[] script) throws InterruptedException {
    for (String line : text(script).split("\n", -1)) {
      run(ctx, own, record, line.split(" ", -1));
    }
  }

  /** What a timer or a closing window does: the script that its key has in {@code scripts}. */
  static void runStored(Context ctx, byte[] own) throws InterruptedException {
    Optional<byte[]> script = STORES.get("scripts").get(ctx);
    if (script.isPresent()) {
      runScript(ctx, own, null, script.get());
    }
  }

  public static void main(String[] args) {
    App app = new App()
        .on("script", Codecs.BYTES, Codecs.BYTES, (ctx, record) -> runScript(ctx, record.rawKey(), record, record.value()))
        .on("echo", Codecs.BYTES, Codecs.BYTES, (ctx, record) ->
            OUTPUTS.get("out").emit(ctx, record.key(), record.value(), new EmitOptions().headers(record.headers())))
        .on("ints", Codecs.BYTES, Codecs.LONG, (ctx, record) -> emit(ctx, record.key(), bytes(String.valueOf(record.value()))));
    // Handlers of timers, say, belong to manifests with timers: the kit says what its case is about.
    List<String> needs = List.of(System.getenv().getOrDefault("CONFORMANCE_NEEDS", "").split(","));
    TimeCommands.handlers(app, needs);
    if (needs.contains("hooks")) {
      app.onBegin(ctx -> {}).onFinalize(ConformanceWorker::sendGathered).onCommitted(task -> {});
    }
    app.main();
  }
}
