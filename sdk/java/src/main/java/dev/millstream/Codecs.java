package dev.millstream;

import dev.millstream.internal.Utf8;
import java.util.Arrays;

/** The ready-made codecs. */
public final class Codecs {
  /** Bytes as they are. */
  public static final Codec<byte[]> BYTES = new BytesCodec();

  /**
   * UTF-8. Every byte string survives a round trip: a byte that is no UTF-8 is the lone surrogate U+DC00 + byte, and the very same byte
   * again.
   */
  public static final Codec<String> STRING = new StringCodec();

  /** 8 bytes big-endian, as Kafka's LongSerializer; scans order negative numbers after positive ones. */
  public static final Codec<Long> LONG = new LongCodec();

  /** 4 bytes big-endian, as Kafka's IntegerSerializer; scans order negative numbers after positive ones. */
  public static final Codec<Integer> INTEGER = new IntegerCodec();

  private Codecs() {}

  /**
   * Compact JSON, by Jackson: records, beans, maps, numbers, ... Properties that the class does not know are ignored. Needs
   * {@code com.fasterxml.jackson.core:jackson-databind} among the program's own dependencies. For generic types and a mapper of your own see
   * {@link JsonCodec}.
   *
   * @throws ConfigException without Jackson
   */
  public static <T> Codec<T> json(Class<T> type) {
    try {
      return JsonCodec.of(type);
    } catch (NoClassDefFoundError e) {
      throw new ConfigException("Codecs.json needs Jackson, which is not on the class path (" + e.getMessage()
          + "); add com.fasterxml.jackson.core:jackson-databind to the program's dependencies");
    }
  }

  private static final class BytesCodec implements Codec<byte[]> {
    @Override
    public String name() {
      return "bytes";
    }

    @Override
    public byte[] encode(byte[] value) {
      return value.clone();
    }

    @Override
    public byte[] decode(byte[] data, int offset, int length) {
      return Arrays.copyOfRange(data, offset, offset + length);
    }
  }

  private static final class StringCodec implements Codec<String> {
    @Override
    public String name() {
      return "text";
    }

    @Override
    public byte[] encode(String value) {
      return Utf8.encode(value);
    }

    @Override
    public String decode(byte[] data, int offset, int length) {
      return Utf8.decode(data, offset, length);
    }
  }

  private static final class LongCodec implements Codec<Long> {
    @Override
    public String name() {
      return "an 8-byte integer";
    }

    @Override
    public byte[] encode(Long value) {
      byte[] data = new byte[Long.BYTES];
      long left = value;
      for (int at = data.length - 1; at >= 0; at--, left >>= 8) {
        data[at] = (byte) left;
      }
      return data;
    }

    @Override
    public Long decode(byte[] data, int offset, int length) {
      return bigEndian(data, offset, length, Long.BYTES);
    }
  }

  private static final class IntegerCodec implements Codec<Integer> {
    @Override
    public String name() {
      return "a 4-byte integer";
    }

    @Override
    public byte[] encode(Integer value) {
      int number = value;
      return new byte[] {(byte) (number >> 24), (byte) (number >> 16), (byte) (number >> 8), (byte) number};
    }

    @Override
    public Integer decode(byte[] data, int offset, int length) {
      return (int) bigEndian(data, offset, length, Integer.BYTES);
    }
  }

  private static long bigEndian(byte[] data, int offset, int length, int wanted) {
    if (length != wanted) {
      throw new IllegalArgumentException("it is " + wanted + " bytes big-endian, these are " + length);
    }
    long number = 0;
    for (int at = offset; at < offset + length; at++) {
      number = number << 8 | data[at] & 0xff;
    }
    return number;
  }
}
