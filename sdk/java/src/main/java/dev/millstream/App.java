package dev.millstream;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.IntConsumer;

/**
 * A stream processor's program: handlers for the inputs of its manifest. Register them with {@link #on}, then call {@link #main}, or
 * {@link #start} where a program of your own runs it.
 */
public final class App {
  final Map<String, Registered<?, ?>> handlers = new LinkedHashMap<>();
  final Map<Timers.Id, DueHandler> timers = new LinkedHashMap<>();
  /** By store. */
  final Map<String, DueHandler> closings = new LinkedHashMap<>();
  final Map<String, SessionStore<?, ?>> sessions = new LinkedHashMap<>();
  final Map<String, VisitHandlers> visits = new LinkedHashMap<>();
  /** null where the program has none. */
  Hook begin;
  Hook finalizing;
  IntConsumer committed;

  /** Without handlers. */
  public App() {}

  /**
   * Makes a function the handler of an input of the manifest, one per input. Call it before the app is started.
   *
   * @throws ConfigException if the input has a handler already
   */
  public <K, V> App on(String input, Codec<K> key, Codec<V> value, Handler<? super K, ? super V> handler) {
    Objects.requireNonNull(input, "the name of an input");
    Objects.requireNonNull(key, "the codec of an input's keys");
    Objects.requireNonNull(value, "the codec of an input's values");
    Objects.requireNonNull(handler, "a handler");
    @SuppressWarnings("unchecked") // a handler only takes keys and values
    Handler<K, V> narrowed = (Handler<K, V>) handler;
    if (handlers.putIfAbsent(input, new Registered<>(key, value, narrowed)) != null) {
      throw new ConfigException("input \"" + input + "\" already has a handler");
    }
    return this;
  }

  /** Handles a timer, a window or session that closes, or a row of a visit. */
  interface DueHandler {
    void handle(Context ctx) throws Exception;
  }

  /**
   * Makes a function the handler of timers that are due.
   *
   * @throws ConfigException if they have a handler already
   */
  public <K> App onTimer(Timers<K> handle, TimerHandler<? super K> handler) {
    @SuppressWarnings("unchecked") // a handler only takes keys
    TimerHandler<K> narrowed = (TimerHandler<K>) Objects.requireNonNull(handler, "a handler");
    DueHandler due = ctx -> narrowed.handle(ctx, new Timer<>(handle.name(), handle.decodeKey(ctx.key()), ctx.item.timestamp, ctx.item.attempt));
    if (timers.putIfAbsent(handle.id(), due) != null) {
      throw new ConfigException("timer \"" + handle.name() + "\" already has a handler");
    }
    return this;
  }

  /**
   * Makes a function the handler of windows that close, of a store with {@code emit: Final}: called once for each window, in committed
   * effect, when event time has passed its end and grace.
   *
   * @throws ConfigException if they have a handler already
   */
  public <K, V> App onClose(WindowStore<K, V> store, CloseHandler<? super K, ? super V> handler) {
    @SuppressWarnings("unchecked") // a handler only takes keys and values, which it may write
    CloseHandler<K, V> narrowed = (CloseHandler<K, V>) Objects.requireNonNull(handler, "a handler");
    DueHandler due = ctx -> narrowed.handle(ctx, store.window(ctx, ctx.key(), ctx.item.span.start()));
    return onClose(store.name(), due);
  }

  /**
   * Makes a function the handler of sessions that close, of a store with {@code emit: Final}: called once for each session, in committed
   * effect, when event time has passed its end, gap and grace. A session to which nothing was written has no value.
   *
   * @throws ConfigException if they have a handler already
   */
  public <K, V> App onClose(SessionStore<K, V> store, CloseSessionHandler<? super K, ? super V> handler) {
    @SuppressWarnings("unchecked") // a handler only takes keys and values, which it may write
    CloseSessionHandler<K, V> narrowed = (CloseSessionHandler<K, V>) Objects.requireNonNull(handler, "a handler");
    return onClose(store.name(), ctx -> narrowed.handle(ctx, store.session(ctx).orElseThrow()));
  }

  private App onClose(String store, DueHandler due) {
    if (closings.putIfAbsent(store, due) != null) {
      throw new ConfigException("store \"" + store + "\" already has a handler of what closes");
    }
    return this;
  }

  /** What a program does with one visit; null where it does nothing. */
  static final class VisitHandlers {
    final Visit<?, ?, ?> visit;
    DueHandler rows;
    DueHandler end;

    VisitHandlers(Visit<?, ?, ?> visit) {
      this.visit = visit;
    }
  }

