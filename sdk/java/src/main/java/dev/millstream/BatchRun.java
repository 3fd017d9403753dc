package dev.millstream;

import dev.millstream.internal.BatchFrame;
import dev.millstream.internal.BatchItem;
import dev.millstream.internal.Bytes;
import dev.millstream.internal.FrameReader;
import dev.millstream.internal.FrameWriter;
import dev.millstream.internal.Frames;
import dev.millstream.internal.Kind;
import dev.millstream.internal.RowKeys;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * One batch in flight: what its items know and stage, and its RESULT. It belongs to the thread that runs it; void and `done` are looked at
 * by others.
 *
 * <p>The prefix rule: items run in order; the first that fails ends the batch, what it staged is undone, the items before it count. A batch
 * whose RESULT would not fit a frame ends early without failure: the sidecar sends the rest again.
 */
final class BatchRun {
  /** Room for a RESULT's own fields and a failure message. */
  private static final int RESULT_RESERVE = 20 << 10;
  /** What a write or an output takes in a frame beside its bytes, at most. */
  private static final int OVERHEAD = 16;
  private static final int TIMER_OVERHEAD = 64;
  /** A GET asks for so many keys at most. */
  private static final int MAX_KEYS_PER_GET = 512;

  /** What is known of one key in one store. */
  static final class Slot {
    boolean known;
    /** null when the key is absent. */
    Bytes value;
    /** The last write of the batch; null for none. */
    Op op;
  }

  /** A staged write; a null value deletes. */
  static final class Op {
    final int store;
    final int item;
    final Bytes key;
    final Bytes value;
    private final Slot slot;
    private final Op before;

    Op(int store, int item, Bytes key, Bytes value, Slot slot) {
      this.store = store;
      this.item = item;
      this.key = key;
      this.value = value;
      this.slot = slot;
      before = slot.op;
      slot.known = true;
      slot.value = value;
      slot.op = this;
    }

    /** The one before it counts again. What is read does not matter any more: the batch ends with an item that is undone. */
    void undo() {
      slot.op = before;
    }

    /** Whether it is the one that counts for its key. */
    boolean isLast() {
      return slot.op == this;
    }
  }

  /** A timer that is set, or with a null time cancelled. */
  record StagedTimer(Bytes key, Timers.Id id, Long time) {
    TimerId known() {
      return new TimerId(key, id);
    }
  }

  /** What is done to a visit; the data may be null. */
  record StagedVisit(int visit, Visit.What what, byte[] data) {}

  private record TimerId(Bytes key, Timers.Id id) {}

  private static final class StoreRun {
    final Slot[] own; // per key of the batch, made when first wanted
    final Map<Bytes, Slot> others = new HashMap<>(0);

    StoreRun(int keys) {
      own = new Slot[keys];
    }
  }

  /** BEGIN or FINALIZE: a batch of no items. */
  record HookCall(String name, Hook hook) {}

  final Schema schema;
  final BatchFrame frame;
  /** null for a batch of items. */
  final HookCall hook;
  /** A handler that still runs for a task whose own was dropped keeps this one; nothing of it counts. */
  final Map<Gathered<?>, Object> gathered;
  private final Link link;
  private final StoreRun[] stores;
  private Map<Bytes, Integer> keyIndex; // made when a handler first names another key
  private final List<Op> ops = new ArrayList<>();
  private int toldOps;
  private final List<StagedTimer> timers = new ArrayList<>(0);
  private final List<StagedVisit> visits = new ArrayList<>(0);
  private final Set<TimerId> touchedTimers = new HashSet<>(0);
  private final FrameWriter outputs = new FrameWriter(); // encoded, one after the other
  private int outputCount;
  private long staged; // bytes of ops and outputs
  private int elements; // list elements of ops and outputs
  /** What the last item's handler threw; null if it did not. */
  private Throwable problem;
  /** Items finished, for EXTEND. */
  volatile int done;
  private volatile boolean isVoid;
  private final List<Runnable> voidActions = new ArrayList<>(0); // guarded by itself

