package dev.millstream;

/**
 * What a program does with a record of an input.
 *
 * <p>All records of one key of an input reach it in order; records of different tasks reach it at the same time from several threads. It may
 * be <em>called</em> more than once for a record; its state changes and outputs count once.
 *
 * <p>What it throws ends the batch at its record: what it wrote and emitted is dropped, the records before it count, and the sidecar
 * retries, skips, dead-letters or stops as {@code errors} in the manifest says. Throw {@link RejectRecordException} for what no retry can
 * cure.
 *
 * @param <K> the record's key
 * @param <V> the record's value
 */
@FunctionalInterface
public interface Handler<K, V> {
  void handle(Context ctx, InputRecord<K, V> record) throws Exception;
}
