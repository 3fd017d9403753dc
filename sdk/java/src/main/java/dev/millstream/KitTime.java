package dev.millstream;

import dev.millstream.internal.BatchItem.OpenWindow;
import dev.millstream.internal.BatchItem.Span;
import dev.millstream.internal.Bytes;
import dev.millstream.internal.RowKeys;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** A test kit's event time: what the sidecar does for windows, sessions and timers of its one task. */
final class KitTime {
  /** A store, as far as time is concerned; a size (or gap) of 0 is a store of type KeyValue. Milliseconds. */
  record Rules(String type, long size, long advance, long grace, boolean isFinal) {
    static final Rules KEY_VALUE = new Rules("KeyValue", 0, 0, 0, false);

    boolean isSession() {
      return type.equals("Session");
    }

    /** The stream time from which on it takes no record. */
    long closes(Span span) {
      return span.end() + grace + (isSession() ? size + 1 : 0);
    }

    /** The stream time from which on it is gone: a kit keeps rows no longer than it has to. */
    long expires(Span span) {
      return closes(span);
    }

    List<Span> windows(long time) {
      List<Span> found = new ArrayList<>();
      for (long start = Math.floorDiv(time - size, advance) * advance + advance; start <= time; start += advance) {
        found.add(new Span(start, start + size));
      }
      return found;
    }
  }

  /** A row of a windowed store. */
  private record WindowOf(Bytes key, Span span) {}

  /** A timer or closing that is due. */
  record Due(long time, Bytes key, Timers.Id timer, int store, Span span) {}

  private record Pending(Bytes key, Timers.Id id) {}

  private final List<Rules> rules; // per store
  private final List<TreeMap<Bytes, Bytes>> rows; // per store, the kit's
  private final List<Map<Bytes, WindowOf>> windows = new ArrayList<>(); // per store
  private final List<Set<Bytes>> closed = new ArrayList<>(); // per store
  private final Map<Pending, Long> timers = new LinkedHashMap<>();
  private final Long[] highest; // per input
  private final long lateness;
  private Long now;
  private int late;

  KitTime(List<Rules> rules, List<TreeMap<Bytes, Bytes>> rows, int inputs, long lateness) {
    this.rules = rules;
    this.rows = rows;
    this.lateness = lateness;
    highest = new Long[inputs];
    rules.forEach(rule -> {
      windows.add(new LinkedHashMap<>());
      closed.add(new HashSet<>());
    });
  }

  /** Stream time; null before the first record. */
  Long now() {
    return now;
  }

  int late() {
    return late;
  }

  /** A record was met. An input that never had one is taken as idle. */
  void advance(int input, long timestamp) {
    highest[input] = highest[input] == null ? timestamp : Math.max(highest[input], timestamp);
    long lowest = Long.MAX_VALUE;
    for (Long high : highest) {
      lowest = high == null ? lowest : Math.min(lowest, high - lateness);
    }
    now = now == null ? lowest : Math.max(now, lowest);
  }

  /** The windows of a record, after advance(); null if it is late for every windowed store. */
  List<OpenWindow> open(Bytes key, long timestamp) {
    List<OpenWindow> found = new ArrayList<>();
    boolean windowed = false;
    for (int store = 0; key != null && store < rules.size(); store++) {
      Rules rule = rules.get(store);
      windowed |= rule.size > 0;
      if (rule.isSession()) {
        OpenWindow session = session(store, key, timestamp);
        // One that was given stays as it is: who would reach it is late.
        boolean over = rule.isFinal && session.parts().stream().anyMatch(part -> rule.closes(part) <= now);
        if (!over && rule.closes(session.span()) > now) {
          found.add(session);
        }
      } else if (rule.size > 0) {
        for (Span span : rule.windows(timestamp)) {
          if (rule.closes(span) > now) {
            found.add(new OpenWindow(store, span, null));
          }
        }
      }
    }
    if (windowed && found.isEmpty()) {
      late++;
      return null;
    }
    return found;
  }

