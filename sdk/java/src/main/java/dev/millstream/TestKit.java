package dev.millstream;

import dev.millstream.internal.BatchFrame;
import dev.millstream.internal.Bytes;
import dev.millstream.internal.FrameReader;
import dev.millstream.internal.FrameWriter;
import dev.millstream.internal.Frames;
import dev.millstream.internal.Kind;
import dev.millstream.internal.WelcomeFrame;
import dev.millstream.internal.WelcomeFrame.Port;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * One task of a processor in memory: feed records to an {@link App}, look at state and outputs. No sidecar needed.
 *
 * <pre>{@code
 * TestKit kit = TestKit.of(WordCount.app()).stores(WordCount.COUNTS).outputs(WordCount.TOTALS).build();
 * kit.feed("words", "anna", "hello");
 * assertEquals(Optional.of(1L), kit.state(WordCount.COUNTS, "anna"));
 * }</pre>
 *
 * <p>Records go through the same code as in production, as frames of the worker protocol: codecs, limits, the prefix rule, reads of own
 * writes. What it does not imitate: retries, partitions, and the log itself. Not thread-safe.
 */
public final class TestKit {
  private static final long START = 1_700_000_000_000L;
  private static final int MAX_BYTES = 1 << 20;
  /** A loop that is still not empty after so many batches is taken for an endless one. */
  private static final int MAX_ROUNDS = 10_000;
  private static final long MAX_TIMESTAMP = 253_402_300_799_999L; // the year 9999

  private final App app;
  private final int task;
  private final boolean prefetch;
  private final Schema schema;
  private final List<TreeMap<Bytes, Bytes>> rows = new ArrayList<>(); // per store, join and lookup
  private final List<List<TestOutput<Bytes, Bytes>>> emitted = new ArrayList<>(); // per output
  private final long[] offsets; // per input
  private final Map<Gathered<?>, Object> gathered = new HashMap<>();
  private List<TestRecord> looping = new ArrayList<>(); // sent to the loop and not handled yet
  private final List<RecordFailedException> failures = new ArrayList<>();
  private long now = START;
  private long seq;

  private TestKit(Builder builder) {
    app = builder.app;
    task = builder.task;
    prefetch = builder.prefetch;
    if (app.inputs().isEmpty()) {
      throw new ConfigException("the program has no handler");
    }
    WelcomeFrame welcome = new WelcomeFrame();
    welcome.version = Kind.MAX_VERSION;
    welcome.processor = "test";
    welcome.inputs = ports(app.inputs());
    welcome.outputs = ports(builder.outputs);
    welcome.stores = ports(builder.stores);
    welcome.joins = ports(builder.joins);
    welcome.lookups = ports(builder.lookups);
    welcome.capabilities = app.capabilities();
    welcome.maxTimestamp = MAX_TIMESTAMP;
    schema = new Schema(welcome, app);
    for (int id = 0; id < schema.readable(); id++) {
      rows.add(new TreeMap<>());
    }
    builder.outputs.forEach(output -> emitted.add(new ArrayList<>()));
    offsets = new long[app.inputs().size()];
  }

  private static List<Port> ports(List<String> names) {
    return names.stream().map(name -> new Port(name, name, "KeyValue", MAX_BYTES)).toList();
  }

  /** Begins a kit for an app; its inputs are those with handlers. */
  public static Builder of(App app) {
    return new Builder(app);
  }

  /** What a manifest would declare. */
  public static final class Builder {
    private final App app;
    private final List<String> stores = new ArrayList<>();
    private final List<String> outputs = new ArrayList<>();
    private final List<String> joins = new ArrayList<>();
    private final List<String> lookups = new ArrayList<>();
    private int task;
    private boolean prefetch = true;

    private Builder(App app) {
      this.app = app;
    }

    /** Declares stores. */
    public Builder stores(Store<?, ?>... handles) {
      Arrays.stream(handles).map(Store::name).forEach(stores::add);
      return this;
    }

    /** Declares outputs. */
    public Builder outputs(Output<?, ?>... handles) {
      Arrays.stream(handles).map(Output::name).forEach(outputs::add);
      return this;
    }

    /** Declares joins; {@link TestKit#setState} fills them. */
    public Builder joins(Join<?, ?>... handles) {
      Arrays.stream(handles).map(Join::name).forEach(joins::add);
      return this;
    }

    /** Declares lookups; {@link TestKit#setState} fills them. */
    public Builder lookups(Lookup<?, ?>... handles) {
      Arrays.stream(handles).map(Lookup::name).forEach(lookups::add);
      return this;
    }

    /** The number that handlers see; 0 by default. */
    public Builder task(int number) {
      task = number;
      return this;
    }

    /** false makes every read of state a question to the sidecar, as for values too large to travel along. */
    public Builder prefetch(boolean sendAlong) {
      prefetch = sendAlong;
      return this;
    }

