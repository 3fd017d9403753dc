package dev.millstream;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.millstream.internal.FrameReader;
import dev.millstream.internal.FrameWriter;
import dev.millstream.internal.Frames;
import dev.millstream.internal.Kind;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The sidecar's end of the socket, frame by frame. Every wait ends after a while. */
final class FakeSidecar implements AutoCloseable {
  static final long SECONDS = 30;

  private final Path folder = Files.createTempDirectory("ms");
  final Path path = folder.resolve("w.sock");
  private final ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);

  FakeSidecar() throws IOException {
    listener.bind(UnixDomainSocketAddress.of(path));
  }

  @Override
  public void close() throws IOException {
    listener.close();
    Files.deleteIfExists(path);
    Files.delete(folder);
  }

  interface Task<T> {
    T run() throws Exception;
  }

  /** Runs something that may block, but not for ever. */
  static <T> T within(Task<T> task) {
    CompletableFuture<T> done = new CompletableFuture<>();
    Thread thread = new Thread(() -> {
      try {
        done.complete(task.run());
      } catch (Throwable e) {
        done.completeExceptionally(e);
      }
    });
    thread.setDaemon(true);
    thread.start();
    try {
      return done.get(SECONDS, TimeUnit.SECONDS);
    } catch (TimeoutException e) {
      throw new AssertionError("it did not happen within " + SECONDS + " s", e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof RuntimeException problem) {
        throw problem;
      }
      throw new AssertionError(e.getCause());
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** A connection whose HELLO was taken, without an answer. */
  Connection acceptHello() {
    Connection connection = new Connection(within(listener::accept));
    connection.expect(Kind.HELLO);
    return connection;
  }

  /** After a handshake with input "in", output "out", store "s". */
  Connection accept() {
    Connection connection = acceptHello();
    FrameWriter w = Frames.begin(Kind.WELCOME, 1).map(7).text("protocol").int64(1).text("session").int64(7).text("processor").text("test");
    for (String[] port : new String[][] {{"inputs", "in"}, {"outputs", "out"}, {"stores", "s"}}) {
      w.text(port[0]).list(1).map(1).text("name").text(port[1]);
    }
    connection.send(w.text("limits").map(1).text("max_timestamp").int64(1L << 50).toBytes());
    return connection;
  }

  /** A frame without its kind; the reader stands behind it. */
  record Frame(long kind, FrameReader reader) {}

  static final class Connection implements AutoCloseable {
    private final SocketChannel socket;

    Connection(SocketChannel socket) {
      this.socket = socket;
    }

    @Override
    public void close() throws IOException {
      socket.close();
    }

    void send(byte[] payload) {
      sendRaw(ByteBuffer.allocate(4 + payload.length).putInt(payload.length).put(payload).array());
    }

    void sendRaw(byte[] bytes) {
      ByteBuffer out = ByteBuffer.wrap(bytes);
      within(() -> {
        while (out.hasRemaining()) {
          socket.write(out);
        }
        return null;
      });
    }

    /** null at the end of the connection. */
    Frame receive() {
      return within(() -> {
        ByteBuffer length = ByteBuffer.allocate(4);
        if (!fill(length)) {
          return null;
        }
        ByteBuffer payload = ByteBuffer.allocate(length.flip().getInt());
        assertEquals(true, fill(payload), "a whole frame");
        FrameReader r = new FrameReader(payload.array());
        r.fields("frame", 1);
        return new Frame(r.uint64("kind"), r);
      });
    }

    private boolean fill(ByteBuffer buffer) throws IOException {
      while (buffer.hasRemaining()) {
        if (socket.read(buffer) < 0) {
          return false;
        }
      }
      return true;
    }

    FrameReader expect(int kind) {
      Frame frame = receive();
      assertEquals(Kind.name(kind), frame == null ? "the end" : Kind.name(frame.kind()));
      return frame.reader();
    }

    void expectEnd() {
      Frame frame = receive();
      assertEquals("the end", frame == null ? "the end" : Kind.name(frame.kind()));
    }

    /** Records of one key with these values. */
    void batch(long seq, int task, String... values) {
      FrameWriter w = Frames.begin(Kind.BATCH, 7).uint64(seq).int64(task).int64(0).list(1).bin("k".getBytes(StandardCharsets.UTF_8), 0, 1);
      w.list(values.length);
      for (int n = 0; n < values.length; n++) {
        w.list(8).int64(0).int64(0).int64(n).int64(1000).int64(0).maybeBin(values[n].getBytes(StandardCharsets.UTF_8)).nil().int64(1);
      }
      send(w.map(0).nil().toBytes());
    }

    /** Waits for a RESULT: seq and done. */
    List<Long> result() {
      FrameReader r = expect(Kind.RESULT);
      return List.of(r.uint64("seq"), r.int64("done"));
    }
  }
}
