package dev.millstream;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;

/** How a program is run: {@code new Options().parallel(8)}. The defaults are what most programs want. Not thread-safe. */
public final class Options {
  private static final int MOST = 256;
  private static final int MAX_PATH_BYTES = 107;

  private Path socket;
  private int parallel = Math.max(Runtime.getRuntime().availableProcessors(), 2);
  private int workers = 1;
  private Duration startTimeout;
  private Duration lostTimeout = Duration.ofMinutes(5);
  private Duration stopTimeout;
  private System.Logger logger = System.getLogger("millstream");

  /** The defaults. */
  public Options() {}

  /** The sidecar's socket; default $MILLSTREAM_SOCKET, else /run/millstream/worker.sock. */
  public Options socket(Path path) {
    socket = Objects.requireNonNull(path, "a socket");
    return this;
  }

  /** How many tasks one worker takes at the same time, each on a thread; 1 to 256, by default as many as there are processors, at least 2. */
  public Options parallel(int tasks) {
    parallel = within("parallel", tasks);
    return this;
  }

  /**
   * How many connections the program opens, 1 to 256; the sidecar spreads tasks over them. One, the default, is enough: a worker uses all
   * processors where {@link #parallel} allows it.
   */
  public Options workers(int connections) {
    workers = within("workers", connections);
    return this;
  }

  /** Bounds the wait for the first connection; default 60 s where a socket was named, else none. */
  public Options startTimeout(Duration timeout) {
    startTimeout = Objects.requireNonNull(timeout, "a timeout");
    return this;
  }

  /** Bounds the wait for a sidecar that went away; default 5 min. */
  public Options lostTimeout(Duration timeout) {
    lostTimeout = Objects.requireNonNull(timeout, "a timeout");
    return this;
  }

  /** How long a program told to stop serves until the sidecar's goodbye; default $MILLSTREAM_STOP_TIMEOUT seconds, else 30 s. */
  public Options stopTimeout(Duration timeout) {
    stopTimeout = Objects.requireNonNull(timeout, "a timeout");
    return this;
  }

  /** Where the SDK logs; default the logger "millstream" of {@link System#getLogger}, which SLF4J, Log4j and others can take over. */
  public Options logger(System.Logger log) {
    logger = Objects.requireNonNull(log, "a logger");
    return this;
  }

  private static int within(String what, int number) {
    if (number < 1 || number > MOST) {
      throw new ConfigException("Options." + what + " is 1 to " + MOST + ", not " + number);
    }
    return number;
  }

  /** What was chosen, with the defaults of the environment. */
  record Settings(Path socket, int parallel, int workers, Duration startTimeout, Duration lostTimeout, Duration stopTimeout,
      System.Logger logger) {}

  Settings settings(Map<String, String> environment) {
    String named = environment.getOrDefault("MILLSTREAM_SOCKET", "");
    Path path = socket != null ? socket : Path.of(named.isEmpty() ? "/run/millstream/worker.sock" : named);
    if (path.toString().getBytes(StandardCharsets.UTF_8).length > MAX_PATH_BYTES) {
      throw new ConfigException("socket path \"" + path + "\" is over " + MAX_PATH_BYTES + " bytes; set MILLSTREAM_SOCKET to a shorter one");
    }
    Duration start = startTimeout;
    if (start == null) {
      start = socket != null || !named.isEmpty() ? Duration.ofMinutes(1) : Duration.ZERO;
    }
    Duration stop = stopTimeout != null ? stopTimeout : stopTimeout(environment.get("MILLSTREAM_STOP_TIMEOUT"));
    return new Settings(path, parallel, workers, start, lostTimeout, stop, logger);
  }

  private static Duration stopTimeout(String seconds) {
    try {
      double number = seconds == null ? 0 : Double.parseDouble(seconds);
      if (number > 0 && number < Integer.MAX_VALUE) {
        return Duration.ofMillis(Math.round(number * 1000));
      }
    } catch (NumberFormatException e) {
      // Not for us to complain: the default.
    }
    return Duration.ofSeconds(30);
  }
}
