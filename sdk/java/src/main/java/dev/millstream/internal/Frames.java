package dev.millstream.internal;

import java.util.List;

/** The frames that a worker sends, RESULT apart: each without its length. */
public final class Frames {
  private Frames() {}

  public static FrameWriter begin(int kind, int fields) {
    return new FrameWriter().list(fields + 1).int64(kind);
  }

  public static byte[] hello(List<String> inputs, List<String> capabilities, int parallel, String name, String version) {
    FrameWriter w = begin(Kind.HELLO, 1).map(8);
    w.text("protocol").list(2).int64(Kind.MIN_VERSION).int64(Kind.MAX_VERSION);
    w.text("sdk").text("millstream-java").text("language").text("java").text("version").text(version);
    w.text("capabilities").list(capabilities.size());
    capabilities.forEach(w::text);
    w.text("inputs").list(inputs.size());
    inputs.forEach(w::text);
    return w.text("parallel").int64(parallel).text("name").text(name).toBytes();
  }

  /** PING and PONG. */
  public static byte[] number(int kind, long number) {
    return begin(kind, 1).uint64(number).toBytes();
  }

  public static byte[] extend(long seq, int done) {
    return begin(Kind.EXTEND, 2).uint64(seq).int64(done).toBytes();
  }

  public static byte[] error(String code, String message) {
    return begin(Kind.ERROR, 2).text(code).text(message).toBytes();
  }

  public static byte[] goodbye(String reason) {
    return begin(Kind.GOODBYE, 1).text(reason).toBytes();
  }

  public static byte[] get(long seq, long rid, int store, List<Bytes> keys) {
    FrameWriter w = begin(Kind.GET, 4).uint64(seq).int64(rid).int64(store).list(keys.size());
    keys.forEach(w::bin);
    return w.toBytes();
  }
}
