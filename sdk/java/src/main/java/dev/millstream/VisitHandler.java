package dev.millstream;

/** What a program does with a row of a visit; fails, and is tried again, as a {@link Handler} does. */
@FunctionalInterface
public interface VisitHandler<K, V, D> {
  void handle(Context ctx, Visited<K, V, D> row) throws Exception;
}
