package dev.millstream;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.type.TypeReference;
import dev.millstream.internal.Bytes;
import dev.millstream.internal.Utf8;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class CodecsTest {
  private static <T> T decode(Codec<T> codec, byte[] data) {
    byte[] framed = new byte[data.length + 2];
    System.arraycopy(data, 0, framed, 1, data.length);
    return codec.decode(framed, 1, data.length);
  }

  @Test
  void integers() {
    for (long n : new long[] {0, 1, -1, 1L << 62, Long.MIN_VALUE, Long.MAX_VALUE}) {
      assertEquals(n, decode(Codecs.LONG, Codecs.LONG.encode(n)));
      assertEquals((int) n, decode(Codecs.INTEGER, Codecs.INTEGER.encode((int) n)));
    }
    assertArrayEquals(new byte[] {0, 0, 0, 0, 0, 0, 1, 2}, Codecs.LONG.encode(258L));
    assertArrayEquals(new byte[] {-1, -1, -1, -2}, Codecs.INTEGER.encode(-2));
    assertThrows(IllegalArgumentException.class, () -> decode(Codecs.LONG, new byte[7]));
    assertThrows(IllegalArgumentException.class, () -> decode(Codecs.INTEGER, new byte[8]));
  }

  @Test
  void everyByteStringSurvivesAsText() {
    assertEquals("\udcff\u0000a", decode(Codecs.STRING, new byte[] {(byte) 0xff, 0, 'a'}));
    assertEquals("\uFFFD", decode(Codecs.STRING, "\uFFFD".getBytes(StandardCharsets.UTF_8)));
    long seed = System.nanoTime();
    Random random = new Random(seed);
    byte[] interesting = {'a', (byte) 0xc3, (byte) 0xa9, (byte) 0xed, (byte) 0xb3, (byte) 0xbf, (byte) 0xf0, (byte) 0x9f, (byte) 0x98, (byte) 0x80, (byte) 0xff};
    for (int n = 0; n < 20_000; n++) {
      byte[] data = new byte[random.nextInt(12)];
      for (int at = 0; at < data.length; at++) {
        data[at] = random.nextBoolean() ? interesting[random.nextInt(interesting.length)] : (byte) random.nextInt();
      }
      assertArrayEquals(data, Codecs.STRING.encode(decode(Codecs.STRING, data)), () -> "seed " + seed + ": " + Bytes.of(data));
    }
  }

  @Test
  void whatIsNoText() {
    assertThrows(IllegalArgumentException.class, () -> Codecs.STRING.encode("\ud800"));
    assertThrows(IllegalArgumentException.class, () -> Codecs.STRING.encode("a\udc00"));
    assertArrayEquals("a\ud83d\ude00".getBytes(StandardCharsets.UTF_8), Codecs.STRING.encode("a\ud83d\ude00"));
  }

  @Test
  void bytesAreCopies() {
    byte[] data = {1, 2};
    byte[] encoded = Codecs.BYTES.encode(data);
    data[0] = 9;
    assertArrayEquals(new byte[] {1, 2}, encoded);
  }

  record Order(String customer, long amount) {}

  @Test
  void json() {
    Codec<Order> orders = Codecs.json(Order.class);
    assertEquals("{\"customer\":\"anna\",\"amount\":3}", new String(orders.encode(new Order("anna", 3)), StandardCharsets.UTF_8));
    assertEquals(new Order("é", 4), decode(orders, "{\"later\":1,\"customer\":\"é\",\"amount\":4}".getBytes(StandardCharsets.UTF_8)));
    Codec<Map<String, List<Long>>> generic = JsonCodec.of(new TypeReference<Map<String, List<Long>>>() {});
    assertEquals(Map.of("a", List.of(1L)), decode(generic, generic.encode(Map.of("a", List.of(1L)))));
    for (String wrong : new String[] {"{", "", "{}{}", "{\"amount\":\"x\"}"}) {
      assertThrows(RuntimeException.class, () -> decode(orders, wrong.getBytes(StandardCharsets.UTF_8)), wrong);
    }
  }

  /** The package without Jackson on the class path. */
  private static final class WithoutJackson extends ClassLoader {
    WithoutJackson() {
      super(CodecsTest.class.getClassLoader());
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
      if (name.startsWith("com.fasterxml.")) {
        throw new ClassNotFoundException(name);
      }
      if (!name.startsWith("dev.millstream.")) {
        return super.loadClass(name, resolve);
      }
      Class<?> loaded = findLoadedClass(name);
      if (loaded != null) {
        return loaded;
      }
      try (InputStream in = getResourceAsStream(name.replace('.', '/') + ".class")) {
        byte[] code = in.readAllBytes();
        return defineClass(name, code, 0, code.length);
      } catch (java.io.IOException e) {
        throw new ClassNotFoundException(name, e);
      }
    }
  }

  @Test
  void withoutJacksonTheOthersWorkAndJsonSaysWhatToAdd() throws ReflectiveOperationException {
    Class<?> codecs = new WithoutJackson().loadClass("dev.millstream.Codecs");
    assertEquals("dev.millstream.Codecs$LongCodec", codecs.getField("LONG").get(null).getClass().getName());
    Throwable problem = assertThrows(InvocationTargetException.class, () -> codecs.getMethod("json", Class.class).invoke(null, Long.class)).getCause();
    assertEquals("dev.millstream.ConfigException", problem.getClass().getName());
    assertTrue(problem.getMessage().contains("com.fasterxml.jackson.core:jackson-databind"), problem.getMessage());
  }

  @Test
  void textsAreCutBetweenCharacters() {
    assertEquals("é\n... (4 bytes in all)", Utf8.cut("éé", 3));
    assertEquals("éé", Utf8.cut("éé", 4));
    assertEquals("?", Utf8.cut("\udcff", 10));
  }

  @Test
  void afterPrefix() {
    assertEquals(Bytes.of(new byte[] {'b'}), Store.afterPrefix(Bytes.of(new byte[] {'a'})));
    assertEquals(Bytes.of(new byte[] {'b'}), Store.afterPrefix(Bytes.of(new byte[] {'a', -1})));
    assertEquals(null, Store.afterPrefix(Bytes.of(new byte[] {-1, -1})));
    assertEquals(null, Store.afterPrefix(Bytes.of(new byte[0])));
  }
}
