package dev.millstream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.FakeSidecar.Connection;
import dev.millstream.internal.FrameReader;
import dev.millstream.internal.Frames;
import dev.millstream.internal.Kind;
import dev.millstream.internal.WelcomeFrame;
import dev.millstream.internal.WelcomeFrame.Port;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.System.Logger;
import java.net.StandardProtocolFamily;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.ResourceBundle;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What is Java's own about sessions; the protocol itself is tested by the conformance suite. */
class SessionTest {
  private FakeSidecar sidecar;
  private RunningApp running;

  /** A session that was never connected. */
  static Session offline() {
    App app = new App().on("in", Codecs.BYTES, Codecs.BYTES, (ctx, record) -> {});
    Options options = new Options().socket(Path.of("/nonexistent")).startTimeout(Duration.ZERO).logger(new Quiet());
    try {
      return new Session(new RunningApp(app, options.settings(Map.of())), SocketChannel.open(StandardProtocolFamily.UNIX), "x");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static Schema schema(int ports) {
    App app = new App();
    WelcomeFrame welcome = new WelcomeFrame();
    welcome.version = 1;
    welcome.inputs = ports("i", ports);
    welcome.outputs = ports("o", ports);
    welcome.stores = ports("s", ports);
    welcome.inputs.forEach(port -> app.on(port.name(), Codecs.BYTES, Codecs.BYTES, (ctx, record) -> {}));
    return new Schema(welcome, app);
  }

  private static List<Port> ports(String prefix, int count) {
    return IntStream.range(0, count).mapToObj(n -> new Port(prefix + n, prefix + n, "KeyValue", 0)).toList();
  }

  private record Quiet() implements Logger {
    @Override
    public String getName() {
      return "quiet";
    }

    @Override
    public boolean isLoggable(Level level) {
      return false;
    }

    @Override
    public void log(Level level, ResourceBundle bundle, String message, Throwable thrown) {}

    @Override
    public void log(Level level, ResourceBundle bundle, String format, Object... parameters) {}
  }

  @BeforeEach
  void listen() throws IOException {
    sidecar = new FakeSidecar();
  }

  @AfterEach
  void end() throws IOException {
    sidecar.close();
    if (running != null) {
      running.stop();
    }
  }

  private void start(Handler<String, String> handler, Options options) {
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, handler);
    running = app.start(options.socket(sidecar.path).logger(new Quiet()));
  }

  private void start(Handler<String, String> handler) {
    start(handler, new Options().stopTimeout(Duration.ofMillis(50)));
  }

  private void join() {
    FakeSidecar.within(() -> {
      running.join();
      return null;
    });
  }

  private static <T> T take(BlockingQueue<T> queue) {
    return FakeSidecar.within(queue::take);
  }

  @Test
  void cancelIsToldAndTheNextBatchOfTheTaskWaits() {
    AtomicInteger atWork = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    BlockingQueue<String> started = new LinkedBlockingQueue<>();
    CountDownLatch cancelled = new CountDownLatch(1);
    CountDownLatch letGo = new CountDownLatch(1);
    start((ctx, record) -> {
      most.accumulateAndGet(atWork.incrementAndGet(), Math::max);
      started.add(record.value());
      if (record.value().equals("1")) {
        ctx.onCancel(cancelled::countDown);
        cancelled.await();
        assertTrue(ctx.isCancelled());
        letGo.await();
      }
      atWork.decrementAndGet();
    });
    Connection c = sidecar.accept();
    c.batch(1, 0, "1", "lost");
    assertEquals("1", take(started));
    c.send(Frames.number(Kind.CANCEL, 1));
    c.batch(2, 0, "2");
    c.send(Frames.number(Kind.PING, 5));
    c.expect(Kind.PONG); // so both were read
    letGo.countDown();
    assertEquals(List.of(1L, 0L), c.result());
    assertEquals(List.of(2L, 1L), c.result());
    assertEquals("2", take(started));
    assertEquals(1, most.get());
  }

  @Test
  void aHandlerThatHoldsOnToALostConnectionDoesNotKeepItFromComingBack() {
    CountDownLatch letGo = new CountDownLatch(1);
    AtomicInteger atWork = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    BlockingQueue<String> started = new LinkedBlockingQueue<>();
    start((ctx, record) -> {
      most.accumulateAndGet(atWork.incrementAndGet(), Math::max);
      started.add(record.value());
      if (record.value().equals("stuck")) {
        letGo.await();
      }
      atWork.decrementAndGet();
    });
    Connection first = sidecar.accept();
    first.batch(1, 0, "stuck");
    assertEquals("stuck", take(started));
    first.send(Frames.error("DeadlineExceeded", "too long"));
    Connection second = sidecar.accept();
    second.batch(2, 0, "again");
    second.batch(3, 1, "other task");
    assertEquals("other task", take(started));
    assertEquals(List.of(3L, 1L), second.result());
    letGo.countDown();
    assertEquals(List.of(2L, 1L), second.result());
    assertEquals(2, most.get()); // never two of task 0
  }

  @Test
  void tasksRunAtTheSameTime() {
    CyclicBarrier meet = new CyclicBarrier(2);
    start((ctx, record) -> meet.await(FakeSidecar.SECONDS, TimeUnit.SECONDS), new Options().parallel(2).stopTimeout(Duration.ofMillis(50)));
    Connection c = sidecar.accept();
    c.batch(1, 0, "a");
    c.batch(2, 1, "b");
    assertEquals(1L, c.result().get(1));
    assertEquals(1L, c.result().get(1));
  }

  @Test
  void errorsOfTheMachineFailTheirRecordOnly() {
    start((ctx, record) -> {
      if (record.value().equals("deep")) {
        endless(0);
      }
      assertFalse(record.value().isEmpty());
    });
    Connection c = sidecar.accept();
    c.batch(1, 0, "fine", "deep");
    assertEquals(List.of(1L, 1L), c.result());
    c.batch(2, 0, "fine", "");
    assertEquals(List.of(2L, 1L), c.result());
    c.batch(3, 0, "fine");
    assertEquals(List.of(3L, 1L), c.result());
  }

  private static int endless(int n) {
    return endless(n + 1) + 1;
  }

  @Test
  void anInterruptedHandlerDoesNotCloseTheConnection() {
    Store<String, Long> store = Store.of("s", Codecs.STRING, Codecs.LONG);
    start((ctx, record) -> {
      Thread.currentThread().interrupt();
      store.get(ctx, "other");
    });
    Connection c = sidecar.accept();
    c.batch(1, 0, "a");
    FrameReader get = c.expect(Kind.GET);
    c.send(Frames.begin(Kind.VALUES, 3).uint64(get.uint64("seq")).uint64(get.uint64("rid")).list(1).nil().toBytes());
    assertEquals(List.of(1L, 1L), c.result());
    c.batch(2, 0);
    assertEquals(List.of(2L, 0L), c.result());
  }

  @Test
  void aStoppedWorkerServesUntilGoodbye() {
    start((ctx, record) -> {}, new Options().stopTimeout(Duration.ofMinutes(1)));
    Connection c = sidecar.accept();
    c.batch(1, 0, "a");
    c.result();
    running.stop();
    c.batch(2, 0, "a");
    c.result();
    c.send(Frames.goodbye("drained"));
    c.expectEnd();
    join();
  }

  @Test
  void withoutGoodbyeAStoppedWorkerLeavesAfterItsBound() {
    start((ctx, record) -> {});
    Connection c = sidecar.accept();
    c.batch(1, 0, "a");
    c.result();
    running.stop();
    c.expect(Kind.GOODBYE);
    c.expectEnd();
    join();
  }

  @Test
  void stoppedBeforeTheSidecarAnswers() {
    start((ctx, record) -> {});
    Connection c = sidecar.acceptHello();
    running.stop();
    c.expectEnd();
    join();
  }

  @Test
  void severalWorkers() {
    start((ctx, record) -> {}, new Options().workers(2).stopTimeout(Duration.ofMillis(50)));
    Connection first = sidecar.accept();
    Connection second = sidecar.accept();
    first.batch(1, 0, "a");
    second.batch(1, 1, "a");
    first.result();
    second.result();
  }

  @Test
  void aRefusalForGoodIsAConfigException() {
    start((ctx, record) -> {});
    sidecar.acceptHello().send(Frames.error("Refused", "no such input"));
    assertTrue(assertThrows(ConfigException.class, this::join).getMessage().contains("no such input (Refused)"));
  }

  @Test
  void aManifestThatDoesNotFitIsToldToTheSidecar() {
    App app = new App().on("elsewhere", Codecs.STRING, Codecs.STRING, (ctx, record) -> {});
    running = app.start(new Options().socket(sidecar.path).logger(new Quiet()));
    Connection c = sidecar.accept();
    FrameReader error = c.expect(Kind.ERROR);
    assertEquals("WorkerFailed", error.text("code"));
    assertEquals("the program handles input \"elsewhere\", which the manifest does not declare; inputs: in", error.text("message"));
    assertThrows(ConfigException.class, this::join);
  }

  @Test
  void lengthsThatCannotBe() {
    for (byte[] length : new byte[][] {{0, 0, 0, 0}, {2, 0, 0, 0}}) {
      if (running != null) {
        running.stop();
      }
      start((ctx, record) -> {});
      Connection c = sidecar.accept();
      c.sendRaw(length);
      FrameReader error = c.expect(Kind.ERROR);
      assertEquals(length[0] == 0 ? "BadFrame" : "FrameTooLarge", error.text("code"));
      c.expectEnd();
    }
  }

  @Test
  void nobodyListens() {
    App app = new App().on("in", Codecs.STRING, Codecs.STRING, (ctx, record) -> {});
    Options options = new Options().socket(Path.of("/nonexistent/w.sock")).startTimeout(Duration.ofMillis(1)).logger(new Quiet());
    running = app.start(options);
    assertTrue(assertThrows(NoSidecarException.class, this::join).getMessage().contains("run: millstream run -f processor.yaml"));
    assertTrue(assertThrows(ConfigException.class, () -> new App().start(options)).getMessage().contains("no handler"));
    assertTrue(assertThrows(ConfigException.class, () -> app.start(new Options().socket(Path.of("/" + "x".repeat(107))))).getMessage()
        .contains("over 107 bytes"));
    assertThrows(ConfigException.class, () -> new Options().parallel(0));
  }

  @Test
  void whatTheEnvironmentSays() {
    Options.Settings settings = new Options().settings(Map.of("MILLSTREAM_SOCKET", "/x.sock", "MILLSTREAM_STOP_TIMEOUT", "1.5"));
    assertEquals(Path.of("/x.sock"), settings.socket());
    assertEquals(Duration.ofMillis(1500), settings.stopTimeout());
    assertEquals(Duration.ofMinutes(1), settings.startTimeout());
    settings = new Options().settings(Map.of("MILLSTREAM_STOP_TIMEOUT", "soon"));
    assertEquals(Path.of("/run/millstream/worker.sock"), settings.socket());
    assertEquals(Duration.ofSeconds(30), settings.stopTimeout());
    assertEquals(Duration.ZERO, settings.startTimeout());
  }
}
