package dev.millstream;

/** What a program does when a session closes; fails, and is tried again, as a {@link Handler} does. */
@FunctionalInterface
public interface CloseSessionHandler<K, V> {
  /** The capability of HELLO by which a program says that it takes them. */
  String CAPABILITY = "sessionClosings";

  /** Called with the session, from its first record to its last, and its last value. */
  void handle(Context ctx, OpenSession<K, V> session) throws Exception;
}
