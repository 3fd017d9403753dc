package dev.millstream;

import dev.millstream.internal.Bytes;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A test kit's visits: what the sidecar keeps of them, and which rows come next. */
final class KitVisits {
  /** Rows per batch: fewer than a usual store has, so that tests meet several. */
  private static final int PAGE = 100;

  /** A row of a visit; with a null key its end. */
  record Item(int visit, Bytes key, long time, Bytes data) {}

  /** A visit that was started and has not ended. */
  private static final class Run {
    final long started;
    final Bytes data;
    Bytes after;
    boolean paused;

    Run(long started, Bytes data) {
      this.started = started;
      this.data = data;
    }
  }

  private final List<Schema.VisitOf> visits;
  private final List<TreeMap<Bytes, Bytes>> rows; // per store, the kit's
  private final Map<Integer, Run> runs = new HashMap<>();

  KitVisits(List<Schema.VisitOf> visits, List<TreeMap<Bytes, Bytes>> rows) {
    this.visits = visits;
    this.rows = rows;
  }

  /** What a RESULT does to a visit; `time` is that of the item that did it. */
  void change(int visit, Visit.What what, Bytes data, long time) {
    Run run = runs.get(visit);
    switch (what) {
      case START -> runs.put(visit, new Run(time, data));
      case STOP -> runs.remove(visit);
      default -> {
        if (run != null) {
          run.paused = what == Visit.What.PAUSE;
        }
      }
    }
  }

  /** The next rows of the first visit, by name, that is not paused; or its end. Empty: there is none. */
  List<Item> next() {
    Integer visit = runs.keySet().stream().filter(id -> !runs.get(id).paused).min(Comparator.comparing(this::name)).orElse(null);
    if (visit == null) {
      return List.of();
    }
    Run run = runs.get(visit);
    TreeMap<Bytes, Bytes> store = rows.get(visits.get(visit).store());
    List<Item> found = new ArrayList<>();
    for (Bytes key : (run.after == null ? store : store.tailMap(run.after, false)).keySet()) {
      if (found.size() < PAGE) {
        found.add(new Item(visit, key, run.started, run.data));
      }
    }
    return found.isEmpty() ? List.of(new Item(visit, null, run.started, run.data)) : found;
  }

  /** A row, or the end, was handled or given up. */
  void handled(Item item) {
    if (item.key == null) {
      runs.remove(item.visit);
    } else {
      runs.get(item.visit).after = item.key;
    }
  }

  List<String> underWay() {
    return runs.keySet().stream().map(this::name).sorted().toList();
  }

  private String name(int visit) {
    return visits.get(visit).name();
  }
}
