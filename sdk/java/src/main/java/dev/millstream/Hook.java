package dev.millstream;

/**
 * What a program does when a transaction begins ({@link App#onBegin}) or before it is closed ({@link App#onFinalize}). What it writes and
 * emits joins the transaction. It belongs to no record: there is no default key, and the sidecar's clock is the default time of outputs.
 * What it throws aborts the transaction, which is tried again.
 */
@FunctionalInterface
public interface Hook {
  void run(Context ctx) throws Exception;
}