    /**
     * The kit.
     *
     * @throws ConfigException if the app has no handler
     */
    public TestKit build() {
      return new TestKit(this);
    }
  }

  // -- in

  /** Feeds one record as a batch of its own; see {@link TestRecord#of} for key and value, {@link #feedBatch} for failures. */
  public void feed(String input, Object key, Object value) {
    feedBatch(input, TestRecord.of(key, value));
  }

  /** Feeds one record as a batch of its own; see {@link #feedBatch} for failures. */
  public void feed(String input, TestRecord record) {
    feedBatch(input, record);
  }

  /**
   * Feeds records as one batch, in this order, and a transaction of their own where the program has hooks. What they emit to the loop follows
   * as further batches until nothing comes back.
   *
   * @throws RecordFailedException for a record whose handler failed: what came before it is kept, what comes after it was not handled
   */
  public void feedBatch(String input, TestRecord... records) {
    int id = app.inputs().indexOf(input);
    if (id < 0) {
      throw new ConfigException("no input \"" + input + "\"; inputs: " + Schema.listed(app.inputs()));
    }
    transaction(id, List.of(records));
    for (int rounds = 0; !looping.isEmpty(); rounds++) {
      if (rounds == MAX_ROUNDS) {
        throw new MillstreamException("records came back through the loop " + MAX_ROUNDS + " times: the loop does not end");
      }
      List<TestRecord> back = looping;
      looping = new ArrayList<>();
      transaction(app.inputs().indexOf(Output.LOOP), back);
    }
  }

  private void transaction(int input, List<TestRecord> records) {
    hook("begin", app.begin);
    List<TestRecord> left = records;
    while (!left.isEmpty()) {
      int done = feedSome(input, left);
      left = left.subList(done, left.size()); // all, or as many as fit one RESULT
    }
    hook("finalize", app.finalizing);
    if (app.committed != null) {
      app.committed.accept(task);
    }
  }

  // One that fails fails the test: in production the transaction would be aborted and tried again.
  private void hook(String name, Hook hook) {
    if (hook != null) {
      BatchFrame frame = BatchFrame.empty(++seq, task, rows.size());
      BatchRun run = new BatchRun(schema, new KitLink(rows, gathered), frame, new BatchRun.HookCall(name, hook));
      apply(new FrameReader(run.run()));
      if (run.problem() != null) {
        throw new MillstreamException("the hook for " + name + " failed: " + Failures.of(run.problem()).message(), run.problem());
      }
    }
  }

  private int feedSome(int input, List<TestRecord> records) {
    FrameReader r = new FrameReader(batch(input, records));
    int fields = r.fields("frame", 1) - 1;
    r.uint64("kind");
    BatchRun run = new BatchRun(schema, new KitLink(rows, gathered), BatchFrame.read(r, fields, rows.size(), offsets.length));
    int done = apply(new FrameReader(run.run()));
    offsets[input] += done;
    if (run.problem() != null) {
      Failures.Failure told = Failures.of(run.problem());
      var failed = new RecordFailedException(app.inputs().get(input), offsets[input]++, told.type(), told.error(), told.message(),
          told.retriable(), run.problem());
      failures.add(failed);
      throw failed;
    }
    return done;
  }

  /** The timestamp, in milliseconds since 1970, of records that are fed without one. */
  public long now() {
    return now;
  }

  /** Moves {@link #now}. */
  public void advance(Duration time) {
    now += time.toMillis();
  }

  /** Prepares a test: a store's state, or what the topic of a join or lookup says. */
  public <K, V> void setState(Table<K, V> table, K key, V value) {
    rowsOf(table).put(table.encodeKey(key), table.encodeValue(value));
  }

  // -- out

  /** The committed value of a key. */
  public <K, V> Optional<V> state(Table<K, V> store, K key) {
    Bytes raw = store.encodeKey(key);
    Bytes value = rowsOf(store).get(raw);
    return value == null ? Optional.empty() : Optional.of(store.decode(raw, value));
  }

  /** All committed rows of a store, in the order of the keys' bytes. */
  public <K, V> List<Row<K, V>> rows(Table<K, V> store) {
    List<Row<K, V>> decoded = new ArrayList<>();
    rowsOf(store).forEach((key, value) -> decoded.add(new Row<>(decode(store.keyCodec, key), decode(store.valueCodec, value))));
    return decoded;
  }

  /** What was emitted to an output so far, in order. */
  public <K, V> List<TestOutput<K, V>> outputs(Output<K, V> output) {
    List<TestOutput<K, V>> decoded = new ArrayList<>();
    for (TestOutput<Bytes, Bytes> raw : emittedTo(output)) {
      decoded.add(new TestOutput<>(decode(output.keyCodec, raw.key()), decode(output.valueCodec, raw.value()), raw.headers(),
          raw.timestamp(), raw.partition()));
    }
    return decoded;
  }

