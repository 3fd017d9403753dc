package dev.millstream;

import dev.millstream.internal.Bytes;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/** Answers a test kit's batches from committed state and the batch's own writes. */
class KitLink implements Link {
  /** Rows per page of a scan: few, so that tests meet paging. */
  private static final int PAGE = 3;

  private final List<TreeMap<Bytes, Bytes>> rows;
  private final Map<Integer, Map<Bytes, Bytes>> scratch = new HashMap<>(); // null values are deletions

  private final Map<Gathered<?>, Object> gathered;

  KitLink(List<TreeMap<Bytes, Bytes>> rows, Map<Gathered<?>, Object> gathered) {
    this.rows = rows;
    this.gathered = gathered;
  }

  @Override
  public Map<Gathered<?>, Object> gathered(int task) {
    return gathered;
  }

  @Override
  public Bytes[] get(BatchRun batch, int store, List<Bytes> keys) {
    return keys.stream().map(rows.get(store)::get).toArray(Bytes[]::new);
  }

  @Override
  public Page scan(BatchRun batch, ScanRequest request) {
    request.newOps().forEach(op -> scratch.computeIfAbsent(op.store, store -> new HashMap<>()).put(op.key, op.value));
    NavigableMap<Bytes, Bytes> merged = new TreeMap<>(rows.get(request.store()));
    merged.putAll(scratch.getOrDefault(request.store(), Map.of()));
    merged.values().removeIf(value -> value == null);
    if (request.from() != null) {
      merged = merged.tailMap(request.from(), true);
    }
    if (request.to() != null) {
      merged = merged.headMap(request.to(), false);
    }
    if (request.reverse()) {
      merged = merged.descendingMap();
    }
    if (request.cursor() != null) {
      merged = merged.tailMap(request.cursor(), false);
    }
    List<Row<Bytes, Bytes>> page = new ArrayList<>();
    int most = request.limit() > 0 ? Math.min(request.limit(), PAGE) : PAGE;
    for (Map.Entry<Bytes, Bytes> row : merged.entrySet()) {
      if (page.size() == most) {
        return new Page(page, page.get(most - 1).key());
      }
      page.add(new Row<>(row.getKey(), row.getValue()));
    }
    return new Page(page, null);
  }

  @Override
  public void extend(BatchRun batch, int done) {
    // Nobody waits in a kit.
  }
}
