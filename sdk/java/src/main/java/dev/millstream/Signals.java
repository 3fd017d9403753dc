package dev.millstream;

import java.lang.reflect.Proxy;
import java.util.concurrent.TimeUnit;

/**
 * SIGTERM and SIGINT as "stop in good order". The JVM's own answer, shutdown hooks, is too early for that: they close logs and connections
 * while handlers still serve.
 */
final class Signals {
  /** A second Ctrl-C sooner than this is the same one seen twice: the terminal signals the whole process group. */
  private static final long SAME_INTERRUPT_NANOS = TimeUnit.MILLISECONDS.toNanos(500);
  private static final int INTERRUPTED = 130;

  private final Runnable stop;
  private Long interruptedAt;

  private Signals(Runnable stop) {
    this.stop = stop;
  }

  static void handle(Runnable stop) {
    Signals signals = new Signals(stop);
    try {
      on("TERM", stop);
      on("INT", signals::interrupted);
    } catch (ReflectiveOperationException e) {
      // java -Xrs keeps signals to itself: the process then ends at once, and the sidecar has its batches done elsewhere.
      System.getLogger("millstream").log(System.Logger.Level.WARNING, "signals are not to be had (" + e + "): SIGTERM will not be orderly");
    }
  }

  // sun.misc.Signal is in every JDK (JEP 260), but the compiler warns of it whatever one says; hence by reflection.
  private static void on(String name, Runnable act) throws ReflectiveOperationException {
    Class<?> signal = Class.forName("sun.misc.Signal");
    Class<?> handler = Class.forName("sun.misc.SignalHandler");
    Object acting = Proxy.newProxyInstance(handler.getClassLoader(), new Class<?>[] {handler}, (proxy, method, arguments) -> {
      if (method.getName().equals("handle")) {
        act.run();
      }
      return null;
    });
    signal.getMethod("handle", signal, handler).invoke(null, signal.getConstructor(String.class).newInstance(name), acting);
  }

  private synchronized void interrupted() {
    long now = System.nanoTime();
    if (interruptedAt != null && now - interruptedAt > SAME_INTERRUPT_NANOS) {
      Runtime.getRuntime().halt(INTERRUPTED);
    }
    if (interruptedAt == null) {
      interruptedAt = now;
    }
    stop.run();
  }
}
