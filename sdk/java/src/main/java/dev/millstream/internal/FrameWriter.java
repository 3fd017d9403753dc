package dev.millstream.internal;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;

/** Makes the bytes of frames: every number in its shortest form. Not thread-safe. */
public final class FrameWriter {
  private static final BigInteger BEYOND_64_BITS = BigInteger.ONE.shiftLeft(64);

  private final MessageBufferPacker packer = MessagePack.newDefaultBufferPacker();

  private interface Write {
    void run() throws IOException;
  }

  // Writing to memory does not fail.
  private FrameWriter write(Write write) {
    try {
      write.run();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return this;
  }

  /** Bytes written so far. */
  public int size() {
    return (int) packer.getTotalWrittenBytes();
  }

  public FrameWriter list(int count) {
    return write(() -> packer.packArrayHeader(count));
  }

  public FrameWriter map(int count) {
    return write(() -> packer.packMapHeader(count));
  }

  public FrameWriter nil() {
    return write(packer::packNil);
  }

  public FrameWriter bool(boolean value) {
    return write(() -> packer.packBoolean(value));
  }

  public FrameWriter int64(long value) {
    return write(() -> packer.packLong(value));
  }

  /** A number of 64 bits without a sign. */
  public FrameWriter uint64(long value) {
    return value >= 0 ? int64(value) : write(() -> packer.packBigInteger(BigInteger.valueOf(value).add(BEYOND_64_BITS)));
  }

  public FrameWriter bin(byte[] data, int offset, int length) {
    return write(() -> {
      packer.packBinaryHeader(length);
      packer.writePayload(data, offset, length);
    });
  }

  public FrameWriter bin(Bytes data) {
    return bin(data.array, data.offset, data.length);
  }

  /** nil for null. */
  public FrameWriter maybeBin(Bytes data) {
    return data == null ? nil() : bin(data);
  }

  /** nil for null. */
  public FrameWriter maybeBin(byte[] data) {
    return data == null ? nil() : bin(data, 0, data.length);
  }

  public FrameWriter text(String text) {
    byte[] data = text.getBytes(StandardCharsets.UTF_8);
    return write(() -> {
      packer.packRawStringHeader(data.length);
      packer.writePayload(data);
    });
  }

  /** MessagePack that is there already. */
  public FrameWriter raw(byte[] data, int length) {
    return write(() -> packer.writePayload(data, 0, length));
  }

  public byte[] toBytes() {
    return packer.toByteArray();
  }
}
