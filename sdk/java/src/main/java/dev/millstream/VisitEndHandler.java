package dev.millstream;

/** What a program does at the end of a visit; fails, and is tried again, as a {@link Handler} does. */
@FunctionalInterface
public interface VisitEndHandler<D> {
  void handle(Context ctx, VisitEnd<D> end) throws Exception;
}
