package dev.millstream.internal;

import java.util.ArrayList;
import java.util.List;

/** A BATCH, decoded: its byte strings are views of the frame. */
public final class BatchFrame {
  private static final int ITEM_RECORD = 0;

  /** A record of the batch. */
  public static final class Item {
    public int input;
    /** An index in `keys`; -1 is a record without a key. */
    public int keyIndex;
    public int attempt = 1;
    public long offset;
    public long timestamp;
    /** null for a tombstone. */
    public Bytes value;
    /** Checked, but read only when asked for; null for none. */
    public Bytes headers;
  }

  public long seq;
  public int task;
  public long flags;
  public Bytes[] keys;
  public Item[] items;
  /** By store, then aligned with `keys`; null where the store did not come along. See {@link FrameReader#state}. */
  public Bytes[][] state;
  /** null before the first record counts. */
  public Long watermark;

  /** A batch of nothing, for a hook. */
  public static BatchFrame empty(long seq, int task, int stores) {
    BatchFrame b = new BatchFrame();
    b.seq = seq;
    b.task = task;
    b.keys = new Bytes[0];
    b.items = new Item[0];
    b.state = new Bytes[stores][];
    return b;
  }

  public boolean trace() {
    return (flags & Kind.FLAG_TRACE) != 0;
  }

  /** Reads what follows the kind, and checks it against what WELCOME declared. */
  public static BatchFrame read(FrameReader r, int fields, int stores, int inputs) {
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
    b.items = new Item[r.list("BATCH items")];
    for (int at = 0; at < b.items.length; at++) {
      b.items[at] = readItem(r, b.keys.length, inputs);
    }
    b.state = new Bytes[stores][];
    for (int count = r.map("BATCH state"); count > 0; count--) {
      readState(r, b);
    }
    int left = fields - 6;
    if (r.more(left)) {
      b.watermark = r.int64("BATCH watermark");
    }
    r.skip(left - 1);
    return b;
  }

  private static void readState(FrameReader r, BatchFrame b) {
    int store = r.int32("BATCH state");
    if (store >= b.state.length) {
      throw FrameReader.bad("BATCH has state of store " + store + ", there are " + b.state.length);
    }
    Bytes[] column = new Bytes[r.list("BATCH state")];
    if (column.length != b.keys.length || b.state[store] != null) {
      throw FrameReader.bad("BATCH: the state of store " + store + " is not aligned with its keys");
    }
    for (int at = 0; at < column.length; at++) {
      column[at] = r.state("BATCH state");
    }
    b.state[store] = column;
  }

  private static Item readItem(FrameReader r, int keys, int inputs) {
    int count = r.fields("BATCH item", 1);
    long kind = r.int64("BATCH item");
    if (kind != ITEM_RECORD) {
      throw FrameReader.bad("BATCH has an item of kind " + kind + ", which is not supported yet");
    }
    if (count < 7) {
      throw FrameReader.bad("BATCH has a record with " + count + " fields, at least 7 are needed");
    }
    Item item = new Item();
    item.input = r.int32("record input");
    item.offset = r.int64("record offset");
    item.timestamp = r.int64("record timestamp");
    item.keyIndex = r.isNil() ? -1 : r.int32("record key index");
    item.value = r.maybeBytes("record value");
    int from = r.position();
    if (!r.isNil()) {
      skipHeaders(r);
      item.headers = r.since(from);
    }
    int left = count - 7;
    if (r.more(left)) {
      item.attempt = r.int32("record attempt");
    }
    r.skip(left - 1);
    if (item.input >= inputs) {
      throw FrameReader.bad("BATCH names input " + item.input + ", there are " + inputs);
    }
    if (item.keyIndex >= keys) {
      throw FrameReader.bad("BATCH names key " + item.keyIndex + ", it has " + keys);
    }
    if (item.offset < 0) {
      throw FrameReader.bad("BATCH has a record with offset " + item.offset);
    }
    return item;
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
