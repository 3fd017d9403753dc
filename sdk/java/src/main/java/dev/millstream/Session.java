package dev.millstream;

import dev.millstream.internal.BatchFrame;
import dev.millstream.internal.Bytes;
import dev.millstream.internal.FrameReader;
import dev.millstream.internal.Frames;
import dev.millstream.internal.Kind;
import dev.millstream.internal.Utf8;
import dev.millstream.internal.WelcomeFrame;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntConsumer;
import java.util.function.LongFunction;

/**
 * One connection: handshake, the reading loop (serve, on the worker's thread), keep-alive, answers to GET and SCAN, and the way out for
 * results. Each batch runs on a thread of the pool.
 */
final class Session implements Link {
  /** The sidecar answers HELLO at once; a socket that somebody else listens on may not. */
  private static final long HANDSHAKE_MILLIS = 30_000;
  /** EXTEND goes out at least so many times within a deadline while there is progress. */
  private static final int BEATS_PER_DEADLINE = 4;
  private static final long LONGEST_BEAT_MILLIS = 5000;
  private static final long SHORTEST_BEAT_MILLIS = 20;
  /** For an ERROR to leave before the connection is closed. */
  private static final long TELL_MILLIS = 1000;
  private static final int MAX_ERROR_BYTES = 4096;

  private static final class Flight {
    final BatchRun run;
    int extended; // `done` of the last EXTEND

    Flight(BatchRun run) {
      this.run = run;
    }
  }

  /** VALUES or ROWS, the other's part null; `problem` is null for none. */
  private record Answer(int kind, Bytes[] values, Page page, String problem) {}

  /** Answered with null for a batch that no longer counts. */
  private record Question(long seq, CompletableFuture<Answer> answer) {}

  private final RunningApp running;
  private final FrameChannel channel;
  private final String name;
  private final AtomicBoolean beating = new AtomicBoolean();
  private final AtomicLong results = new AtomicLong();
  private volatile Schema schema; // null before WELCOME

  private final Object lock = new Object(); // guards what follows
  private final Map<Long, Flight> flights = new HashMap<>();
  private final Map<Long, Question> questions = new HashMap<>();
  private final Map<Integer, Map<Gathered<?>, Object>> gathered = new HashMap<>(); // by task
  private long nextRid = 1;
  private boolean leaving; // GOODBYE was said by either side: disconnect once nothing is in flight
  private boolean goodbye; // by the sidecar
  private boolean ended;
  private String reason = "";

  /** Owns the channel. */
  Session(RunningApp running, SocketChannel channel, String name) {
    this.running = running;
    this.channel = new FrameChannel(channel);
    this.name = name;
  }

  boolean isOpen() {
    return schema != null;
  }

  long results() {
    return results.get();
  }

  boolean saidGoodbye() {
    synchronized (lock) {
      return goodbye;
    }
  }

  String reason() {
    synchronized (lock) {
      return reason;
    }
  }

  /** For log lines. */
  String place() {
    return " processor=" + schema.processor + " session=" + Long.toUnsignedString(schema.session);
  }

  /**
   * Connects, HELLO and WELCOME. Throws RefusedException, ConfigException and ProtocolException (both told to the sidecar), or what the
   * connection does.
   */
  void open() throws IOException {
    Future<?> timeout = running.timer.schedule(() -> end("the sidecar did not answer HELLO"), HANDSHAKE_MILLIS, TimeUnit.MILLISECONDS);
    try {
      channel.connect(UnixDomainSocketAddress.of(running.settings.socket()));
      channel.send(Frames.hello(running.app.inputs(), running.app.capabilities(), running.settings.parallel(), name, Version.VERSION));
      Schema agreed = greeted(channel.receive());
      channel.setFrameCap(agreed.frameCap);
      schema = agreed;
    } catch (ConfigException | ProtocolException problem) {
      tell(problem);
      throw problem;
    } catch (IOException problem) {
      throw reason().isEmpty() ? problem : new IOException(reason(), problem); // it was ended by us
    } finally {
      timeout.cancel(false);
    }
  }

