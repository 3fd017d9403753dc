package dev.millstream;

import dev.millstream.Options.Settings;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.StandardProtocolFamily;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** One connection to the sidecar at a time, made again when it ends. Its thread connects and reads; use once. */
final class Worker {
  private static final Duration FIRST_BACKOFF = Duration.ofMillis(50);
  private static final Duration LONGEST_BACKOFF = Duration.ofSeconds(2);
  /** A session that lived so long, or returned a result, was a good one: the next one is tried without delay. */
  private static final Duration GOOD_SESSION = Duration.ofSeconds(5);
  /** After the bound for stopping the worker says GOODBYE and serves what is in flight for so long. */
  private static final Duration LEAVE = Duration.ofSeconds(5);
  /** Told to stop while HELLO is unanswered: so long for a WELCOME that is on its way. */
  private static final Duration HELLO_GRACE = Duration.ofSeconds(1);

  private final RunningApp running;
  private final Settings settings;
  private final String name;
  private final CountDownLatch stopping = new CountDownLatch(1);
  private Session session; // guarded by this
  private boolean saidWaiting;

  Worker(RunningApp running, String name) {
    this.running = running;
    this.settings = running.settings;
    this.name = name;
  }

  String name() {
    return name;
  }

  private boolean isStopping() {
    return stopping.getCount() == 0;
  }

  /** Returns after an orderly end; throws the reason why there is no point in going on. */
  void run() {
    long waitUntil = System.nanoTime() + settings.startTimeout().toNanos();
    Duration backoff = FIRST_BACKOFF;
    boolean connectedOnce = false;
    while (!isStopping()) {
      long began = System.nanoTime();
      try {
        long results = oneSession();
        connectedOnce = true;
        waitUntil = System.nanoTime() + settings.lostTimeout().toNanos();
        if (results > 0 || System.nanoTime() - began > GOOD_SESSION.toNanos()) {
          backoff = FIRST_BACKOFF;
        }
      } catch (IOException | MillstreamException problem) {
        if (isStopping()) {
          return;
        }
        giveUpOrLog(problem, System.nanoTime() - waitUntil >= 0, connectedOnce);
      }
      pause(backoff);
      backoff = backoff.multipliedBy(2).compareTo(LONGEST_BACKOFF) < 0 ? backoff.multipliedBy(2) : LONGEST_BACKOFF;
    }
  }

  // Jitter, so that the workers of a pod do not all knock at once. Ends early when told to stop.
  private void pause(Duration backoff) {
    long half = backoff.toNanos() / 2;
    try {
      stopping.await(half + ThreadLocalRandom.current().nextLong(half), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      stop(); // nobody but a program that wants its end interrupts this thread
    }
  }

  /** Serves one connection to its end; the number of results it returned. */
  private long oneSession() throws IOException {
    Session next = new Session(running, SocketChannel.open(StandardProtocolFamily.UNIX), name);
    setSession(next);
    try {
      next.open();
      saidWaiting = false;
      settings.logger().log(Level.INFO, "connected to the sidecar socket=" + settings.socket() + next.place());
      next.serve();
    } finally {
      setSession(null);
      next.end("");
    }
    boolean orderly = next.saidGoodbye() || isStopping();
    settings.logger().log(orderly ? Level.INFO : Level.WARNING, "session ended: " + next.reason() + next.place());
    return next.results();
  }

  private synchronized void setSession(Session next) {
    session = next;
    if (next != null && isStopping()) {
      stop(next);
    }
  }

  /** Serves until the sidecar's goodbye, for a time; then leaves. From any thread; must not block. */
  synchronized void stop() {
    if (isStopping()) {
      return;
    }
    stopping.countDown();
    if (session != null) {
      stop(session);
    }
  }

  private void stop(Session stopped) {
    // Nothing is in flight before WELCOME, so the sidecar is not waited for.
    later(HELLO_GRACE.toMillis(), () -> {
      if (!stopped.isOpen()) {
        stopped.end("told to stop");
      }
    });
    long bound = settings.stopTimeout().toMillis();
    later(bound, () -> running.threads.execute(() -> stopped.leave("the worker was told to stop")));
    later(bound + LEAVE.toMillis(), () -> stopped.end("told to stop"));
  }

  private void later(long milliseconds, Runnable act) {
    running.timer.schedule(act, milliseconds, TimeUnit.MILLISECONDS);
  }

  private void giveUpOrLog(Exception problem, boolean waitedEnough, boolean connectedOnce) {
    if (problem instanceof ConfigException config) {
      throw config;
    }
    if (problem instanceof RefusedException refused && ErrorCode.find(refused.code()).isFinal()) {
      throw new ConfigException("the sidecar refuses this program: " + refused.getMessage() + ". What to do: " + ErrorCode.find(refused.code()).remedy());
    }
    if (!waitedEnough) {
      if (!saidWaiting) {
        saidWaiting = true;
        settings.logger().log(Level.INFO, "waiting for the sidecar: " + Failures.text(problem));
      }
      return;
    }
    if (connectedOnce) {
      throw new NoSidecarException("the sidecar at " + settings.socket() + " went away and did not come back within "
          + settings.lostTimeout().toSeconds() + " s: " + Failures.text(problem), problem);
    }
    if (problem instanceof IOException) {
      throw new NoSidecarException("no sidecar at " + settings.socket() + " (" + Failures.text(problem)
          + "); run: millstream run -f processor.yaml -- java -jar program.jar", problem);
    }
    throw (MillstreamException) problem;
  }
}
