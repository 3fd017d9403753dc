package dev.millstream;

/** What a program does when a window closes; fails, and is tried again, as a {@link Handler} does. */
@FunctionalInterface
public interface CloseHandler<K, V> {
  void handle(Context ctx, Window<K, V> window) throws Exception;
}
