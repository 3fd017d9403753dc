package dev.millstream;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * A stream processor's program: handlers for the inputs of its manifest. Register them with {@link #on}, then call {@link #main}, or
 * {@link #start} where a program of your own runs it.
 */
public final class App {
  final Map<String, Registered<?, ?>> handlers = new LinkedHashMap<>();

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