  private Schema greeted(byte[] payload) {
    FrameReader r = new FrameReader(payload);
    int fields = r.fields("frame", 1) - 1;
    long kind = r.uint64("kind");
    if (kind == Kind.ERROR && fields >= 2) {
      throw new RefusedException(r.text("code"), r.text("message"));
    }
    if (kind == Kind.GOODBYE) {
      throw new MillstreamException("the sidecar is going away");
    }
    if (kind != Kind.WELCOME || fields < 1) {
      throw FrameReader.bad("expected WELCOME, got " + Kind.name(kind));
    }
    WelcomeFrame welcome = WelcomeFrame.read(r);
    r.skip(fields - 1);
    r.end();
    return new Schema(welcome, running.app);
  }

  /** Reads until the connection ends; then all batches are void. */
  void serve() {
    long beat = Math.min(Math.max(schema.deadlineMillis / BEATS_PER_DEADLINE, SHORTEST_BEAT_MILLIS), LONGEST_BEAT_MILLIS);
    Future<?> beats = running.timer.scheduleAtFixedRate(this::beat, beat, beat, TimeUnit.MILLISECONDS);
    try {
      while (true) {
        dispatch(channel.receive());
      }
    } catch (ProtocolException problem) {
      tell(problem);
      end(problem.getMessage());
    } catch (IOException problem) {
      end(Failures.text(problem));
    } finally {
      beats.cancel(false);
    }
  }

  /** Closes the connection and voids everything. The first reason is kept. From any thread. */
  void end(String why) {
    List<BatchRun> voided;
    synchronized (lock) {
      if (reason.isEmpty()) {
        reason = why;
      }
      ended = true;
      voided = flights.values().stream().map(flight -> flight.run).toList();
    }
    channel.close();
    voided.forEach(this::cancel);
  }

  /** Asks for nothing more: what is in flight is served, then the connection ends. */
  void leave(String why) {
    if (!isOpen()) {
      return;
    }
    try {
      channel.send(Frames.goodbye(why));
    } catch (IOException e) {
      return; // the reader sees it too
    }
    synchronized (lock) {
      leaving = true;
    }
    endIfLeft();
  }

  private void endIfLeft() {
    boolean left;
    synchronized (lock) {
      left = leaving && flights.isEmpty();
    }
    if (left) {
      end("nothing is in flight after goodbye");
    }
  }

  // The sidecar keeps the first ERROR and shows it. One that does not read must not hold us up.
  private void tell(RuntimeException problem) {
    String code = problem instanceof ProtocolException protocol ? protocol.code() : Kind.WORKER_FAILED;
    Future<?> timeout = running.timer.schedule(channel::close, TELL_MILLIS, TimeUnit.MILLISECONDS);
    try {
      channel.sendLast(Frames.error(code, Utf8.cut(Failures.text(problem), MAX_ERROR_BYTES)));
    } catch (IOException e) {
      // The connection is over anyhow.
    } finally {
      timeout.cancel(false);
    }
  }

