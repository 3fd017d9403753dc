package dev.millstream.internal;

import dev.millstream.ProtocolException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.msgpack.core.ExtensionTypeHeader;
import org.msgpack.core.MessageIntegerOverflowException;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessagePackException;
import org.msgpack.core.MessageUnpacker;
import org.msgpack.value.ValueType;

/**
 * Takes MessagePack values off the front of a frame. Byte strings are views of it, so the frame must not be written to afterwards. Whatever
 * is not as the protocol says gives a {@link ProtocolException} that names the field. Not thread-safe.
 */
public final class FrameReader {
  /** A state value that was not sent along: extension type 1. */
  public static final Bytes NOT_PREFETCHED = new Bytes(new byte[0], 0, 0);

  private static final int NOT_PREFETCHED_EXTENSION = 1;

  private final byte[] frame;
  private final int start;
  private final int end;
  private final MessageUnpacker unpacker;

  public FrameReader(byte[] frame) {
    this(frame, 0, frame.length);
  }

  public FrameReader(Bytes part) {
    this(part.array, part.offset, part.length);
  }

  private FrameReader(byte[] frame, int offset, int length) {
    this.frame = frame;
    this.start = offset;
    this.end = offset + length;
    this.unpacker = MessagePack.newDefaultUnpacker(frame, offset, length);
  }

  /** Where the next value begins in the array of the frame. */
  public int position() {
    return start + (int) unpacker.getTotalReadBytes();
  }

  private int remaining() {
    return end - position();
  }

  public static ProtocolException bad(String problem) {
    return new ProtocolException(Kind.BAD_FRAME, problem);
  }

  private static ProtocolException bad(String field, Exception cause) {
    String why = cause.getMessage() == null ? cause.getClass().getSimpleName() : cause.getMessage();
    return bad(field + ": " + why);
  }

  /** Takes a nil if one is next. */
  public boolean isNil() {
    try {
      return unpacker.hasNext() && unpacker.tryUnpackNil();
    } catch (IOException | MessagePackException e) {
      throw bad("frame", e);
    }
  }

  /** Whether an optional field is there and not nil; `left` are the fields that remain of its tuple. */
  public boolean more(int left) {
    return left > 0 && !isNil();
  }

  public long int64(String field) {
    try {
      return unpacker.unpackLong();
    } catch (IOException | MessagePackException e) {
      throw bad(field, e);
    }
  }

  /** An unsigned number of 64 bits, beyond Long.MAX_VALUE as a negative long. */
  public long uint64(String field) {
    long value;
    try {
      value = unpacker.unpackLong();
    } catch (MessageIntegerOverflowException e) {
      return e.getBigInteger().longValue();
    } catch (IOException | MessagePackException e) {
      throw bad(field, e);
    }
    if (value < 0) {
      throw bad(field + ": " + value + " is negative");
    }
    return value;
  }

  /** A number from 0 to Integer.MAX_VALUE. */
  public int int32(String field) {
    long value = int64(field);
    if (value < 0 || value > Integer.MAX_VALUE) {
      throw bad(field + ": " + value + " is out of range");
    }
    return (int) value;
  }

  public boolean bool(String field) {
    try {
      return unpacker.unpackBoolean();
    } catch (IOException | MessagePackException e) {
      throw bad(field, e);
    }
  }

  /** bin, and str, which receivers take for it. */
  public Bytes bytes(String field) {
    try {
      int length = unpacker.unpackBinaryHeader();
      int at = position();
      pass(field, length);
      return new Bytes(frame, at, length);
    } catch (IOException | MessagePackException e) {
      throw bad(field, e);
    }
  }

  /** null for nil; empty bytes are not null. */
  public Bytes maybeBytes(String field) {
    return isNil() ? null : bytes(field);
  }

  public String text(String field) {
    Bytes data = bytes(field);
    return new String(data.array, data.offset, data.length, StandardCharsets.UTF_8);
  }

  // The length is checked first: the library would allocate for what is not there.
  private void pass(String field, int length) throws IOException {
    if (length > remaining()) {
      throw bad(field + ": " + length + " bytes do not fit the frame");
    }
    unpacker.readPayloadAsReference(length);
  }

  /** null for an absent value, NOT_PREFETCHED for one that was not sent along. */
  public Bytes state(String field) {
    try {
      if (!unpacker.hasNext() || unpacker.getNextFormat().getValueType() != ValueType.EXTENSION) {
        return maybeBytes(field);
      }
      ExtensionTypeHeader extension = unpacker.unpackExtensionTypeHeader();
      if (extension.getType() != NOT_PREFETCHED_EXTENSION) {
        throw bad(field + " has an extension of type " + extension.getType());
      }
      pass(field, extension.getLength());
      return NOT_PREFETCHED;
    } catch (IOException | MessagePackException e) {
      throw bad(field, e);
    }
  }

  /** An array of any length. */
  public int list(String field) {
    try {
      return plausible(field, unpacker.unpackArrayHeader(), 1);
    } catch (IOException | MessagePackException e) {
      throw bad(field, e);
    }
  }

  /** The head of a tuple of at least `least` fields. */
  public int fields(String field, int least) {
    int count = list(field);
    if (count < least) {
      throw bad(field + " has " + count + " fields, at least " + least + " are needed");
    }
    return count;
  }

  public int map(String field) {
    try {
      return plausible(field, unpacker.unpackMapHeader(), 2);
    } catch (IOException | MessagePackException e) {
      throw bad(field, e);
    }
  }

  // An element takes a byte at least, so that no count makes us allocate for what is not there.
  private int plausible(String field, int count, int bytesEach) {
    if (count > Kind.MAX_ELEMENTS || count * bytesEach > remaining()) {
      throw bad(field + ": " + count + " elements do not fit the frame");
    }
    return count;
  }

  public void skip(int values) {
    try {
      unpacker.skipValue(Math.max(values, 0));
    } catch (IOException | MessagePackException e) {
      throw bad("a further field", e);
    }
  }

  /** Nothing may follow. */
  public void end() {
    if (remaining() > 0) {
      throw bad(remaining() + " bytes follow the message");
    }
  }

  /** The bytes from `from` to here. */
  public Bytes since(int from) {
    return new Bytes(frame, from, position() - from);
  }
}