  BatchRun(Schema schema, Link link, BatchFrame frame) {
    this(schema, link, frame, null);
  }

  BatchRun(Schema schema, Link link, BatchFrame frame, HookCall hook) {
    this.schema = schema;
    this.link = link;
    this.frame = frame;
    this.hook = hook;
    this.gathered = link.gathered(frame.task);
    this.stores = new StoreRun[schema.readable()];
  }

  boolean isVoid() {
    return isVoid;
  }

  Throwable problem() {
    return problem;
  }

  /** From any thread: it no longer counts. */
  void cancel() {
    List<Runnable> actions;
    synchronized (voidActions) {
      isVoid = true;
      actions = List.copyOf(voidActions);
      voidActions.clear();
    }
    actions.forEach(Runnable::run);
  }

  void onVoid(Runnable action) {
    synchronized (voidActions) {
      if (!isVoid) {
        voidActions.add(action);
        return;
      }
    }
    action.run();
  }

  private int budget() {
    return Math.min(schema.frameCap, Kind.DEFAULT_FRAME_CAP) - RESULT_RESERVE;
  }

  /** Where the staged effects end. */
  private record Mark(int ops, int timers, int visits, int outputSize, int outputCount, long staged, int elements) {}

  private Mark mark() {
    return new Mark(ops.size(), timers.size(), visits.size(), outputs.size(), outputCount, staged, elements);
  }

  /** Handles the items and gives the RESULT. Throws BatchVoidedError, or what the link throws in a traced batch. */
  byte[] run() {
    return hook == null ? runItems() : runHook();
  }

  private byte[] runHook() {
    checkValid();
    Mark before = mark();
    problem = handle(0);
    checkValid();
    if (problem == null && !fits(0, 0)) {
      problem = tooLarge("hook", staged);
    }
    if (problem != null) {
      return result(0, undo(before), Failures.of(problem));
    }
    if (hook.name().equals("finalize")) {
      gathered.clear();
    }
    return result(0, outputs.size(), null);
  }

  private byte[] runItems() {
    for (int at = 0; at < frame.items.length; at++) {
      checkValid();
      if (frame.trace()) {
        link.extend(this, at);
      }
      Mark before = mark();
      problem = handle(at);
      checkValid();
      if (problem == null && !fits(0, 0)) {
        if (fits(before.staged, before.elements)) {
          return result(at, undo(before), null); // the next batch begins with this item
        }
        problem = tooLarge("record", staged - before.staged);
      }
      if (problem != null) {
        return result(at, undo(before), Failures.of(problem));
      }
      done = at + 1;
      if (!visits.isEmpty()) { // it counts from here on: rows of this batch may not be wanted any more
        break;
      }
    }
    return result(done, outputs.size(), null);
  }

  private OutputException tooLarge(String what, long bytes) {
    return new OutputException("the state changes and outputs of this one " + what + " have " + bytes + " bytes together, which does not fit "
        + "a frame of " + schema.frameCap + " bytes; emit and write less per " + what);
  }

  private void checkValid() {
    if (isVoid) {
      throw new BatchVoidedError();
    }
  }

  private boolean fits(long stagedBefore, int elementsBefore) {
    return staged - stagedBefore <= budget() && elements - elementsBefore <= Kind.MAX_ELEMENTS / 2;
  }

  /** null, or what the handler threw. */
  private Throwable handle(int index) {
    Context ctx = new Context(this, index);
    try {
      call(ctx);
      ctx.finishSessions();
      return null;
    } catch (Throwable thrown) {
      return thrown;
    } finally {
      ctx.end();
      synchronized (voidActions) {
        voidActions.clear();
      }
    }
  }