  /**
   * Makes a function the handler of the rows of a visit: called for every row of its store in the task, in the order of the key bytes, once
   * in committed effect. Records are handled in between.
   *
   * @throws ConfigException if they have a handler already
   */
  public <K, V, D> App onVisit(Visit<K, V, D> visit, VisitHandler<K, V, D> handler) {
    Objects.requireNonNull(handler, "a handler");
    VisitHandlers known = visits.computeIfAbsent(visit.name(), name -> new VisitHandlers(visit));
    if (known.rows != null) {
      throw new ConfigException("visit \"" + visit.name() + "\" already has a handler");
    }
    known.rows = ctx -> {
      Visited<K, V, D> row = visit.visited(ctx);
      if (row != null) {
        handler.handle(ctx, row);
      }
    };
    return this;
  }

  /**
   * Makes a function the one that is called behind the last row of a visit.
   *
   * @throws ConfigException if there is one already
   */
  public <D> App onVisitEnd(Visit<?, ?, D> visit, VisitEndHandler<D> handler) {
    Objects.requireNonNull(handler, "a handler");
    VisitHandlers known = visits.computeIfAbsent(visit.name(), name -> new VisitHandlers(visit));
    if (known.end != null) {
      throw new ConfigException("the end of visit \"" + visit.name() + "\" already has a handler");
    }
    known.end = ctx -> handler.handle(ctx, visit.end(ctx));
    return this;
  }

  /** Tells of session stores how to merge also where no handler looks at the session; see {@link SessionStore#merging}. */
  public App sessions(SessionStore<?, ?>... stores) {
    for (SessionStore<?, ?> store : stores) {
      sessions.put(store.name(), store);
    }
    return this;
  }

  /**
   * Has a function run when a transaction begins for a task. Transactions then hold whole batches, as with {@link #onFinalize}.
   *
   * @throws ConfigException if there is one already
   */
  public App onBegin(Hook hook) {
    once("begin", begin);
    begin = Objects.requireNonNull(hook, "a hook");
    return this;
  }

  /**
   * Has a function run before a transaction is closed: what it writes and emits joins it; see {@link Gathered}. Transactions then hold whole
   * batches and are not closed while one is out: it costs latency.
   *
   * @throws ConfigException if there is one already
   */
  public App onFinalize(Hook hook) {
    once("finalize", finalizing);
    finalizing = Objects.requireNonNull(hook, "a hook");
    return this;
  }

  /**
   * Has a function run, with the number of the task, after a transaction with effects of the task is committed: at most once for each, and
   * not at all if the sidecar ends in between. For side effects that may be left out. It runs beside handlers, on a thread of its own.
   *
   * @throws ConfigException if there is one already
   */
  public App onCommitted(IntConsumer hook) {
    once("committed", committed);
    committed = Objects.requireNonNull(hook, "a hook");
    return this;
  }

  private static void once(String name, Object hook) {
    if (hook != null) {
      throw new ConfigException("there is a function for " + name + " already");
    }
  }

  /** What the sidecar is to use; see the protocol's HELLO. */
  List<String> capabilities() {
    List<String> names = new ArrayList<>();
    if (begin != null) {
      names.add("begin");
    }
    if (finalizing != null) {
      names.add("finalize");
    }
    if (committed != null) {
      names.add("committed");
    }
    if (!closings.isEmpty()) {
      names.add(CloseSessionHandler.CAPABILITY);
    }
    if (!visits.isEmpty()) {
      names.add(Visit.CAPABILITY);
    }
    return names;
  }

  /** The names of the inputs that have handlers, in the order of {@link #on}. */
  public List<String> inputs() {
    return List.copyOf(handlers.keySet());
  }

  /**
   * Serves the sidecar on threads of its own.
   *
   * @throws ConfigException if there is no handler, or an option that cannot be
   */
  public RunningApp start(Options options) {
    if (handlers.isEmpty()) {
      throw new ConfigException("the program has no handler; add app.on(\"input-name\", ...)");
    }
    return new RunningApp(this, options.settings(System.getenv()));
  }

  /** {@link #main(Options)} with the defaults. */
  public void main() {
    main(new Options());
  }

  /**
   * For the main method: serves until the sidecar's goodbye and ends the process, with exit code 0, or 2 where program and manifest do not
   * fit, or 1; the error is printed. SIGTERM and SIGINT tell the program to stop: it goes on serving until the sidecar's goodbye. A second
   * Ctrl-C ends it at once. Does not return; what is to be done at the end belongs into shutdown hooks.
   */
  public void main(Options options) {
    int code = 0;
    try (RunningApp running = start(options)) {
      Signals.handle(running::stop);
      running.join();
    } catch (MillstreamException e) {
      System.err.println("millstream: " + e.getMessage());
      code = e instanceof ConfigException ? 2 : 1;
    }
    System.exit(code);
  }
}
