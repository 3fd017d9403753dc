package dev.millstream;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/** Has the batches of each task handled one after the other, without a thread that waits. Thread-safe. */
final class TaskQueues {
  private final Map<Integer, CompletableFuture<Void>> lastOf = new HashMap<>(); // guarded by this

  /** Runs `work` on the executor after what was given for the task before. It must not throw. */
  synchronized void add(int task, Executor threads, Runnable work) {
    CompletableFuture<Void> before = lastOf.getOrDefault(task, CompletableFuture.completedFuture(null));
    CompletableFuture<Void> over = before.thenRunAsync(work, threads);
    lastOf.put(task, over);
    over.whenComplete((nothing, problem) -> remove(task, over));
  }

  private synchronized void remove(int task, CompletableFuture<Void> over) {
    lastOf.remove(task, over);
  }
}
