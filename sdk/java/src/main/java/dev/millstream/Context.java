package dev.millstream;

import dev.millstream.internal.BatchFrame.Item;
import dev.millstream.internal.Bytes;
import java.text.MessageFormat;
import java.util.OptionalLong;
import java.util.ResourceBundle;

/**
 * Belongs to one call of a handler or hook: while it runs, and on its thread. Stores and outputs take it to know what is being handled.
 */
public final class Context {
  final BatchRun batch;
  final Item item; // null in a hook
  final int index;
  private final Thread thread = Thread.currentThread();
  private boolean over;

  Context(BatchRun batch, int index) {
    this.batch = batch;
    this.item = batch.hook == null ? batch.frame.items[index] : null;
    this.index = index;
  }

  /** The input's name in the manifest; in a hook, which has none, "(begin)" or "(finalize)". */
  public String input() {
    return item == null ? "(" + batch.hook.name() + ")" : batch.schema.inputs.get(item.input).name();
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
