package dev.millstream;

import dev.millstream.internal.Bytes;
import dev.millstream.internal.FrameWriter;
import dev.millstream.internal.Frames;
import dev.millstream.internal.Kind;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** How a batch reaches the sidecar: a session, or a test kit. Calls throw BatchVoidedError once the batch is void. */
interface Link {
  /** Values in the order of the keys, null for those that are not there. */
  Bytes[] get(BatchRun batch, int store, List<Bytes> keys);

  Page scan(BatchRun batch, ScanRequest request);

  /** What the program has gathered for a task. */
  Map<Gathered<?>, Object> gathered(int task);

  /** Tells that so many items are done. */
  void extend(BatchRun batch, int done);

  /** Rows of a scan; the cursor asks for the next page, null at the end. */
  record Page(List<Row<Bytes, Bytes>> rows, Bytes cursor) {}

  /** Null bounds are open; limit 0 is all; the new writes are in the order they were made. */
  record ScanRequest(int store, Bytes from, Bytes to, int limit, boolean reverse, Bytes cursor, List<BatchRun.Op> newOps) {
    byte[] frame(long seq, long rid) {
      FrameWriter w = Frames.begin(Kind.SCAN, 9).uint64(seq).int64(rid).int64(store);
      w.maybeBin(from).maybeBin(to).int64(limit).bool(reverse).maybeBin(cursor);
      Map<Integer, Integer> counts = new LinkedHashMap<>();
      newOps.forEach(op -> counts.merge(op.store, 1, Integer::sum));
      w.map(counts.size());
      counts.forEach((store, count) -> {
        w.int64(store).list(count);
        newOps.stream().filter(op -> op.store == store).forEach(op -> w.list(3).bin(op.key).maybeBin(op.value).int64(op.item));
      });
      return w.toBytes();
    }
  }
}
