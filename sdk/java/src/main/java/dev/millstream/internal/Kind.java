package dev.millstream.internal;

/** The kinds of frames of the worker protocol, version 1 (docs/reference/protocol.md), and its numbers. */
public final class Kind {
  public static final int HELLO = 1;
  public static final int WELCOME = 2;
  public static final int OPEN = 3;
  public static final int CLOSE = 4;
  public static final int BATCH = 5;
  public static final int RESULT = 6;
  public static final int CANCEL = 7;
  public static final int GET = 8;
  public static final int VALUES = 9;
  public static final int SCAN = 10;
  public static final int ROWS = 11;
  public static final int EXTEND = 12;
  public static final int BEGIN = 13;
  public static final int FINALIZE = 14;
  public static final int COMMITTED = 15;
  public static final int PING = 20;
  public static final int PONG = 21;
  public static final int ERROR = 22;
  public static final int GOODBYE = 23;

  public static final int MIN_VERSION = 1;
  public static final int MAX_VERSION = 1;
  /** What a first frame from the worker may be. */
  public static final int HELLO_FRAME_CAP = 64 << 10;
  public static final int DEFAULT_FRAME_CAP = 16 << 20;
  /** The most a WELCOME may ask for: a 4-byte length could say 4 GiB. */
  public static final int MAX_FRAME_CAP = 1 << 30;
  public static final int LENGTH_BYTES = 4;
  public static final int FLAG_TRACE = 1;
  public static final int MAX_TEXT_BYTES = 16 << 10;
  /** Elements that one list of a frame may claim. */
  public static final int MAX_ELEMENTS = 1 << 20;

  public static final String BAD_FRAME = "BadFrame";
  public static final String FRAME_TOO_LARGE = "FrameTooLarge";
  public static final String WORKER_FAILED = "WorkerFailed";

  private Kind() {}

  public static String name(long kind) {
    return switch ((int) kind) {
      case HELLO -> "HELLO";
      case WELCOME -> "WELCOME";
      case OPEN -> "OPEN";
      case CLOSE -> "CLOSE";
      case BATCH -> "BATCH";
      case RESULT -> "RESULT";
      case CANCEL -> "CANCEL";
      case GET -> "GET";
      case VALUES -> "VALUES";
      case SCAN -> "SCAN";
      case ROWS -> "ROWS";
      case EXTEND -> "EXTEND";
      case BEGIN -> "BEGIN";
      case FINALIZE -> "FINALIZE";
      case COMMITTED -> "COMMITTED";
      case PING -> "PING";
      case PONG -> "PONG";
      case ERROR -> "ERROR";
      case GOODBYE -> "GOODBYE";
      default -> "kind " + kind;
    };
  }
}
