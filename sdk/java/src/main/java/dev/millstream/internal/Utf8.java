package dev.millstream.internal;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * UTF-8 in which every byte string survives: a byte that is no UTF-8 becomes the lone surrogate U+DC00 + byte, and the very same byte
 * again (as Python's "surrogateescape", PEP 383).
 */
public final class Utf8 {
  private static final char ESCAPE = '\uDC00';

  private Utf8() {}

  public static String decode(byte[] data, int offset, int length) {
    String text = new String(data, offset, length, StandardCharsets.UTF_8);
    // The replacement character is what malformed input becomes, and rarely in the text itself.
    return text.indexOf('\uFFFD') < 0 ? text : decodeEscaping(data, offset, length);
  }

  private static String decodeEscaping(byte[] data, int offset, int length) {
    CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder()
        .onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT);
    ByteBuffer in = ByteBuffer.wrap(data, offset, length);
    CharBuffer out = CharBuffer.allocate(length);
    while (in.hasRemaining()) {
      CoderResult result = decoder.decode(in, out, true);
      if (result.isError()) {
        for (int n = result.length(); n > 0; n--) {
          out.put((char) (ESCAPE + (in.get() & 0xff)));
        }
        decoder.reset();
      }
    }
    return out.flip().toString();
  }

  public static byte[] encode(String text) {
    return hasLoneSurrogate(text) ? encodeEscaped(text) : text.getBytes(StandardCharsets.UTF_8);
  }

  /** Whether a text has something that UTF-8 cannot say. */
  public static boolean hasLoneSurrogate(String text) {
    for (int at = 0; at < text.length(); at++) {
      char c = text.charAt(at);
      if (c < Character.MIN_SURROGATE || c > Character.MAX_SURROGATE) {
        continue;
      }
      if (at + 1 == text.length() || !Character.isSurrogatePair(c, text.charAt(at + 1))) {
        return true;
      }
      at++;
    }
    return false;
  }

  private static byte[] encodeEscaped(String text) {
    byte[] out = new byte[3 * text.length()];
    int size = 0;
    for (int at = 0; at < text.length(); at++) {
      char c = text.charAt(at);
      if (c >= ESCAPE + 0x80 && c <= ESCAPE + 0xff) {
        out[size++] = (byte) c;
        continue;
      }
      boolean pair = at + 1 < text.length() && Character.isSurrogatePair(c, text.charAt(at + 1));
      if (Character.isSurrogate(c) && !pair) {
        throw new IllegalArgumentException("a lone surrogate at character " + at + " is not text");
      }
      byte[] one = text.substring(at, pair ? at + 2 : at + 1).getBytes(StandardCharsets.UTF_8);
      System.arraycopy(one, 0, out, size, one.length);
      size += one.length;
      if (pair) {
        at++;
      }
    }
    return Arrays.copyOf(out, size);
  }

  /** Valid UTF-8 of at most so many bytes, saying how many there were. */
  public static String cut(String text, int most) {
    byte[] data = text.getBytes(StandardCharsets.UTF_8); // what is no text becomes '?'
    if (data.length <= most) {
      return new String(data, StandardCharsets.UTF_8);
    }
    int end = most;
    while (end > 0 && (data[end] & 0xc0) == 0x80) {
      end--;
    }
    return new String(data, 0, end, StandardCharsets.UTF_8) + "\n... (" + data.length + " bytes in all)";
  }
}
