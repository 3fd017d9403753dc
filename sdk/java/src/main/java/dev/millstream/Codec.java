package dev.millstream;

/**
 * Turns keys or values into bytes and back. Null keys and values never reach one. Codecs are used by several threads at the same time. For
 * Avro, Protobuf or a schema registry write one of your own; {@link Codecs} has the ready-made ones.
 *
 * @param <T> what the program works with
 */
public interface Codec<T> {
  /** What it makes, as it is to appear in errors: "this value is not NAME". */
  String name();

  /** The bytes of a value, which nobody changes afterwards. What it throws fails the record, class Output. */
  byte[] encode(T value);

  /**
   * The value of {@code length} bytes from {@code offset} on. The array is shared with other records: it must not be changed, and what is
   * returned must not refer to it. What it throws fails the record, class Decode.
   */
  T decode(byte[] data, int offset, int length);
}
