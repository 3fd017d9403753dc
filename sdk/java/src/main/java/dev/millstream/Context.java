package dev.millstream;

import dev.millstream.internal.BatchItem;
import dev.millstream.internal.BatchItem.OpenWindow;
import dev.millstream.internal.Bytes;
import java.text.MessageFormat;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.ResourceBundle;
import java.util.function.Function;

/**
 * Belongs to one call of a handler or hook: while it runs, and on its thread. Stores and outputs take it to know what is being handled.
 */
public final class Context {
  final BatchRun batch;
  final BatchItem item; // null in a hook
  final int index;
  private final Thread thread = Thread.currentThread();
  private final Map<Integer, OpenSession<?, ?>> sessions = new HashMap<>(0); // that the handler looked at, by store
  private boolean over;

  Context(BatchRun batch, int index) {
    this.batch = batch;
    this.item = batch.hook == null ? batch.frame.items[index] : null;
    this.index = index;
  }

  /**
   * The input's name in the manifest; "(begin)", "(finalize)", "(timer)", "(closing)" or "(visit)" in a function that is not called for a
   * record.
   */
  public String input() {
    if (item == null) {
      return "(" + batch.hook.name() + ")";
    }
    return switch (item.kind) {
      case BatchItem.TIMER -> "(timer)";
      case BatchItem.CLOSING -> "(closing)";
      case BatchItem.VISIT -> "(visit)";
      default -> batch.schema.inputs.get(item.input).name();
    };
  }

  /** The number of the task, which is the partition of every input. */
  public int task() {
    return batch.frame.task;
  }

  /** The processor's name in the manifest. */
  public String processor() {
    return batch.schema.processor;
  }

  /** How far event time has come in this task, in milliseconds since 1970; empty before the first record counts. */
  public OptionalLong watermark() {
    Long watermark = batch.frame.watermark;
    return watermark == null ? OptionalLong.empty() : OptionalLong.of(watermark);
  }

  /** Whether the batch no longer counts (cancelled, connection lost). A handler that takes long looks at it and ends. From any thread. */
  public boolean isCancelled() {
    return batch.isVoid();
  }

  /**
   * Runs an action when the batch no longer counts, at once if it is so already: to end what the handler waits for. Actions are quick and
   * run on another thread; those of a handler that has returned are not run.
   */
  public void onCancel(Runnable action) {
    checkCaller();
    batch.onVoid(action);
  }

  /** A logger named like the processor that adds to every message where it is: task, input and offset. */
  public System.Logger logger() {
    return new PlacedLogger(System.getLogger("millstream." + processor()),
        " task=" + task() + " input=" + input() + (item == null ? "" : " offset=" + item.offset));
  }

  /** null for a record without a key. */
  Bytes key() {
    return item == null || item.keyIndex < 0 ? null : batch.frame.keys[item.keyIndex];
  }

  /** State and outputs are for the handler's thread while it runs: later or elsewhere they would go into another record's effects. */
  void check() {
    checkCaller();
    if (batch.isVoid()) {
      throw new BatchVoidedError();
    }
  }

  private void checkCaller() {
    if (over || thread != Thread.currentThread()) {
      throw new IllegalStateException("a Context is used by its handler's thread while the handler runs; let the handler wait for what its "
          + "other threads find, and write and emit itself");
    }
  }

  void end() {
    over = true;
  }

  /** The session of the record in a store, the same object for every call; null if the record is late. */
  OpenSession<?, ?> session(int store, Function<OpenWindow, OpenSession<?, ?>> maker) {
    OpenSession<?, ?> known = sessions.get(store);
    for (OpenWindow window : item == null ? List.<OpenWindow>of() : item.windows) {
      if (known == null && window.store() == store) {
        known = maker.apply(window);
        sessions.put(store, known);
      }
    }
    return known;
  }

  /** After the handler: sessions that it did not write keep what they had. */
  void finishSessions() {
    if (item == null) {
      return;
    }
    for (OpenWindow window : item.windows) {
      if (window.parts() != null) {
        session(window.store(), open -> batch.schema.sessionStore(open.store()).open(this, open)).finish();
      }
    }
  }

  private record PlacedLogger(System.Logger logger, String place) implements System.Logger {
    @Override
    public String getName() {
      return logger.getName();
    }

    @Override
    public boolean isLoggable(Level level) {
      return logger.isLoggable(level);
    }

    @Override
    public void log(Level level, ResourceBundle bundle, String message, Throwable thrown) {
      logger.log(level, bundle, message + place, thrown);
    }

    @Override
    public void log(Level level, ResourceBundle bundle, String format, Object... parameters) {
      if (isLoggable(level)) {
        String text = parameters == null || parameters.length == 0 ? format : MessageFormat.format(format, parameters);
        logger.log(level, bundle, text + place, (Throwable) null);
      }
    }
  }
}
