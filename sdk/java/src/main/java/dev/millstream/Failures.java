package dev.millstream;

import dev.millstream.internal.FrameWriter;
import dev.millstream.internal.Kind;
import dev.millstream.internal.Utf8;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;

/** What the sidecar is told about what a handler threw. */
final class Failures {
  /** Half of what the protocol allows, so that the rest of the frame has room. */
  private static final int MAX_MESSAGE_BYTES = Kind.MAX_TEXT_BYTES / 2;
  /** Frames shown of each exception of the chain. */
  private static final int MAX_FRAMES = 8;
  private static final String PACKAGE = Failures.class.getPackageName();

  /** The failure map of a RESULT. */
  record Failure(String type, String error, String message, boolean retriable) {
    void write(FrameWriter w) {
      w.map(4).text("class").text(type).text("error").text(error).text("message").text(message).text("retriable").bool(retriable);
    }
  }

  private Failures() {}

  static Failure of(Throwable problem) {
    String type = "Handler";
    boolean retriable = true;
    if (problem instanceof DecodeException) {
      type = "Decode";
      retriable = false;
    } else if (problem instanceof OutputException) {
      type = "Output";
      retriable = false;
    } else if (problem instanceof UndeclaredException || problem instanceof RejectRecordException) {
      retriable = false;
    }
    Throwable named = problem instanceof RejectRecordException && problem.getCause() != null ? problem.getCause() : problem;
    return new Failure(type, named.getClass().getName(), Utf8.cut(message(problem), MAX_MESSAGE_BYTES), retriable);
  }

  // The innermost place first, then what caused it.
  private static String message(Throwable problem) {
    StringBuilder text = new StringBuilder();
    Set<Throwable> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    for (Throwable at = problem; at != null && seen.add(at); at = at.getCause()) {
      text.append(at == problem ? "" : "\ncaused by: ").append(at.getClass().getSimpleName());
      String own = text(at);
      if (!own.isEmpty()) {
        text.append(": ").append(own);
      }
      int shown = 0;
      for (StackTraceElement frame : at.getStackTrace()) {
        if (shown < MAX_FRAMES && isOfTheProgram(frame)) {
          text.append("\n  at ").append(frame.getFileName()).append(':').append(frame.getLineNumber());
          text.append(" in ").append(frame.getClassName()).append('.').append(frame.getMethodName());
          shown++;
        }
      }
    }
    return text.toString();
  }

  // Frames of this package and of the JDK say nothing to the user.
  private static boolean isOfTheProgram(StackTraceElement frame) {
    String name = frame.getClassName();
    boolean own = name.startsWith(PACKAGE + ".") && name.indexOf('.', PACKAGE.length() + 1) < 0;
    return !own && !name.startsWith(PACKAGE + ".internal.") && !name.startsWith("java.") && !name.startsWith("jdk.");
  }

  /** The message of an exception, also where having it throws. */
  static String text(Throwable problem) {
    try {
      return problem.getMessage() == null ? "" : problem.getMessage();
    } catch (RuntimeException e) {
      return "(its text cannot be had: " + e.getClass().getSimpleName() + ")";
    }
  }
}
