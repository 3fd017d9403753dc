package dev.millstream;

import dev.millstream.Options.Settings;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** An app at work. Thread-safe. */
public final class RunningApp implements AutoCloseable {
  private static final long IDLE_THREAD_SECONDS = 60;

  final App app;
  final Settings settings;
  /**
   * Handlers, and whatever else may block. As many threads as there are batches: at most `parallel` that count, and of cancelled ones at
   * most one of each task, for which the next batch of the task waits.
   */
  final ThreadPoolExecutor threads;
  /** Timeouts; nothing on it blocks. */
  final ScheduledThreadPoolExecutor timer;
  /** Records of one task are handled one after the other, even where the connection was lost in between. */
  final TaskQueues tasks = new TaskQueues();
  /** Calls of the committed hook, likewise. */
  final TaskQueues told = new TaskQueues();

  private final List<Worker> workers;
  private final CompletableFuture<Void> ended;

  RunningApp(App app, Settings settings) {
    this.app = app;
    this.settings = settings;
    threads = new ThreadPoolExecutor(0, Integer.MAX_VALUE, IDLE_THREAD_SECONDS, TimeUnit.SECONDS, new SynchronousQueue<>(),
        daemons("millstream-handler-"));
    timer = new ScheduledThreadPoolExecutor(1, daemons("millstream-timer-"));
    timer.setRemoveOnCancelPolicy(true);
    List<Worker> all = new ArrayList<>();
    for (int n = 0; n < settings.workers(); n++) {
      all.add(new Worker(this, name(settings.workers() > 1 ? "/" + n : "")));
    }
    workers = List.copyOf(all);
    CompletableFuture<?>[] ends = workers.stream().map(this::start).toArray(CompletableFuture[]::new);
    ended = CompletableFuture.allOf(ends).whenComplete((nothing, problem) -> {
      threads.shutdown();
      timer.shutdownNow();
    });
  }

  private CompletableFuture<Void> start(Worker worker) {
    CompletableFuture<Void> over = new CompletableFuture<>();
    Thread thread = new Thread(() -> {
      try {
        worker.run();
        over.complete(null);
      } catch (Throwable problem) {
        stop(); // one that cannot go on ends the others
        over.completeExceptionally(problem);
      }
    }, "millstream-" + worker.name());
    thread.start();
    return over;
  }

  private static String name(String suffix) {
    String host = "localhost";
    try {
      host = InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      // A name for people: any will do.
    }
    return host + "/" + ProcessHandle.current().pid() + suffix;
  }

  private static ThreadFactory daemons(String prefix) {
    AtomicInteger count = new AtomicInteger();
    return work -> {
      Thread thread = new Thread(work, prefix + count.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }

  /** Tells it to stop: it goes on serving until the sidecar's goodbye, at most {@link Options#stopTimeout}. Returns at once. */
  public void stop() {
    workers.forEach(Worker::stop);
  }

  /**
   * Waits for its end, which is that of {@link #stop}, or of a sidecar that stays away for too long.
   *
   * @throws ConfigException where program and manifest do not fit; starting again does not help
   * @throws MillstreamException what kept it from being connected
   */
  public void join() {
    try {
      ended.join();
    } catch (CompletionException e) {
      if (e.getCause() instanceof MillstreamException problem) {
        throw problem;
      }
      throw new MillstreamException("the worker failed: " + e.getCause(), e.getCause());
    }
  }

  /** {@link #stop} and {@link #join}. */
  @Override
  public void close() {
    stop();
    join();
  }
}
