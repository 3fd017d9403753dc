package dev.millstream.internal;

import java.util.ArrayList;
import java.util.List;

/** An item of a BATCH: a record, a timer that is due, a window that closes, or a row that is visited. */
public final class BatchItem {
  public static final int RECORD = 0;
  public static final int TIMER = 1;
  public static final int CLOSING = 2;
  public static final int VISIT = 3;

  /** Ids that WELCOME declared: how many inputs, the types of the stores, whether there are timers, how many visits. */
  public record Shape(int inputs, List<String> stores, int readable, boolean timers, int visits, boolean anyWindows) {
    public Shape(int inputs, List<String> stores, int readable, boolean timers, int visits) {
      this(inputs, stores, readable, timers, visits, stores.stream().anyMatch(type -> !type.equals("KeyValue")));
    }

    public boolean isWindowed(int store) {
      return store < stores.size() && !stores.get(store).equals("KeyValue");
    }
  }

  /** Bounds of a window or a session, in milliseconds since 1970. */
  public record Span(long start, long end) {}

  /** An open window of a record; `parts` is null for a window, for a session the ones that it is made of. */
  public record OpenWindow(int store, Span span, List<Span> parts) {}

  public int kind = RECORD;
  public int input;
  /** An index in the batch's keys; -1 is a record without a key, or the end of a visit. */
  public int keyIndex;
  public int attempt = 1;
  public long offset = -1;
  /** The default time of outputs: of a record, of a timer, the last moment of a window or session that closes, the start of a visit. */
  public long timestamp;
  /** null for a tombstone; of a visit what it was started with, null for nothing. */
  public Bytes value;
  /** Checked, but read only when asked for; null for none. */
  public Bytes headers;
  public List<OpenWindow> windows = List.of();
  /** Of a timer. */
  public int clock;
  public String name;
  /** Of a row that is visited. */
  public int visit;
  /** Of a window or session that closes. */
  public int store;
  public Span span;

  static BatchItem read(FrameReader r, int keys, Shape shape) {
    int count = r.fields("BATCH item", 1);
    long kind = r.int64("BATCH item");
    BatchItem item = new BatchItem();
    if (kind == RECORD) {
      item.readRecord(r, count, shape);
    } else if (kind == TIMER && shape.timers) {
      item.readTimer(r, count);
    } else if (kind == CLOSING) {
      item.readClosing(r, count, shape);
    } else if (kind == VISIT) {
      item.readVisited(r, count, shape);
    } else {
      throw FrameReader.bad("BATCH has an item of kind " + kind + ", which is not supported, or not declared");
    }
    boolean mayLackKey = kind == RECORD || kind == VISIT;
    if (item.keyIndex >= keys || item.keyIndex < 0 && !mayLackKey) {
      throw FrameReader.bad("BATCH names key " + item.keyIndex + ", it has " + keys);
    }
    return item;
  }

  private static int least(int count, int least, String what) {
    if (count < least) {
      throw FrameReader.bad("BATCH has a " + what + " with " + count + " fields, at least " + least + " are needed");
    }
    return count - least;
  }

  private void readRecord(FrameReader r, int count, Shape shape) {
    int left = least(count, 7, "record");
    input = r.int32("record input");
    offset = r.int64("record offset");
    timestamp = r.int64("record timestamp");
    keyIndex = r.isNil() ? -1 : r.int32("record key index");
    value = r.maybeBytes("record value");
    int from = r.position();
    if (!r.isNil()) {
      skipHeaders(r);
      headers = r.since(from);
    }
    if (r.more(left)) {
      attempt = r.int32("record attempt");
    }
    if (shape.anyWindows && r.more(left - 1)) { // elsewhere the field would be a later version's
      windows = readWindows(r, shape);
    }
    r.skip(shape.anyWindows ? left - 2 : left - 1);
    if (input >= shape.inputs) {
      throw FrameReader.bad("BATCH names input " + input + ", there are " + shape.inputs);
    }
    if (offset < 0) {
      throw FrameReader.bad("BATCH has a record with offset " + offset);
    }
    if (!windows.isEmpty() && keyIndex < 0) {
      throw FrameReader.bad("BATCH has windows of a record without a key");
    }
  }

  // Goes over [[name, value]], checking it.
  private static void skipHeaders(FrameReader r) {
    for (int count = r.list("record headers"); count > 0; count--) {
      int fields = r.fields("record header", 2);
      r.bytes("header name");
      r.maybeBytes("header value");
      r.skip(fields - 2);
    }
  }

  private static List<OpenWindow> readWindows(FrameReader r, Shape shape) {
    int count = r.list("record windows");
    List<OpenWindow> windows = new ArrayList<>(count);
    for (; count > 0; count--) {
      int left = r.fields("record window", 3) - 3;
      int store = r.int32("window store");
      Span span = new Span(r.int64("window start"), r.int64("window end"));
      boolean isSession = shape.isWindowed(store) && shape.stores.get(store).equals("Session");
      if (!shape.isWindowed(store) || isSession && left < 1) {
        throw FrameReader.bad("BATCH has a window of store " + store + " that is none");
      }
      List<Span> parts = isSession ? readSpans(r) : null;
      r.skip(isSession ? left - 1 : left);
      windows.add(new OpenWindow(store, span, parts));
    }
    return windows;
  }

  private static List<Span> readSpans(FrameReader r) {
    int count = r.list("session parts");
    List<Span> spans = new ArrayList<>(count);
    for (; count > 0; count--) {
      int more = r.fields("session part", 2) - 2;
      spans.add(new Span(r.int64("part start"), r.int64("part end")));
      r.skip(more);
    }
    return spans;
  }

  private void readTimer(FrameReader r, int count) {
    int left = least(count, 6, "timer");
    kind = TIMER;
    keyIndex = r.int32("timer key index");
    clock = r.int32("timer clock");
    name = r.text("timer name");
    timestamp = r.int64("timer time");
    attempt = r.int32("timer attempt");
    r.skip(left);
    if (clock > 1) {
      throw FrameReader.bad("BATCH has a timer of clock " + clock);
    }
  }

  private void readVisited(FrameReader r, int count, Shape shape) {
    int left = least(count, 6, "row of a visit");
    kind = VISIT;
    visit = r.int32("visit");
    keyIndex = r.isNil() ? -1 : r.int32("visit key index");
    timestamp = r.int64("visit time");
    value = r.maybeBytes("visit data");
    attempt = r.int32("visit attempt");
    r.skip(left);
    if (visit >= shape.visits) {
      throw FrameReader.bad("BATCH has a row of visit " + visit + ", there are " + shape.visits);
    }
  }

  private void readClosing(FrameReader r, int count, Shape shape) {
    int left = least(count, 7, "closing");
    kind = CLOSING;
    store = r.int32("closing store");
    keyIndex = r.int32("closing key index");
    span = new Span(r.int64("closing start"), r.int64("closing end"));
    value = r.state("closing value");
    attempt = r.int32("closing attempt");
    r.skip(left);
    if (!shape.isWindowed(store)) {
      throw FrameReader.bad("BATCH closes a window of store " + store + ", which has none");
    }
    // A session ends with its last record and is made of itself, a window ends behind its last moment.
    boolean isSession = shape.stores.get(store).equals("Session");
    timestamp = isSession ? span.end : span.end - 1;
    if (isSession) {
      windows = List.of(new OpenWindow(store, span, List.of(span)));
    }
  }
}