  /** As {@link #outputs}, and forgets them, so that the next call shows only newer ones. */
  public <K, V> List<TestOutput<K, V>> take(Output<K, V> output) {
    List<TestOutput<K, V>> taken = outputs(output);
    emittedTo(output).clear();
    return taken;
  }

  /** The records whose handlers failed. */
  public List<RecordFailedException> failures() {
    return List.copyOf(failures);
  }

  private static <T> T decode(Codec<T> codec, Bytes raw) {
    return raw == null ? null : codec.decode(raw.array, raw.offset, raw.length);
  }

  private List<TestOutput<Bytes, Bytes>> emittedTo(Output<?, ?> output) {
    Integer id = schema.outputIds.get(output.name());
    if (id == null) {
      throw new ConfigException("no output \"" + output.name() + "\"; outputs: " + Schema.listed(schema.outputIds.keySet()));
    }
    return emitted.get(id);
  }

  private TreeMap<Bytes, Bytes> rowsOf(Table<?, ?> table) {
    Map<String, Integer> ids = table.ids(schema);
    Integer id = ids.get(table.name());
    if (id == null) {
      throw new ConfigException("no " + table.place() + "; " + table.what() + "s: " + Schema.listed(ids.keySet()));
    }
    return rows.get(id);
  }

  // -- the sidecar's part

  private byte[] batch(int input, List<TestRecord> records) {
    Registered<?, ?> registered = app.handlers.get(app.inputs().get(input));
    Map<Bytes, Integer> keys = new LinkedHashMap<>();
    FrameWriter items = new FrameWriter();
    for (int n = 0; n < records.size(); n++) {
      TestRecord record = records.get(n);
      items.list(8).int64(0).int64(input).int64(offsets[input] + n).int64(record.timestamp == null ? now : record.timestamp);
      Bytes key = encode(registered.key(), record.key);
      if (key == null) {
        items.nil();
      } else {
        keys.putIfAbsent(key, keys.size());
        items.int64(keys.get(key));
      }
      items.maybeBin(encode(registered.value(), record.value));
      Output.writeHeaders(items, record.headers);
      items.int64(1);
    }
    FrameWriter w = Frames.begin(Kind.BATCH, 7).uint64(++seq).int64(task).int64(0).list(keys.size());
    keys.keySet().forEach(w::bin);
    byte[] encoded = items.toBytes();
    w.list(records.size()).raw(encoded, encoded.length);
    int sent = prefetch ? rows.size() - schema.lookupIds.size() : 0; // lookups are always asked for
    w.map(sent);
    for (int store = 0; store < sent; store++) {
      w.int64(store).list(keys.size());
      for (Bytes key : keys.keySet()) {
        w.maybeBin(rows.get(store).get(key));
      }
    }
    return w.nil().toBytes();
  }

  @SuppressWarnings("unchecked") // a value of another type is the test's mistake, and says so
  private static <T> Bytes encode(Codec<T> codec, Object value) {
    if (value == null || value instanceof byte[]) {
      return Bytes.of((byte[]) value);
    }
    try {
      return Bytes.of(codec.encode((T) value));
    } catch (ClassCastException e) {
      throw new IllegalArgumentException("the codec of " + codec.name() + " does not take a " + value.getClass().getName(), e);
    }
  }

  /** Reads a RESULT; how many items are done. */
  private int apply(FrameReader r) {
    r.fields("RESULT", 6);
    r.uint64("kind");
    r.uint64("seq");
    int done = r.int32("done");
    r.skip(1); // the failure is known as what was thrown
    for (int stores = r.map("ops"); stores > 0; stores--) {
      TreeMap<Bytes, Bytes> of = rows.get(r.int32("store"));
      for (int ops = r.list("ops"); ops > 0; ops--) {
        r.fields("op", 2);
        Bytes key = r.bytes("key");
        Bytes value = r.maybeBytes("value");
        if (value == null) {
          of.remove(key);
        } else {
          of.put(key, value);
        }
      }
    }
    for (int count = r.list("outputs"); count > 0; count--) {
      int fields = r.fields("output", 4);
      int id = r.int32("output");
      Bytes key = r.maybeBytes("key");
      Bytes value = r.maybeBytes("value");
      Long timestamp = r.isNil() ? null : (Long) r.int64("timestamp");
      List<Header> headers = List.of();
      int from = r.position();
      if (r.more(fields - 4)) {
        r.skip(1);
        headers = BatchFrame.headers(r.since(from), Header::new);
      }
      Integer partition = r.more(fields - 5) ? (Integer) r.int32("partition") : null;
      emitted.get(id).add(new TestOutput<>(key, value, headers, timestamp, partition));
      if (schema.outputs.get(id).name().equals(Output.LOOP)) {
        TestRecord back = TestRecord.of(key.toArray(), value == null ? null : value.toArray()).timestamp(timestamp == null ? now : timestamp);
        headers.forEach(back::header);
        looping.add(back);
      }
    }
    r.end();
    return done;
  }
}
