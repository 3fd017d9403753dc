package dev.millstream;

import dev.millstream.internal.FrameWriter;
import dev.millstream.internal.Utf8;
import java.util.List;
import java.util.Objects;

/**
 * A handle on an output of the manifest, with the codecs of its keys and values. Declare it once, next to the handlers; it is safe for use
 * by all of them.
 *
 * <p>The output "loop" of a manifest with {@code loop: {}} brings the record back as the input "loop", in the task of its key: a key is
 * needed, a partition is not allowed.
 *
 * @param <K> its keys
 * @param <V> its values
 */
public final class Output<K, V> {
  /** The reserved name of the input and the output of a processor's own loop. */
  static final String LOOP = "loop";

  private final String name;
  final Codec<K> keyCodec;
  final Codec<V> valueCodec;
  private volatile Binding bound = Binding.NONE;

  private Output(String name, Codec<K> keyCodec, Codec<V> valueCodec) {
    this.name = Objects.requireNonNull(name, "the name of an output");
    this.keyCodec = Objects.requireNonNull(keyCodec, "the codec of an output's keys");
    this.valueCodec = Objects.requireNonNull(valueCodec, "the codec of an output's values");
  }

  /** Makes a handle. */
  public static <K, V> Output<K, V> of(String name, Codec<K> key, Codec<V> value) {
    return new Output<>(name, key, value);
  }

  /** Its name in the manifest. */
  public String name() {
    return name;
  }

  /**
   * Emits a record, which is committed together with the one being handled and gets its timestamp. A null key or value is null.
   *
   * @throws OutputException if it cannot be encoded or is beyond the limits
   * @throws UndeclaredException if the manifest does not declare the output
   */
  public void emit(Context ctx, K key, V value) {
    emit(ctx, key, value, EmitOptions.USUAL);
  }

  /** As the other, with options. */
  public void emit(Context ctx, K key, V value, EmitOptions options) {
    int id = id(ctx);
    byte[] rawKey = encode("key", keyCodec, key);
    byte[] rawValue = encode("value", valueCodec, value);
    long size = length(rawKey) + (long) length(rawValue);
    for (Header header : options.headers) {
      size += Utf8.encode(header.name()).length + length(header.value());
    }
    long most = ctx.batch.schema.outputs.get(id).max();
    if (size > most) {
      throw new OutputException("output \"" + name + "\": key, value and headers have " + size + " bytes, the limit is " + most);
    }
    Long timestamp = timestamp(ctx, options);
    if (name.equals(LOOP) && (rawKey == null || options.partition != null)) {
      throw new OutputException("output \"loop\": a record for the loop needs a key, which decides the task it comes back to, and no partition");
    }
    if (options.partition != null && options.partition < 0) {
      throw new OutputException("output \"" + name + "\": " + options.partition + " is not a partition");
    }
    FrameWriter w = ctx.batch.outputs();
    int before = w.size();
    write(w, id, rawKey, rawValue, timestamp, options.headers, options.partition);
    ctx.batch.emitted(w.size() - before, options.headers.size());
  }

  /** An output of RESULT. */
  static void write(FrameWriter w, int id, byte[] key, byte[] value, Long timestamp, List<Header> headers, Integer partition) {
    w.list(partition != null ? 6 : headers.isEmpty() ? 4 : 5).int64(id).maybeBin(key).maybeBin(value);
    if (timestamp == null) {
      w.nil();
    } else {
      w.int64(timestamp);
    }
    if (!headers.isEmpty()) {
      writeHeaders(w, headers);
    } else if (partition != null) {
      w.nil();
    }
    if (partition != null) {
      w.int64(partition);
    }
  }

  static void writeHeaders(FrameWriter w, List<Header> headers) {
    w.list(headers.size());
    for (Header header : headers) {
      w.list(2);
      if (Utf8.hasLoneSurrogate(header.name())) {
        w.maybeBin(Utf8.encode(header.name()));
      } else {
        w.text(header.name());
      }
      w.maybeBin(header.value());
    }
  }

  // null for a record without a time of its own, and no other chosen: the sidecar's clock.
  private Long timestamp(Context ctx, EmitOptions options) {
    Schema schema = ctx.batch.schema;
    if (options.timestamp == null && ctx.item == null) {
      return null;
    }
    long timestamp = options.timestamp != null ? options.timestamp : ctx.item.timestamp;
    if (timestamp >= schema.minTimestamp && timestamp <= schema.maxTimestamp) {
      return timestamp;
    }
    if (options.timestamp != null) {
      throw new OutputException("output \"" + name + "\": timestamp " + timestamp + " is outside " + schema.minTimestamp + " to "
          + schema.maxTimestamp);
    }
    return null;
  }

  private static int length(byte[] data) {
    return data == null ? 0 : data.length;
  }

  private <T> byte[] encode(String what, Codec<T> codec, T value) {
    if (value == null) {
      return null;
    }
    try {
      return codec.encode(value);
    } catch (RuntimeException e) {
      throw new OutputException("output \"" + name + "\": a " + what + " cannot be encoded as " + codec.name() + ": " + Failures.text(e), e);
    }
  }

  private int id(Context ctx) {
    ctx.check();
    Binding binding = bound;
    if (binding.schema() != ctx.batch.schema) {
      Integer id = ctx.batch.schema.outputIds.get(name);
      if (id == null) {
        throw new UndeclaredException("output", name, ctx.batch.schema.outputIds.keySet());
      }
      bound = binding = new Binding(ctx.batch.schema, id);
    }
    return binding.id();
  }
}
