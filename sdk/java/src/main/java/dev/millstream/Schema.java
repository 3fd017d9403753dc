package dev.millstream;

import dev.millstream.internal.BatchItem;
import dev.millstream.internal.FrameReader;
import dev.millstream.internal.Kind;
import dev.millstream.internal.WelcomeFrame;
import dev.millstream.internal.WelcomeFrame.Port;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What WELCOME declares joined with the program's handlers. Immutable, shared by all batches of a session. */
final class Schema {
  record Input(String name, String topic, Registered<?, ?> registered) {}

  /** A visit with what the program does; `end` may be null. */
  record VisitOf(String name, int store, App.DueHandler rows, App.DueHandler end) {}

  private static final Set<String> TYPES = Set.of("KeyValue", "Window", "Session");

  final String processor;
  final long session;
  final List<Input> inputs = new ArrayList<>();
  final List<Port> outputs;
  final List<Port> stores;
  final Map<String, Integer> outputIds;
  /** Stores, joins and lookups share one id space, in this order. */
  final Map<String, Integer> storeIds;
  final Map<String, Integer> joinIds;
  final Map<String, Integer> lookupIds;
  final Set<String> capabilities;
  final boolean timers;
  final List<VisitOf> visits = new ArrayList<>();
  final BatchItem.Shape shape;
  private final App app;
  final int frameCap;
  final long deadlineMillis;
  final long minTimestamp;
  final long maxTimestamp;

  /** @throws ConfigException where program and manifest do not fit */
  Schema(WelcomeFrame w, App app) {
    if (w.version < Kind.MIN_VERSION || w.version > Kind.MAX_VERSION) {
      throw new ConfigException("the sidecar chose worker protocol " + w.version + ", this SDK speaks " + Kind.MIN_VERSION + " to "
          + Kind.MAX_VERSION + "; use a matching version of dev.millstream:millstream");
    }
    for (Port store : w.stores) {
      if (!TYPES.contains(store.type())) {
        throw new ConfigException("store \"" + store.name() + "\" has type " + store.type() + ": not supported yet by the Java SDK");
      }
    }
    processor = w.processor;
    session = w.session;
    frameCap = (int) Math.min(Math.max(w.frameCap, Kind.HELLO_FRAME_CAP), Kind.MAX_FRAME_CAP);
    deadlineMillis = Math.max(w.deadlineMillis, 1);
    minTimestamp = w.minTimestamp;
    maxTimestamp = w.maxTimestamp;
    outputs = limited(w.outputs);
    stores = limited(w.stores);
    outputIds = ids(outputs, 0);
    storeIds = ids(stores, 0);
    joinIds = ids(w.joins, stores.size());
    lookupIds = ids(w.lookups, stores.size() + w.joins.size());
    capabilities = Set.copyOf(w.capabilities);
    timers = w.timers;
    this.app = app;
    join(w.inputs);
    checkDue();
    shape = new BatchItem.Shape(inputs.size(), stores.stream().map(Port::type).toList(), readable(), timers, w.visits.size());
    w.visits.forEach(this::addVisit);
    checkVisits();
  }

  /** The program's handle on a store of sessions; one that cannot merge if it has none. */
  SessionStore<?, ?> sessionStore(int id) {
    String name = stores.get(id).name();
    SessionStore<?, ?> known = app.sessions.get(name);
    return known != null ? known : SessionStore.of(name, Codecs.BYTES, Codecs.BYTES);
  }

  /** null: the program does not want to know. */
  App.DueHandler due(BatchItem item) {
    if (item.kind == BatchItem.TIMER) {
      App.DueHandler handler = app.timers.get(new Timers.Id(item.clock, item.name));
      if (handler == null) {
        throw new UndeclaredException("timer \"" + item.name + "\" is due and nobody handles it; add app.onTimer(...)");
      }
      return handler;
    }
    if (item.kind == BatchItem.VISIT) {
      VisitOf visit = visits.get(item.visit);
      return item.keyIndex < 0 ? visit.end : visit.rows;
    }
    App.DueHandler handler = app.closings.get(stores.get(item.store).name());
    if (handler == null) {
      throw new UndeclaredException("a window or session of store \"" + stores.get(item.store).name() + "\" closes and nobody handles it; add "
          + "app.onClose(...)");
    }
    return handler;
  }

