package dev.millstream;

import dev.millstream.internal.FrameReader;
import dev.millstream.internal.Kind;
import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import java.util.function.BooleanSupplier;

/** Whole frames over a socket: one thread receives, any thread sends. Close from any thread ends both. */
final class FrameChannel {
  /** Bytes go through memory of this size: a socket would make some of the frame's size for every thread. */
  private static final int BUFFER_BYTES = 256 << 10;

  private final SocketChannel socket;
  private final ByteBuffer in = ByteBuffer.allocateDirect(BUFFER_BYTES).flip();
  private final Object sendLock = new Object(); // keeps frames whole
  private final ByteBuffer out = ByteBuffer.allocateDirect(BUFFER_BYTES); // guarded by sendLock
  private boolean sentLast; // guarded by sendLock
  private volatile int frameCap = Kind.DEFAULT_FRAME_CAP;

  FrameChannel(SocketChannel socket) {
    this.socket = socket;
  }

  void connect(SocketAddress address) throws IOException {
    socket.connect(address);
  }

  void setFrameCap(int bytes) {
    frameCap = bytes;
  }

  void close() {
    try {
      socket.close();
    } catch (IOException e) {
      // It is of no use to anybody any more.
    }
  }

  void send(byte[] payload) throws IOException {
    sendUnless(payload, () -> false);
  }

  /** Sends a frame that nothing may follow: whoever sends one after it finds the connection closed. */
  void sendLast(byte[] payload) throws IOException {
    synchronized (sendLock) {
      try {
        send(payload);
      } finally {
        sentLast = true;
      }
    }
  }

  /** Sends a frame, unless `dropped`, asked when it is its turn, says that it no longer should be. */
  boolean sendUnless(byte[] payload, BooleanSupplier dropped) throws IOException {
    if (payload.length > frameCap) {
      throw new OutputException("a frame of " + payload.length + " bytes is over the cap of " + frameCap);
    }
    synchronized (sendLock) {
      if (sentLast) {
        throw new ClosedChannelException();
      }
      if (dropped.getAsBoolean()) {
        return false;
      }
      // Sending on a thread that the program has interrupted would close the connection.
      boolean interrupted = Thread.interrupted();
      try {
        write(payload);
      } finally {
        if (interrupted) {
          Thread.currentThread().interrupt();
        }
      }
      return true;
    }
  }

  private void write(byte[] payload) throws IOException {
    out.clear().putInt(payload.length);
    for (int at = 0; at < payload.length || out.position() > 0; ) {
      int count = Math.min(payload.length - at, out.remaining());
      out.put(payload, at, count).flip();
      at += count;
      while (out.hasRemaining()) {
        socket.write(out);
      }
      out.clear();
    }
  }

  /** The next frame without its length, in memory of its own: what is read from it is kept as it is. */
  byte[] receive() throws IOException {
    byte[] prefix = new byte[Kind.LENGTH_BYTES];
    fill(prefix, "the sidecar closed the connection");
    long length = Integer.toUnsignedLong(ByteBuffer.wrap(prefix).getInt());
    if (length > frameCap) {
      throw new ProtocolException(Kind.FRAME_TOO_LARGE, "a frame of " + length + " bytes is over the cap of " + frameCap);
    }
    if (length == 0) {
      throw FrameReader.bad("an empty frame");
    }
    byte[] payload = new byte[(int) length];
    fill(payload, "the connection ended in the middle of a frame");
    return payload;
  }

  private void fill(byte[] target, String atTheEnd) throws IOException {
    for (int at = 0; at < target.length; ) {
      if (!in.hasRemaining()) {
        in.clear();
        int got = read(atTheEnd);
        in.flip();
        if (got < 0) {
          throw new IOException(atTheEnd);
        }
      }
      int count = Math.min(target.length - at, in.remaining());
      in.get(target, at, count);
      at += count;
    }
  }

  private int read(String atTheEnd) throws IOException {
    try {
      return socket.read(in);
    } catch (ClosedChannelException e) {
      throw new IOException("the connection was closed", e);
    } catch (IOException e) {
      throw new IOException("reading from the sidecar: " + e.getMessage(), e);
    }
  }
}