  private void call(Context ctx) throws Exception {
    if (hook != null) {
      hook.hook().run(ctx);
    } else if (ctx.item.kind == BatchItem.RECORD) {
      schema.inputs.get(ctx.item.input).registered().handle(ctx);
    } else if (ctx.item.kind != BatchItem.TIMER || !touchedTimers.contains(new TimerId(ctx.key(), new Timers.Id(ctx.item.clock, ctx.item.name)))) {
      App.DueHandler due = schema.due(ctx.item);
      if (due != null) {
        due.handle(ctx);
      }
    } // else an earlier item set the timer anew, or cancelled it: this one is passed over
  }

  /** Takes back what came after `mark`, the last first: the batch ends there. Returns where the outputs end. */
  private int undo(Mark mark) {
    for (int at = ops.size() - 1; at >= mark.ops; at--) {
      ops.get(at).undo();
    }
    ops.subList(mark.ops, ops.size()).clear();
    timers.subList(mark.timers, timers.size()).clear();
    visits.subList(mark.visits, visits.size()).clear();
    outputCount = mark.outputCount;
    return mark.outputSize;
  }

  // -- state

  /** The slot of a record's own key, which it has. */
  Slot ownSlot(int store, int key) {
    StoreRun run = storeRun(store);
    Slot slot = run.own[key];
    if (slot == null) {
      run.own[key] = slot = new Slot();
      Bytes[] sent = frame.state[store];
      if (sent != null && sent[key] != FrameReader.NOT_PREFETCHED) {
        slot.known = true;
        slot.value = sent[key];
      }
    }
    return slot;
  }

  /** The slot of any key, in a windowed store of any row. */
  Slot slot(int store, Bytes key) {
    if (schema.shape.isWindowed(store)) {
      return storeRun(store).others.computeIfAbsent(key, other -> new Slot());
    }
    if (keyIndex == null) {
      keyIndex = new HashMap<>(2 * frame.keys.length);
      for (int at = 0; at < frame.keys.length; at++) {
        keyIndex.put(frame.keys[at], at);
      }
    }
    Integer index = keyIndex.get(key);
    return index != null ? ownSlot(store, index) : storeRun(store).others.computeIfAbsent(key, other -> new Slot());
  }

  private StoreRun storeRun(int store) {
    if (stores[store] == null) {
      stores[store] = new StoreRun(frame.keys.length);
      if (schema.shape.isWindowed(store)) {
        sendWindows(store, stores[store].others);
      }
    }
    return stores[store];
  }

  // Rows that exist were sent, if the store came along; a window that an item names and that was not sent is absent then.
  private void sendWindows(int store, Map<Bytes, Slot> rows) {
    boolean isSession = schema.stores.get(store).type().equals("Session");
    for (BatchItem item : frame.items) {
      if (item.kind == BatchItem.CLOSING && item.store == store) {
        Bytes key = frame.keys[item.keyIndex];
        know(rows, isSession ? RowKeys.session(key, item.span.start(), item.span.end()) : RowKeys.window(key, item.span.start()), item.value);
      }
      for (BatchItem.OpenWindow open : item.windows) {
        if (open.store() == store && !isSession && frame.windowRows[store] != null) {
          know(rows, RowKeys.window(frame.keys[item.keyIndex], open.span().start()), null);
        }
      }
    }
    for (int key = 0; frame.windowRows[store] != null && key < frame.keys.length; key++) {
      for (BatchFrame.WindowRow row : frame.windowRows[store].get(key)) {
        Bytes of = isSession ? RowKeys.session(frame.keys[key], row.span().start(), row.span().end())
            : RowKeys.window(frame.keys[key], row.span().start());
        know(rows, of, row.value());
      }
    }
  }

  private static void know(Map<Bytes, Slot> rows, Bytes row, Bytes value) {
    Slot slot = rows.computeIfAbsent(row, one -> new Slot());
    slot.known = value != FrameReader.NOT_PREFETCHED;
    slot.value = slot.known ? value : null;
  }

  /** Stages a timer. */
  void stageTimer(StagedTimer timer) {
    timers.add(timer);
    touchedTimers.add(timer.known());
    staged += timer.key.length + timer.id.name().length() + TIMER_OVERHEAD;
    elements++;
  }

