package dev.millstream;

/** What a program does when a timer is due; fails, and is tried again, as a {@link Handler} does. */
@FunctionalInterface
public interface TimerHandler<K> {
  void handle(Context ctx, Timer<K> timer) throws Exception;
}