  private OpenWindow session(int store, Bytes key, long timestamp) {
    long gap = rules.get(store).size;
    List<Span> parts = new ArrayList<>();
    long start = timestamp;
    long end = timestamp;
    for (WindowOf window : windows.get(store).values()) {
      Span span = window.span;
      if (window.key.equals(key) && span.start() <= timestamp + gap && span.end() >= timestamp - gap) {
        parts.add(span);
        start = Math.min(start, span.start());
        end = Math.max(end, span.end());
      }
    }
    parts.sort(Comparator.comparingLong(Span::start));
    return new OpenWindow(store, new Span(start, end), parts);
  }

  /** The rows of a key in a windowed store. */
  Map<Span, Bytes> rowsOf(int store, Bytes key) {
    Map<Span, Bytes> found = new LinkedHashMap<>();
    windows.get(store).forEach((row, window) -> {
      if (window.key.equals(key) && rows.get(store).containsKey(row)) {
        found.put(window.span, rows.get(store).get(row));
      }
    });
    return found;
  }

  boolean isWindowed(int store) {
    return store < rules.size() && rules.get(store).size > 0;
  }

  /** An item is done: rows of these keys may be new. What a session was made of goes, and it has at least an empty value. */
  void done(Bytes key, List<OpenWindow> open) {
    for (OpenWindow window : open) {
      Span span = window.span();
      Bytes row = row(window.store(), key, span);
      if (window.parts() != null) {
        for (Span part : window.parts()) {
          if (!part.equals(span)) {
            forget(window.store(), row(window.store(), key, part));
          }
        }
        rows.get(window.store()).putIfAbsent(row, new Bytes(new byte[0], 0, 0));
      }
      if (rows.get(window.store()).containsKey(row)) {
        windows.get(window.store()).put(row, new WindowOf(key, span));
      }
    }
  }

  private void forget(int store, Bytes row) {
    rows.get(store).remove(row);
    windows.get(store).remove(row);
    closed.get(store).remove(row);
  }

  private Bytes row(int store, Bytes key, Span span) {
    return rules.get(store).isSession() ? RowKeys.session(key, span.start(), span.end()) : RowKeys.window(key, span.start());
  }

  void set(Bytes key, Timers.Id timer, Long time) {
    Pending pending = new Pending(key, timer);
    timers.remove(pending);
    if (time != null) {
      timers.put(pending, time);
    }
  }

  /** All that is due, the earliest first. */
  List<Due> due(long wall) {
    List<Due> found = new ArrayList<>();
    timers.forEach((pending, time) -> {
      Long clock = pending.id.clock() == 0 ? now : (Long) wall;
      if (clock != null && time <= clock) {
        found.add(new Due(time, pending.key, pending.id, -1, null));
      }
    });
    for (int store = 0; store < rules.size(); store++) {
      for (Map.Entry<Bytes, WindowOf> window : windows.get(store).entrySet()) {
        long closes = rules.get(store).closes(window.getValue().span);
        if (rules.get(store).isFinal && now != null && closes <= now && rows.get(store).containsKey(window.getKey())
            && !closed.get(store).contains(window.getKey())) {
          found.add(new Due(closes, window.getValue().key, null, store, window.getValue().span));
        }
      }
    }
    found.sort(Comparator.comparingLong(Due::time));
    return found;
  }

  Bytes valueOf(Due due) {
    return rows.get(due.store).get(row(due.store, due.key, due.span));
  }

  /** Something that was due was handled, or given up. */
  void handled(Due due) {
    if (due.timer != null) {
      timers.remove(new Pending(due.key, due.timer), due.time);
    } else {
      closed.get(due.store).add(row(due.store, due.key, due.span));
    }
  }

  /** Deletes what has outlived its grace, once it was given. */
  void sweep() {
    for (int store = 0; store < rules.size(); store++) {
      Rules rule = rules.get(store);
      for (Map.Entry<Bytes, WindowOf> window : new HashMap<>(windows.get(store)).entrySet()) {
        boolean given = !rule.isFinal || closed.get(store).contains(window.getKey()) || !rows.get(store).containsKey(window.getKey());
        if (now != null && rule.expires(window.getValue().span) <= now && given) {
          forget(store, window.getKey());
        }
      }
    }
  }
}