  /** Deals with one frame. */
  void dispatch(byte[] payload) throws IOException {
    FrameReader r = new FrameReader(payload);
    int fields = r.fields("frame", 1) - 1;
    long kind = r.uint64("kind");
    switch ((int) Math.min(kind, Integer.MAX_VALUE)) {
      case Kind.BATCH -> {
        BatchFrame frame = BatchFrame.read(r, fields, schema.shape);
        r.end();
        take(new BatchRun(schema, this, frame));
      }
      case Kind.VALUES -> answered(r, Kind.VALUES, fields - 3);
      case Kind.ROWS -> answered(r, Kind.ROWS, fields - 4);
      case Kind.CANCEL -> cancelBatch(one(r, fields, "CANCEL seq"));
      case Kind.OPEN -> dropGathered(one(r, fields, "OPEN task"));
      case Kind.CLOSE -> {
        long task = one(r, fields, "CLOSE task");
        dropGathered(task);
        cancelTask(task);
      }
      case Kind.BEGIN -> takeHook(r, fields, "begin", running.app.begin);
      case Kind.FINALIZE -> takeHook(r, fields, "finalize", running.app.finalizing);
      case Kind.COMMITTED -> committed(r, fields);
      case Kind.PING -> channel.send(Frames.number(Kind.PONG, one(r, fields, "PING nonce")));
      case Kind.PONG -> one(r, fields, "PONG nonce");
      case Kind.ERROR -> {
        if (fields < 2) {
          throw FrameReader.bad("ERROR has " + fields + " fields");
        }
        String code = r.text("code");
        throw new IOException("the sidecar ended the session: " + r.text("message") + " (" + code + "). What to do: " + ErrorCode.find(code).remedy());
      }
      case Kind.GOODBYE -> {
        if (fields < 1) {
          throw FrameReader.bad("GOODBYE has no reason");
        }
        String why = r.text("reason");
        synchronized (lock) {
          goodbye = true;
          leaving = true;
          reason = "the sidecar said goodbye: " + why;
        }
        endIfLeft();
      }
      default -> throw FrameReader.bad("unexpected " + Kind.name(kind));
    }
  }

  private static long one(FrameReader r, int fields, String field) {
    if (fields < 1) {
      throw FrameReader.bad("no " + field);
    }
    long number = r.uint64(field);
    r.skip(fields - 1);
    r.end();
    return number;
  }

  // -- hooks

  private void agreed(String hook, int fields, int least) {
    if (schema == null || !schema.capabilities.contains(hook) || !running.app.capabilities().contains(hook)) {
      throw FrameReader.bad("a frame for the hook " + hook + ", which HELLO and WELCOME did not agree upon");
    }
    if (fields < least) {
      throw FrameReader.bad("a frame for the hook " + hook + " has " + fields + " fields");
    }
  }

  private void takeHook(FrameReader r, int fields, String name, Hook hook) {
    agreed(name, fields, 2);
    BatchFrame frame = BatchFrame.empty(r.uint64("seq"), r.int32("task"), schema.readable());
    r.skip(fields - 2);
    r.end();
    take(new BatchRun(schema, this, frame, new BatchRun.HookCall(name, hook)));
  }

  private void committed(FrameReader r, int fields) {
    agreed("committed", fields, 1);
    IntConsumer hook = running.app.committed;
    for (int count = r.list("COMMITTED"); count > 0; count--) {
      int more = r.fields("COMMITTED", 2) - 2;
      int task = r.int32("task");
      r.uint64("seq");
      r.skip(more);
      running.told.add(task, running.threads, () -> {
        try {
          hook.accept(task);
        } catch (RuntimeException e) {
          running.settings.logger().log(Level.WARNING, "the committed hook failed for task " + task + "; it is committed all the same", e);
        }
      });
    }
    r.skip(fields - 1);
    r.end();
  }

  @Override
  public Map<Gathered<?>, Object> gathered(int task) {
    synchronized (lock) {
      return gathered.computeIfAbsent(task, one -> new HashMap<>());
    }
  }

  private void dropGathered(long task) {
    synchronized (lock) {
      gathered.remove((int) task);
    }
  }

  // -- batches

  /** Starts a batch that agrees with what is in flight. */
  private void take(BatchRun run) {
    String batch = "batch " + Long.toUnsignedString(run.frame.seq);
    Flight flight = new Flight(run);
    synchronized (lock) {
      if (flights.containsKey(run.frame.seq)) {
        throw FrameReader.bad(batch + " came twice");
      }
      // A cancelled batch that a handler has yet to let go of no longer counts: the sidecar sends the next at once.
      int valid = 0;
      for (Flight other : flights.values()) {
        if (!other.run.isVoid()) {
          valid++;
          if (other.run.frame.task == run.frame.task) {
            throw FrameReader.bad(batch + ": one of task " + run.frame.task + " is still in flight");
          }
        }
      }
      if (valid >= running.settings.parallel()) {
        throw FrameReader.bad(batch + " is more than the " + running.settings.parallel() + " this worker takes at once");
      }
      flights.put(run.frame.seq, flight);
    }
    running.tasks.add(run.frame.task, running.threads, () -> work(flight));
  }

