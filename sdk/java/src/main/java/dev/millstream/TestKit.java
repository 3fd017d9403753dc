package dev.millstream;

import dev.millstream.internal.BatchFrame;
import dev.millstream.internal.BatchItem;
import dev.millstream.internal.BatchItem.OpenWindow;
import dev.millstream.internal.BatchItem.Span;
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
import java.util.Set;
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
 * writes. What becomes due is handled before a call returns, and so are all rows of a visit that is started. What it does not imitate:
 * retries, partitions, and the log itself. Not thread-safe.
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
  private final KitTime time;
  private final KitVisits visits;
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
    welcome.stores = builder.stores.stream().map(name -> storePort(name, builder.rules(name))).toList();
    welcome.timers = !app.timers.isEmpty();
    welcome.visits = builder.visitPorts();
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
    time = new KitTime(builder.stores.stream().map(builder::rules).toList(), rows, offsets.length, builder.lateness.toMillis());
    visits = new KitVisits(schema.visits, rows);
  }

  private static Port storePort(String name, KitTime.Rules rules) {
    return new Port(name, name, rules.type(), MAX_BYTES, rules.size(), rules.isFinal());
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
    private final List<Visit<?, ?, ?>> visits = new ArrayList<>();
    private final Map<String, KitTime.Rules> rules = new HashMap<>();
    private Duration lateness = Duration.ZERO;
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

    private KitTime.Rules rules(String store) {
      return rules.getOrDefault(store, KitTime.Rules.KEY_VALUE);
    }

    /** Declares a store of windows that do not overlap. They are given when they close if the app has {@link App#onClose} for them. */
    public Builder windows(WindowStore<?, ?> store, Duration size, Duration grace) {
      return windows(store, size, size, grace);
    }

    /** Declares a store of windows, one beginning at every {@code advance}. */
    public Builder windows(WindowStore<?, ?> store, Duration size, Duration advance, Duration grace) {
      if (advance.toMillis() <= 0 || advance.compareTo(size) > 0) {
        throw new ConfigException("store \"" + store.name() + "\": a window needs a size above 0 and an advance of at most that");
      }
      stores.add(store.name());
      rules.put(store.name(), new KitTime.Rules("Window", size.toMillis(), advance.toMillis(), grace.toMillis(),
          app.closings.containsKey(store.name())));
      return this;
    }

    /** Declares a store of sessions. They are given when they close if the app has {@link App#onClose} for them. */
    public Builder sessions(SessionStore<?, ?> store, Duration gap, Duration grace) {
      if (gap.toMillis() <= 0) {
        throw new ConfigException("store \"" + store.name() + "\": a session needs a gap above 0");
      }
      stores.add(store.name());
      rules.put(store.name(), new KitTime.Rules("Session", gap.toMillis(), 0, grace.toMillis(),
          app.closings.containsKey(store.name())));
      return this;
    }

    /** How much later than others a record may come: event time stays so far behind the latest record. None by default. */
    public Builder lateness(Duration most) {
      lateness = most;
      return this;
    }

    /** Declares outputs. */
    public Builder outputs(Output<?, ?>... handles) {
      Arrays.stream(handles).map(Output::name).forEach(outputs::add);
      return this;
    }

    /** Declares visits; their stores are among those declared. */
    public Builder visits(Visit<?, ?, ?>... handles) {
      visits.addAll(Arrays.asList(handles));
      return this;
    }

    private List<WelcomeFrame.VisitPort> visitPorts() {
      return visits.stream().map(visit -> {
        int store = stores.indexOf(visit.store.name());
        if (store < 0) {
          throw new ConfigException("visit \"" + visit.name() + "\" walks store \"" + visit.store.name() + "\"; stores: "
              + Schema.listed(stores));
        }
        return new WelcomeFrame.VisitPort(visit.name(), store);
      }).toList();
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
      int done = feedSome(input, isTimed() ? left.subList(0, 1) : left);
      left = left.subList(done, left.size()); // all, or as many as fit one RESULT
      deliver();
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
      apply(run);
      if (run.problem() != null) {
        throw new MillstreamException("the hook for " + name + " failed: " + Failures.of(run.problem()).message(), run.problem());
      }
    }
  }

  // What a record makes due comes before the next record then.
  private boolean isTimed() {
    return !app.timers.isEmpty() || schema.stores.stream().anyMatch(store -> !store.type().equals("KeyValue"));
  }

  private int feedSome(int input, List<TestRecord> records) {
    List<OpenWindow> windows = List.of();
    if (isTimed()) {
      TestRecord record = records.get(0);
      long timestamp = record.timestamp == null ? now : record.timestamp;
      time.advance(input, timestamp);
      windows = time.open(encode(registered(input).key(), record.key), timestamp);
      if (windows == null) { // late: dropped
        offsets[input]++;
        return 1;
      }
    }
    BatchRun run = run(batch(input, records, windows));
    int done = apply(run);
    offsets[input] += done;
    if (run.problem() != null) {
      throw failed(app.inputs().get(input), offsets[input]++, run.problem());
    }
    if (!windows.isEmpty()) {
      time.done(run.frame.keys[0], windows);
    }
    return done;
  }

  private RecordFailedException failed(String input, long offset, Throwable problem) {
    Failures.Failure told = Failures.of(problem);
    var failed = new RecordFailedException(input, offset, told.type(), told.error(), told.message(), told.retriable(), problem);
    failures.add(failed);
    return failed;
  }

  // Timers and closings that are due, and rows of visits, until there are none. A handler may make more due.
  private void deliver() {
    for (int rounds = 0;; rounds++) {
      time.sweep();
      List<KitTime.Due> due = time.due(now);
      List<KitVisits.Item> visited = due.isEmpty() ? visits.next() : List.of();
      if (due.isEmpty() && visited.isEmpty()) {
        return;
      }
      if (rounds == MAX_ROUNDS) {
        throw new MillstreamException("timers make timers due, or visits start visits, " + MAX_ROUNDS + " times: they do not end");
      }
      if (due.isEmpty()) {
        visit(visited);
        continue;
      }
      KitTime.Due first = due.get(0);
      time.handled(first);
      BatchRun run = run(dueBatch(first));
      apply(run);
      if (run.problem() != null) {
        throw failed(first.timer() != null ? first.timer().name() : schema.stores.get(first.store()).name(), -1, run.problem());
      }
    }
  }

  private void visit(List<KitVisits.Item> items) {
    BatchRun run = run(visitBatch(items));
    int done = apply(run, items);
    if (run.problem() != null) {
      visits.handled(items.get(done)); // given up, as a record would be
      throw failed(schema.visits.get(items.get(done).visit()).name(), -1, run.problem());
    }
  }

  private BatchRun run(byte[] batch) {
    FrameReader r = new FrameReader(batch);
    int fields = r.fields("frame", 1) - 1;
    r.uint64("kind");
    return new BatchRun(schema, new KitLink(rows, gathered), BatchFrame.read(r, fields, schema.shape));
  }

  /** Starts a visit as a handler would, at {@link #now}, and lets it run to its end; data of null is none. */
  public <D> void visit(Visit<?, ?, D> visit, D data) {
    int id = schema.visitId(visit.name());
    if (id < 0) {
      throw new ConfigException("no visit \"" + visit.name() + "\"; visits: " + Schema.listed(schema.visitNames()));
    }
    visits.change(id, Visit.What.START, encode(visit.dataCodec, data), now);
    deliver();
  }

  /** The names of the visits that were started and have not ended: those that are paused. */
  public List<String> visits() {
    return visits.underWay();
  }

  /** The timestamp, in milliseconds since 1970, of records that are fed without one. */
  public long now() {
    return now;
  }

  /** Moves {@link #now}, and delivers timers of the wall clock that it makes due. Event time only moves with records. */
  public void advance(Duration by) {
    now += by.toMillis();
    deliver();
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

  /** The values of a key's windows that exist, by their start. */
  public <K, V> Map<Long, V> windows(WindowStore<K, V> store, K key) {
    Map<Long, V> found = new TreeMap<>();
    time.rowsOf(schema.storeIds.get(store.name()), store.rows.encodeKey(key)).forEach((span, raw) ->
        found.put(span.start(), decode(store.rows.valueCodec, raw)));
    return found;
  }

  /** The values of a key's sessions that exist, by their start; null for one without a value. */
  public <K, V> Map<Long, V> sessions(SessionStore<K, V> store, K key) {
    Map<Long, V> found = new TreeMap<>();
    time.rowsOf(schema.storeIds.get(store.name()), store.rows.encodeKey(key)).forEach((span, raw) ->
        found.put(span.start(), raw.length == 0 ? null : decode(store.rows.valueCodec, raw)));
    return found;
  }

  /** How many records were late for all their windows. */
  public int late() {
    return time.late();
  }

  /** The records, timers and windows whose handlers failed. */
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

  private Registered<?, ?> registered(int input) {
    return app.handlers.get(app.inputs().get(input));
  }

  private byte[] batch(int input, List<TestRecord> records, List<OpenWindow> windows) {
    Registered<?, ?> registered = registered(input);
    Map<Bytes, Integer> keys = new LinkedHashMap<>();
    FrameWriter items = new FrameWriter();
    for (int n = 0; n < records.size(); n++) {
      TestRecord record = records.get(n);
      items.list(windows.isEmpty() ? 8 : 9).int64(0).int64(input).int64(offsets[input] + n).int64(record.timestamp == null ? now : record.timestamp);
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
      if (!windows.isEmpty()) {
        writeWindows(items, windows);
      }
    }
    return batch(keys.keySet(), records.size(), items);
  }

  private static void writeWindows(FrameWriter w, List<OpenWindow> windows) {
    w.list(windows.size());
    for (OpenWindow window : windows) {
      w.list(window.parts() == null ? 3 : 4).int64(window.store()).int64(window.span().start()).int64(window.span().end());
      if (window.parts() != null) {
        w.list(window.parts().size());
        window.parts().forEach(part -> w.list(2).int64(part.start()).int64(part.end()));
      }
    }
  }

  private byte[] visitBatch(List<KitVisits.Item> visited) {
    FrameWriter items = new FrameWriter();
    Map<Bytes, Integer> keys = new LinkedHashMap<>();
    for (KitVisits.Item item : visited) {
      items.list(6).int64(BatchItem.VISIT).int64(item.visit());
      if (item.key() == null) {
        items.nil();
      } else {
        items.int64(keys.size());
        keys.put(item.key(), keys.size());
      }
      items.int64(item.time()).maybeBin(item.data()).int64(1);
    }
    return batch(keys.keySet(), visited.size(), items);
  }

  private byte[] dueBatch(KitTime.Due due) {
    FrameWriter items = new FrameWriter();
    if (due.timer() != null) {
      items.list(6).int64(BatchItem.TIMER).int64(0).int64(due.timer().clock()).text(due.timer().name()).int64(due.time()).int64(1);
    } else {
      items.list(7).int64(BatchItem.CLOSING).int64(due.store()).int64(0).int64(due.span().start()).int64(due.span().end());
      items.maybeBin(time.valueOf(due)).int64(1);
    }
    return batch(Set.of(due.key()), 1, items);
  }

  private byte[] batch(Set<Bytes> keys, int count, FrameWriter items) {
    FrameWriter w = Frames.begin(Kind.BATCH, 7).uint64(++seq).int64(task).int64(0).list(keys.size());
    keys.forEach(w::bin);
    byte[] encoded = items.toBytes();
    w.list(count).raw(encoded, encoded.length);
    int sent = prefetch ? rows.size() - schema.lookupIds.size() : 0; // lookups are always asked for
    w.map(sent);
    for (int store = 0; store < sent; store++) {
      w.int64(store).list(keys.size());
      for (Bytes key : keys) {
        if (time.isWindowed(store)) {
          Map<Span, Bytes> kept = time.rowsOf(store, key);
          w.list(kept.size());
          kept.forEach((span, value) -> w.list(3).int64(span.start()).int64(span.end()).bin(value));
        } else {
          w.maybeBin(rows.get(store).get(key));
        }
      }
    }
    if (time.now() == null) {
      w.nil();
    } else {
      w.int64(time.now());
    }
    return w.toBytes();
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

  private int apply(BatchRun run) {
    return apply(run, List.of());
  }

  /** Runs a batch and does what its RESULT says; how many items are done. `visited`: the items, if they are rows of a visit. */
  private int apply(BatchRun run, List<KitVisits.Item> visited) {
    FrameReader r = new FrameReader(run.run());
    int all = r.fields("RESULT", 6);
    r.uint64("kind");
    r.uint64("seq");
    int done = r.int32("done");
    visited.stream().limit(done).forEach(visits::handled);
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
    for (int count = r.more(all - 6) ? r.list("timers") : 0; count > 0; count--) {
      r.fields("timer", 4);
      Bytes key = r.bytes("key");
      Timers.Id id = new Timers.Id(r.int32("clock"), r.text("name"));
      time.set(key, id, r.isNil() ? null : (Long) r.int64("time"));
    }
    for (int count = r.more(all - 7) ? r.list("visits") : 0; count > 0; count--) {
      r.fields("visit", 3);
      int visit = r.int32("visit");
      Visit.What what = Visit.What.values()[r.int32("what")];
      visits.change(visit, what, r.maybeBytes("data"), run.frame.items[done - 1].timestamp);
    }
    r.end();
    return done;
  }
}
