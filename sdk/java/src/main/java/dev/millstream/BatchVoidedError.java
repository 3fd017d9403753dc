package dev.millstream;

/**
 * The batch no longer counts: it was cancelled, or the connection ended. Let it pass; nothing of the batch is committed, and its records
 * come again. It is an {@link Error} on purpose, so that a {@code catch (Exception e)} in a handler does not swallow the news.
 */
public final class BatchVoidedError extends Error {
  private static final long serialVersionUID = 1L;

  BatchVoidedError() {
    super("the batch no longer counts", null, false, false);
  }
}