  /** Runs one batch on its thread. */
  private void work(Flight flight) {
    try {
      byte[] result = flight.run.run();
      // Over before the frame leaves: the next batch of the task may come before send returns.
      if (channel.sendUnless(result, () -> flight.run.isVoid() || !forget(flight))) {
        results.incrementAndGet();
      } else {
        sayVoid(flight);
      }
    } catch (BatchVoidedError e) {
      sayVoid(flight);
    } catch (IOException | RuntimeException e) {
      end(Failures.text(e));
    } catch (Throwable e) {
      running.settings.logger().log(Level.ERROR, "a batch could not be answered", e);
      end(e.toString());
    }
    endIfLeft();
  }

  // A void batch is ended by an empty RESULT, which the sidecar drops.
  private void sayVoid(Flight flight) {
    if (forget(flight)) {
      try {
        channel.send(BatchRun.voidResult(flight.run.frame.seq));
      } catch (IOException e) {
        // The reader sees it too.
      }
    }
  }

  /** Takes a batch off the list; false if it was not there or the session has ended. */
  private boolean forget(Flight flight) {
    synchronized (lock) {
      return flights.remove(flight.run.frame.seq, flight) && !ended;
    }
  }

  private void cancelBatch(long seq) {
    Flight flight;
    synchronized (lock) {
      flight = flights.get(seq);
    }
    if (flight != null) {
      cancel(flight.run);
    }
  }

  private void cancelTask(long task) {
    List<BatchRun> voided;
    synchronized (lock) {
      voided = flights.values().stream().map(flight -> flight.run).filter(run -> run.frame.task == task).toList();
    }
    voided.forEach(this::cancel);
  }

  // It no longer counts: wakes what waits for it. Outside the lock, since actions are the program's.
  private void cancel(BatchRun run) {
    try {
      run.cancel();
    } catch (RuntimeException e) {
      running.settings.logger().log(Level.WARNING, "an action of Context.onCancel failed", e);
    }
    List<Question> open = new ArrayList<>();
    synchronized (lock) {
      questions.values().removeIf(question -> question.seq == run.frame.seq && open.add(question));
    }
    open.forEach(question -> question.answer.complete(null));
  }

  // -- keep-alive

  private void beat() {
    // Not on the timer: sending blocks where the sidecar does not read. Not twice at a time either.
    if (beating.compareAndSet(false, true)) {
      try {
        running.threads.execute(this::keepAlive);
      } catch (RejectedExecutionException e) {
        beating.set(false); // the app has ended
      }
    }
  }

  private void keepAlive() {
    try {
      for (Flight flight : progressed()) {
        // Asked while sending: nothing may follow the RESULT.
        channel.sendUnless(Frames.extend(flight.run.frame.seq, flight.extended), () -> !inFlight(flight));
      }
    } catch (IOException e) {
      // The reader sees it and says better.
    } finally {
      beating.set(false);
    }
  }

  private List<Flight> progressed() {
    List<Flight> found = new ArrayList<>();
    synchronized (lock) {
      for (Flight flight : flights.values()) {
        int done = flight.run.done;
        // A traced batch says EXTEND itself, before each item.
        if (done > flight.extended && !flight.run.frame.trace() && !flight.run.isVoid()) {
          flight.extended = done;
          found.add(flight);
        }
      }
    }
    return found;
  }

  private boolean inFlight(Flight flight) {
    synchronized (lock) {
      return flights.get(flight.run.frame.seq) == flight && !flight.run.isVoid();
    }
  }