  /** -1 if there is none of that name. */
  int visitId(String name) {
    return visitNames().indexOf(name);
  }

  List<String> visitNames() {
    return visits.stream().map(VisitOf::name).toList();
  }

  private void addVisit(WelcomeFrame.VisitPort port) {
    if (port.store() >= stores.size()) {
      throw FrameReader.bad("visit \"" + port.name() + "\" is of store " + port.store() + ", there are " + stores.size());
    }
    String store = stores.get(port.store()).name();
    App.VisitHandlers known = app.visits.get(port.name());
    if (known == null || known.rows == null) {
      throw new ConfigException("the manifest declares visit \"" + port.name() + "\", for which the program has no handler; add "
          + "app.onVisit(...)");
    }
    if (!known.visit.store.name().equals(store)) {
      throw new ConfigException("visit \"" + port.name() + "\" walks store \"" + store + "\" in the manifest, and \""
          + known.visit.store.name() + "\" in the program");
    }
    visits.add(new VisitOf(port.name(), port.store(), known.rows, known.end));
  }

  private void checkVisits() {
    app.visits.forEach((name, known) -> {
      if (visitId(name) < 0) {
        throw new ConfigException("the program handles visit \"" + name + "\", which the manifest does not declare; add {name: " + name
            + ", store: " + known.visit.store.name() + "} to spec.visits. Visits: " + listed(visitNames()));
      }
    });
  }

  private void checkDue() {
    if (!app.timers.isEmpty() && !timers) {
      throw new ConfigException("the program handles timers (" + listed(app.timers.keySet().stream().map(Timers.Id::name).toList())
          + "), and the manifest has none; add timers: {} under spec");
    }
    List<String> closing = stores.stream().filter(Port::isFinal).map(Port::name).toList();
    for (String name : app.closings.keySet()) {
      if (!closing.contains(name)) {
        throw new ConfigException("app.onClose of store \"" + name + "\", which does not give its windows or sessions when they close; set "
            + "emit: Final in its window or session. Stores that do: " + listed(closing));
      }
    }
    for (String name : closing) {
      if (!app.closings.containsKey(name)) {
        throw new ConfigException("store \"" + name + "\" gives its windows or sessions when they close (emit: Final), and the program does "
            + "not take them; add app.onClose(...)");
      }
    }
  }

  private void join(List<Port> ports) {
    List<String> declared = names(ports);
    for (String name : app.inputs()) {
      if (!declared.contains(name)) {
        throw new ConfigException("the program handles input \"" + name + "\", which the manifest does not declare; inputs: "
            + listed(declared));
      }
    }
    for (Port port : ports) {
      Registered<?, ?> registered = app.handlers.get(port.name());
      if (registered == null) {
        throw new ConfigException("the manifest declares input \"" + port.name() + "\", for which the program has no handler; add app.on(\""
            + port.name() + "\", ...). Handlers exist for: " + listed(app.inputs()));
      }
      inputs.add(new Input(port.name(), port.topic(), registered));
    }
  }

  private List<Port> limited(List<Port> ports) {
    return ports.stream().map(port -> port.max() > 0 ? port
        : new Port(port.name(), port.topic(), port.type(), frameCap, port.size(), port.isFinal())).toList();
  }

  private static Map<String, Integer> ids(List<Port> ports, int first) {
    Map<String, Integer> ids = new LinkedHashMap<>();
    for (Port port : ports) {
      ids.put(port.name(), first + ids.size());
    }
    return ids;
  }

  /** How many stores, joins and lookups there are. */
  int readable() {
    return storeIds.size() + joinIds.size() + lookupIds.size();
  }

  static List<String> names(Collection<Port> ports) {
    return ports.stream().map(Port::name).toList();
  }

  static String listed(Iterable<String> names) {
    String text = String.join(", ", names);
    return text.isEmpty() ? "none" : text;
  }
}
