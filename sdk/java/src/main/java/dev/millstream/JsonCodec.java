package dev.millstream;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * JSON by Jackson. {@link Codecs#json} is the short way; this class takes generic types and a mapper of your own. Needs
 * {@code com.fasterxml.jackson.core:jackson-databind} among the program's dependencies.
 *
 * @param <T> what the program works with
 */
public final class JsonCodec<T> implements Codec<T> {
  // In a class of its own, so that a program with its own mapper never makes it.
  private static final class Default {
    // Producers add properties before consumers know them. Modules on the class path (java.time, ...) are found.
    static final ObjectMapper MAPPER = JsonMapper.builder().findAndAddModules()
        .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES).enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS).build();
  }

  private final String name;
  private final ObjectReader reader;
  private final ObjectWriter writer;

  private JsonCodec(ObjectMapper mapper, JavaType type) {
    this.name = "JSON of " + type.getRawClass().getSimpleName();
    this.reader = mapper.readerFor(type);
    this.writer = mapper.writerFor(type);
  }

  /** For a class: a record, a bean, Long, JsonNode, ... */
  public static <T> JsonCodec<T> of(Class<T> type) {
    return of(type, Default.MAPPER);
  }

  /** For a generic type: {@code JsonCodec.of(new TypeReference<List<Order>>() {})}. */
  public static <T> JsonCodec<T> of(TypeReference<T> type) {
    return of(type, Default.MAPPER);
  }

  /** With a mapper of your own, which must not be reconfigured afterwards. */
  public static <T> JsonCodec<T> of(Class<T> type, ObjectMapper mapper) {
    return new JsonCodec<>(mapper, mapper.constructType(type));
  }

  /** With a mapper of your own, which must not be reconfigured afterwards. */
  public static <T> JsonCodec<T> of(TypeReference<T> type, ObjectMapper mapper) {
    return new JsonCodec<>(mapper, mapper.constructType(type));
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public byte[] encode(T value) {
    try {
      return writer.writeValueAsBytes(value);
    } catch (JsonProcessingException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public T decode(byte[] data, int offset, int length) {
    try {
      return reader.readValue(data, offset, length);
    } catch (IOException e) {
      throw new UncheckedIOException(e.getMessage(), e);
    }
  }
}