  // -- link

  @Override
  public Bytes[] get(BatchRun batch, int store, List<Bytes> keys) {
    Answer answer = ask(batch, rid -> Frames.get(batch.frame.seq, rid, store, keys));
    if (answer.kind != Kind.VALUES || answer.values.length != keys.size()) {
      throw wrong("GET of " + keys.size() + " keys was answered with "
          + (answer.kind == Kind.VALUES ? answer.values.length + " values" : Kind.name(answer.kind)));
    }
    return answer.values;
  }

  @Override
  public Page scan(BatchRun batch, ScanRequest request) {
    Answer answer = ask(batch, rid -> request.frame(batch.frame.seq, rid));
    if (answer.kind != Kind.ROWS) {
      throw wrong("SCAN was answered with " + Kind.name(answer.kind));
    }
    return answer.page;
  }

  @Override
  public void extend(BatchRun batch, int done) {
    try {
      if (!channel.sendUnless(Frames.extend(batch.frame.seq, done), batch::isVoid)) {
        throw new BatchVoidedError();
      }
    } catch (IOException e) {
      throw new MillstreamException(Failures.text(e), e); // ends the session
    }
  }

  // A wrong answer ends the session; the handler that asked is void with it.
  private BatchVoidedError wrong(String problem) {
    tell(FrameReader.bad(problem));
    end(problem);
    return new BatchVoidedError();
  }

  private Answer ask(BatchRun batch, LongFunction<byte[]> frame) {
    Question question = new Question(batch.frame.seq, new CompletableFuture<>());
    long rid;
    synchronized (lock) {
      if (batch.isVoid() || ended) {
        throw new BatchVoidedError();
      }
      rid = nextRid++;
      questions.put(rid, question);
    }
    try {
      if (!channel.sendUnless(frame.apply(rid), batch::isVoid)) {
        throw new BatchVoidedError();
      }
      Answer answer = question.answer.join(); // by answered(), or by cancel(), which the end of the session is as well
      if (answer == null || "cancelled".equals(answer.problem)) {
        throw new BatchVoidedError();
      }
      if (answer.problem != null) {
        throw new StateException("the sidecar could not read the state: " + answer.problem, null);
      }
      return answer;
    } catch (IOException e) {
      throw new BatchVoidedError(); // the reader sees it too
    } finally {
      synchronized (lock) {
        questions.remove(rid);
      }
    }
  }

  /** `left`: optional fields at the end. */
  private void answered(FrameReader r, int kind, int left) {
    if (left < 0) {
      throw FrameReader.bad(Kind.name(kind) + " has too few fields");
    }
    long seq = r.uint64("seq");
    long rid = r.uint64("rid");
    Bytes[] values = kind == Kind.VALUES ? readValues(r) : null;
    Page page = kind == Kind.ROWS ? readRows(r) : null;
    String problem = r.more(left) ? r.text("error") : null;
    r.skip(left - 1);
    r.end();
    Question question;
    synchronized (lock) {
      question = questions.get(rid);
      if (question == null || question.seq != seq) {
        return; // its batch was cancelled meanwhile
      }
      questions.remove(rid);
    }
    question.answer.complete(new Answer(kind, values, page, problem));
  }

  private static Bytes[] readValues(FrameReader r) {
    Bytes[] values = new Bytes[r.list("VALUES")];
    for (int at = 0; at < values.length; at++) {
      values[at] = r.maybeBytes("value");
    }
    return values;
  }

  private static Page readRows(FrameReader r) {
    int count = r.list("ROWS");
    List<Row<Bytes, Bytes>> rows = new ArrayList<>(count);
    for (; count > 0; count--) {
      int fields = r.fields("row", 2);
      rows.add(new Row<>(r.bytes("key"), r.bytes("value")));
      r.skip(fields - 2);
    }
    return new Page(rows, r.maybeBytes("cursor"));
  }
}
