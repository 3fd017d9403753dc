package dev.millstream.internal;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Keys of the rows of windowed stores: the record's key, then a window's start as a signed 64-bit big-endian integer; for a session start
 * and end with the sign bit flipped, so that a key's sessions sort by time (docs/reference/protocol.md).
 */
public final class RowKeys {
  private RowKeys() {}

  public static Bytes window(Bytes key, long start) {
    return Bytes.of(longer(key, Long.BYTES).putLong(start).array());
  }

  public static Bytes session(Bytes key, long start, long end) {
    return Bytes.of(longer(key, 2 * Long.BYTES).putLong(start ^ Long.MIN_VALUE).putLong(end ^ Long.MIN_VALUE).array());
  }

  private static ByteBuffer longer(Bytes key, int more) {
    byte[] row = Arrays.copyOf(key.toArray(), key.length + more);
    return ByteBuffer.wrap(row).position(key.length);
  }
}