  /** Stages what is done to a visit. */
  void stageVisit(StagedVisit visit) {
    visits.add(visit);
    staged += (visit.data == null ? 0 : visit.data.length) + OVERHEAD;
    elements++;
  }

  /** Stages a write; a null value deletes. */
  void write(Context ctx, int store, Slot slot, Bytes key, Bytes value) {
    stage(new Op(store, ctx.index, key, value, slot));
  }

  void stage(Op op) {
    ops.add(op);
    staged += op.key.length + (op.value == null ? 0 : op.value.length) + OVERHEAD;
    elements++;
  }

  /** Asks for keys that are not known and fills their slots. */
  void fetch(int store, List<Bytes> keys) {
    for (int at = 0, count; at < keys.size(); at += count) {
      count = Math.min(keys.size() - at, MAX_KEYS_PER_GET);
      Bytes[] values = null;
      while (values == null) {
        try {
          values = link.get(this, store, keys.subList(at, at + count));
        } catch (StateException e) {
          // The values may not fit a frame together: fewer at once. For one alone, the error it is.
          if (count == 1) {
            throw e;
          }
          count /= 2;
        }
      }
      for (int n = 0; n < count; n++) {
        Slot slot = slot(store, keys.get(at + n));
        slot.known = true;
        slot.value = values[n];
      }
    }
  }

  /** The writes that the sidecar was not told of yet. */
  List<Op> newOps() {
    List<Op> untold = List.copyOf(ops.subList(toldOps, ops.size()));
    toldOps = ops.size();
    return untold;
  }

  Link.Page scan(Link.ScanRequest request) {
    return link.scan(this, request);
  }

  // -- outputs

  /** Where the next output is encoded; emitted() says that it was. */
  FrameWriter outputs() {
    return outputs;
  }

  void emitted(int size, int headers) {
    outputCount++;
    staged += size + OVERHEAD;
    elements += 1 + headers;
  }

  /** RESULT: the last write of each key, and the outputs. */
  byte[] result(int done, int outputSize, Failures.Failure failure) {
    int fields = !visits.isEmpty() ? 7 : !timers.isEmpty() ? 6 : 5;
    FrameWriter w = Frames.begin(Kind.RESULT, fields).uint64(frame.seq).int64(done);
    if (failure == null) {
      w.nil();
    } else {
      failure.write(w);
    }
    int[] counts = new int[stores.length];
    int written = 0;
    for (Op op : ops) {
      if (op.isLast() && counts[op.store]++ == 0) {
        written++;
      }
    }
    w.map(written);
    for (int store = 0; store < counts.length; store++) {
      if (counts[store] == 0) {
        continue;
      }
      w.int64(store).list(counts[store]);
      for (Op op : ops) {
        if (op.store == store && op.isLast()) {
          w.list(2).bin(op.key).maybeBin(op.value);
        }
      }
    }
    w.list(outputCount);
    if (outputSize > 0) {
      w.raw(outputs.toBytes(), outputSize);
    }
    if (fields > 5) {
      writeTimers(w);
    }
    if (fields > 6) {
      w.list(visits.size());
      visits.forEach(visit -> w.list(3).int64(visit.visit).int64(visit.what.ordinal()).maybeBin(visit.data));
    }
    return w.toBytes();
  }

  private void writeTimers(FrameWriter w) {
    w.list(timers.size());
    for (StagedTimer timer : timers) {
      w.list(4).bin(timer.key).int64(timer.id.clock()).text(timer.id.name());
      if (timer.time == null) {
        w.nil();
      } else {
        w.int64(timer.time);
      }
    }
  }

  /** Ends a batch that no longer counts; the sidecar drops it. */
  static byte[] voidResult(long seq) {
    return Frames.begin(Kind.RESULT, 5).uint64(seq).int64(0).nil().map(0).list(0).toBytes();
  }
}
