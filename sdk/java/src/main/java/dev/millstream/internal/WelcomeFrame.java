package dev.millstream.internal;

import java.util.ArrayList;
import java.util.List;

/** A WELCOME, decoded. */
public final class WelcomeFrame {
  /**
   * An input, output, store, join or lookup that the manifest declares; `max` is 0 where nothing was said. `size` is that of the windows of
   * a store; they, or its sessions, are given when they close if `isFinal`.
   */
  public record Port(String name, String topic, String type, long max, long size, boolean isFinal) {
    public Port(String name, String topic, String type, long max) {
      this(name, topic, type, max, 0, false);
    }
  }

  /** A visit, with the id of the store it walks. */
  public record VisitPort(String name, int store) {}

  public long version = -1;
  public long session;
  public String processor = "";
  public List<Port> inputs = List.of();
  public List<Port> outputs = List.of();
  public List<Port> stores = List.of();
  public List<Port> joins = List.of();
  public List<Port> lookups = List.of();
  public boolean timers;
  public List<VisitPort> visits = List.of();
  public List<String> capabilities = List.of();
  public long frameCap = Kind.DEFAULT_FRAME_CAP;
  public long deadlineMillis = 60_000;
  public long minTimestamp;
  public long maxTimestamp = Long.MAX_VALUE;

  /** Reads the map that is its one field. */
  public static WelcomeFrame read(FrameReader r) {
    WelcomeFrame w = new WelcomeFrame();
    boolean hasSession = false;
    for (int count = r.map("WELCOME"); count > 0; count--) {
      String field = r.text("WELCOME");
      switch (field) {
        case "protocol" -> w.version = r.int64(field);
        case "session" -> {
          w.session = r.uint64(field);
          hasSession = true;
        }
        case "processor" -> w.processor = r.text(field);
        case "inputs" -> w.inputs = readPorts(r, field);
        case "outputs" -> w.outputs = readPorts(r, field);
        case "stores" -> w.stores = readPorts(r, field);
        case "joins" -> w.joins = readPorts(r, field);
        case "lookups" -> w.lookups = readPorts(r, field);
        case "timers" -> w.timers = !r.isNil() && r.bool(field);
        case "visits" -> w.visits = readVisits(r);
        case "capabilities" -> w.capabilities = readTexts(r, field);
        case "limits" -> w.readLimits(r);
        default -> r.skip(1);
      }
    }
    if (w.version < 0 || !hasSession) {
      throw FrameReader.bad("WELCOME has no protocol version or no session");
    }
    return w;
  }

  private void readLimits(FrameReader r) {
    for (int count = r.map("limits"); count > 0; count--) {
      String limit = r.text("limits");
      switch (limit) {
        case "frame" -> frameCap = r.int64(limit);
        case "deadline_ms" -> deadlineMillis = r.int64(limit);
        case "min_timestamp" -> minTimestamp = r.int64(limit);
        case "max_timestamp" -> maxTimestamp = r.int64(limit);
        default -> r.skip(1);
      }
    }
  }

  private static List<String> readTexts(FrameReader r, String what) {
    List<String> texts = new ArrayList<>();
    for (int count = r.list(what); count > 0; count--) {
      texts.add(r.text(what));
    }
    return texts;
  }

  private static List<Port> readPorts(FrameReader r, String what) {
    int count = r.list(what);
    List<Port> ports = new ArrayList<>(count);
    for (; count > 0; count--) {
      String name = "";
      String topic = "";
      String type = "KeyValue";
      long max = 0;
      long[] window = {0, 0};
      for (int fields = r.map(what); fields > 0; fields--) {
        switch (r.text(what)) {
          case "name" -> name = r.text(what);
          case "topic" -> topic = r.text(what);
          case "type" -> type = r.text(what);
          case "max_bytes", "max_value_bytes" -> max = r.int64(what);
          case "window", "session" -> window = readWindow(r);
          default -> r.skip(1);
        }
      }
      if (name.isEmpty()) {
        throw FrameReader.bad("WELCOME: one of the " + what + " has no name");
      }
      ports.add(new Port(name, topic, type, max, window[0], window[1] != 0));
    }
    return ports;
  }

  private static List<VisitPort> readVisits(FrameReader r) {
    List<VisitPort> visits = new ArrayList<>();
    for (int count = r.isNil() ? 0 : r.list("visits"); count > 0; count--) {
      String name = "";
      int store = 0;
      for (int fields = r.map("visits"); fields > 0; fields--) {
        switch (r.text("visits")) {
          case "name" -> name = r.text("visit name");
          case "store" -> store = r.int32("visit store");
          default -> r.skip(1);
        }
      }
      visits.add(new VisitPort(name, store));
    }
    return visits;
  }

  /** Size, and 1 where windows or sessions are given when they close. */
  private static long[] readWindow(FrameReader r) {
    long[] window = {0, 0};
    if (r.isNil()) {
      return window;
    }
    for (int fields = r.map("window"); fields > 0; fields--) {
      switch (r.text("window")) {
        case "size" -> window[0] = r.int64("size");
        case "final" -> window[1] = r.bool("final") ? 1 : 0;
        default -> r.skip(1);
      }
    }
    return window;
  }
}
