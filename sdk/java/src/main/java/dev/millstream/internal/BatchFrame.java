package dev.millstream.internal;

import java.util.ArrayList;
import java.util.List;

/** A BATCH, decoded: its byte strings are views of the frame. */
public final class BatchFrame {
  /** A row of a windowed store that exists; the value as in {@link FrameReader#state}. */
  public record WindowRow(BatchItem.Span span, Bytes value) {}

  public long seq;
  public int task;
  public long flags;
  public Bytes[] keys;
  public BatchItem[] items;
  /** By store, then aligned with `keys`; null where the store did not come along. See {@link FrameReader#state}. */
  public Bytes[][] state;
  /** The same for windowed stores: the rows of each key that were sent along. */
  public List<List<WindowRow>>[] windowRows;
  /** null before the first record counts. */
  public Long watermark;

  /** A batch of nothing, for a hook. */
  public static BatchFrame empty(long seq, int task, int stores) {
    BatchFrame b = new BatchFrame();
    b.seq = seq;
    b.task = task;
    b.keys = new Bytes[0];
    b.items = new BatchItem[0];
    b.state = new Bytes[stores][];
    b.windowRows = rows(stores);
    return b;
  }

  public boolean trace() {
    return (flags & Kind.FLAG_TRACE) != 0;
  }

  /** Reads what follows the kind, and checks it against what WELCOME declared. */
  public static BatchFrame read(FrameReader r, int fields, BatchItem.Shape shape) {
    if (fields < 6) {
      throw FrameReader.bad("BATCH has " + fields + " fields, at least 6 are needed");
    }
    BatchFrame b = new BatchFrame();
    b.seq = r.uint64("BATCH seq");
    b.task = r.int32("BATCH task");
    b.flags = r.uint64("BATCH flags");
    b.keys = new Bytes[r.list("BATCH keys")];
    for (int at = 0; at < b.keys.length; at++) {
      b.keys[at] = r.bytes("BATCH key");
    }
    b.items = new BatchItem[r.list("BATCH items")];
    for (int at = 0; at < b.items.length; at++) {
      b.items[at] = BatchItem.read(r, b.keys.length, shape);
    }
    b.state = new Bytes[shape.readable()][];
    b.windowRows = rows(shape.readable());
    for (int count = r.map("BATCH state"); count > 0; count--) {
      b.readState(r, shape);
    }
    int left = fields - 6;
    if (r.more(left)) {
      b.watermark = r.int64("BATCH watermark");
    }
    r.skip(left - 1);
    return b;
  }

  @SuppressWarnings({"unchecked", "rawtypes"}) // an array of a generic type cannot be made otherwise
  private static List<List<WindowRow>>[] rows(int stores) {
    return new List[stores];
  }

  private void readState(FrameReader r, BatchItem.Shape shape) {
    int store = r.int32("BATCH state");
    if (store >= state.length) {
      throw FrameReader.bad("BATCH has state of store " + store + ", there are " + state.length);
    }
    int count = r.list("BATCH state");
    if (count != keys.length || state[store] != null || windowRows[store] != null) {
      throw FrameReader.bad("BATCH: the state of store " + store + " is not aligned with its keys");
    }
    if (shape.isWindowed(store)) {
      windowRows[store] = new ArrayList<>(count);
      for (; count > 0; count--) {
        windowRows[store].add(readRows(r));
      }
      return;
    }
    state[store] = new Bytes[count];
    for (int at = 0; at < count; at++) {
      state[store][at] = r.state("BATCH state");
    }
  }

  private static List<WindowRow> readRows(FrameReader r) {
    int count = r.list("BATCH windows");
    List<WindowRow> rows = new ArrayList<>(count);
    for (; count > 0; count--) {
      int more = r.fields("BATCH window", 3) - 3;
      BatchItem.Span span = new BatchItem.Span(r.int64("window start"), r.int64("window end"));
      rows.add(new WindowRow(span, r.state("window value")));
      r.skip(more);
    }
    return rows;
  }

  /** Makes something of a header; the value is null for null. */
  public interface HeaderMaker<H> {
    H make(String name, byte[] value);
  }

  /** Reads headers that were checked; null for none. */
  public static <H> List<H> headers(Bytes encoded, HeaderMaker<H> maker) {
    if (encoded == null) {
      return List.of();
    }
    FrameReader r = new FrameReader(encoded);
    int count = r.list("headers");
    List<H> headers = new ArrayList<>(count);
    for (; count > 0; count--) {
      int fields = r.fields("header", 2);
      Bytes name = r.bytes("header name");
      Bytes value = r.maybeBytes("header value");
      headers.add(maker.make(Utf8.decode(name.array, name.offset, name.length), value == null ? null : value.toArray()));
      r.skip(fields - 2);
    }
    return List.copyOf(headers);
  }
}
