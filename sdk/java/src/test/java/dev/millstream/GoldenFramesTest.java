package dev.millstream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.millstream.internal.BatchFrame;
import dev.millstream.internal.BatchItem;
import dev.millstream.internal.Bytes;
import dev.millstream.internal.FrameReader;
import dev.millstream.internal.FrameWriter;
import dev.millstream.internal.Frames;
import dev.millstream.internal.Kind;
import dev.millstream.internal.Utf8;
import dev.millstream.internal.WelcomeFrame;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.NotYetConnectedException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The golden frames that every implementation of the protocol reads: decoded, encoded, refused as they say. */
class GoldenFramesTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Path FRAMES = Path.of(System.getProperty("millstream.frames", "../../tests/conformance/frames"));
  private static final HexFormat HEX = HexFormat.of();
  /** More inputs and stores than any golden frame speaks of. */
  private static final int PORTS = 8;
  private static final BatchItem.Shape SHAPE = SessionTest.schema(PORTS).shape;

  private static final Session OFFLINE = SessionTest.offline();

  private static TreeMap<String, JsonNode> frames(String direction, String field) throws IOException {
    TreeMap<String, JsonNode> found = new TreeMap<>();
    try (Stream<Path> files = Files.list(FRAMES)) {
      for (Path file : files.filter(path -> path.toString().endsWith(".json")).toList()) {
        JsonNode frame = JSON.readTree(file.toFile());
        if (frame.hasNonNull(field) && !frame.get("direction").asText().equals(direction)) {
          found.put(file.getFileName().toString().replace(".json", ""), frame);
        }
      }
    }
    assertTrue(found.size() > 10, "too few golden frames");
    return found;
  }

  private static byte[] payload(JsonNode frame) {
    byte[] whole = HEX.parseHex(frame.get("frame").asText());
    return Arrays.copyOfRange(whole, Kind.LENGTH_BYTES, whole.length);
  }

  /** Reads a frame as a session would that is open (or, for WELCOME, is not yet). */
  private static void read(byte[] payload) {
    FrameReader r = new FrameReader(payload);
    int fields = r.fields("frame", 1) - 1;
    long kind = r.uint64("kind");
    switch ((int) Math.min(kind, Integer.MAX_VALUE)) {
      case Kind.BATCH -> {
        BatchFrame.read(r, fields, SHAPE);
        r.end();
      }
      case Kind.WELCOME -> {
        WelcomeFrame.read(r);
        r.skip(fields - 1);
        r.end();
      }
      default -> {
        try {
          OFFLINE.dispatch(payload);
        } catch (IOException | NotYetConnectedException e) {
          // ERROR ends a session, PING is answered: both were understood.
        }
      }
    }
  }

  private static JsonNode shown(byte[] data) {
    if (data == null) {
      return JSON.nullNode();
    }
    String text = new String(data, StandardCharsets.UTF_8);
    if (Arrays.equals(text.getBytes(StandardCharsets.UTF_8), data)) {
      return JSON.getNodeFactory().textNode(text);
    }
    return JSON.createObjectNode().put("hex", HEX.formatHex(data));
  }

  private static JsonNode shown(Bytes data) {
    return data == FrameReader.NOT_PREFETCHED ? JSON.createObjectNode().put("notPrefetched", true) : shown(data == null ? null : data.toArray());
  }

  private static ObjectNode shown(BatchFrame b) {
    ObjectNode shown = JSON.createObjectNode().put("kind", "BATCH").put("seq", b.seq).put("task", b.task).put("flags", b.flags);
    ArrayNode keys = shown.putArray("keys");
    Stream.of(b.keys).map(GoldenFramesTest::shown).forEach(keys::add);
    ArrayNode items = shown.putArray("items");
    for (BatchItem item : b.items) {
      ObjectNode one = items.addObject().put("input", item.input).put("offset", item.offset).put("timestamp", item.timestamp);
      one.put("keyIndex", item.keyIndex < 0 ? null : (Integer) item.keyIndex);
      one.set("value", shown(item.value));
      ArrayNode headers = one.putArray("headers");
      for (Header header : BatchFrame.headers(item.headers, Header::new)) {
        headers.addObject().<ObjectNode>set("name", shown(Utf8.encode(header.name()))).set("value", shown(header.value()));
      }
      one.put("attempt", item.attempt);
    }
    ObjectNode state = shown.putObject("state");
    for (int store = 0; store < b.state.length; store++) {
      if (b.state[store] != null) {
        ArrayNode column = state.putArray(String.valueOf(store));
        Stream.of(b.state[store]).map(GoldenFramesTest::shown).forEach(column::add);
      }
    }
    return shown.put("watermark", b.watermark);
  }

  @Test
  void framesThatAreReceived() throws IOException {
    int batches = 0;
    for (var frame : frames("W->S", "message").entrySet()) {
      JsonNode message = frame.getValue().get("message");
      byte[] payload = payload(frame.getValue());
      read(payload);
      FrameReader r = new FrameReader(payload);
      int fields = r.fields("frame", 1) - 1;
      r.uint64("kind");
      if (message.get("kind").asText().equals("BATCH")) {
        batches++;
        // As text, so that 1 as int and as long are the same.
        assertEquals(JSON.writeValueAsString(message), JSON.writeValueAsString(shown(BatchFrame.read(r, fields, SHAPE))), frame.getKey());
      } else if (message.get("kind").asText().equals("WELCOME")) {
        WelcomeFrame welcome = WelcomeFrame.read(r);
        assertEquals(message.get("processor").asText(), welcome.processor);
        assertEquals(message.get("session").asLong(), welcome.session);
        assertEquals(message.get("stores").size(), welcome.stores.size());
        assertEquals(message.get("joins").size(), welcome.joins.size());
        assertEquals(message.get("limits").get("min_timestamp").asLong(), welcome.minTimestamp);
      }
    }
    assertTrue(batches > 5);
  }

  /** Windows, sessions and timers: the fields that the messages of these frames name, as text. */
  private static String shownDue(BatchFrame b) {
    StringBuilder text = new StringBuilder();
    for (BatchItem item : b.items) {
      String key = shown(b.keys[item.keyIndex]).toString();
      switch (item.kind) {
        case BatchItem.TIMER -> text.append(List.of("timer", item.name, item.clock, key, item.timestamp, item.attempt));
        case BatchItem.CLOSING -> text.append(List.of("closing", item.store, key, item.span.start(), item.span.end(), shown(item.value),
            item.attempt));
        default -> {
          text.append(List.of("record", key));
          item.windows.forEach(w -> text.append(List.of(w.store(), w.span().start(), w.span().end(), w.parts() == null ? "" : w.parts().size())));
        }
      }
    }
    return text.toString();
  }

  private static String shownDue(JsonNode m) {
    StringBuilder text = new StringBuilder();
    for (JsonNode item : m.get("items")) {
      String key = m.get("keys").get(item.get("keyIndex").asInt()).toString();
      if (item.has("timer")) {
        text.append(List.of("timer", item.get("timer").asText(), item.get("clock").asInt(), key, item.get("time").asLong(),
            item.get("attempt").asInt()));
      } else if (item.has("closing")) {
        text.append(List.of("closing", item.get("closing").asInt(), key, item.get("start").asLong(), item.get("end").asLong(),
            item.get("value"), item.get("attempt").asInt()));
      } else {
        text.append(List.of("record", key));
        for (JsonNode w : item.path("windows")) {
          text.append(List.of(w.get("store").asInt(), w.get("start").asLong(), w.get("end").asLong(), w.has("merged") ? w.get("merged").size() : ""));
        }
      }
    }
    return text.toString();
  }

  @Test
  void framesOfTime() throws IOException {
    Path folder = FRAMES.resolve("time");
    FrameReader welcome = new FrameReader(payload(JSON.readTree(folder.resolve("welcome.json").toFile())));
    welcome.fields("frame", 2);
    welcome.uint64("kind");
    WelcomeFrame declared = WelcomeFrame.read(welcome);
    assertTrue(declared.timers);
    assertTrue(declared.stores.get(0).isFinal());
    assertEquals(60_000, declared.stores.get(0).size());
    assertEquals("Session", declared.stores.get(1).type());
    BatchItem.Shape shape = new BatchItem.Shape(1, declared.stores.stream().map(WelcomeFrame.Port::type).toList(), 2, true, 0);
    for (String name : List.of("batch-timer", "batch-closing", "batch-windows")) {
      JsonNode frame = JSON.readTree(folder.resolve(name + ".json").toFile());
      FrameReader r = new FrameReader(payload(frame));
      int fields = r.fields("frame", 1) - 1;
      r.uint64("kind");
      assertEquals(shownDue(frame.get("message")), shownDue(BatchFrame.read(r, fields, shape)), name);
      r.end();
    }
    JsonNode timers = JSON.readTree(folder.resolve("result-timers.json").toFile());
    assertEquals(HEX.formatHex(payload(timers)), HEX.formatHex(encodeResult(timers.get("message"))));
  }

  private static String shownVisits(BatchFrame b) {
    StringBuilder text = new StringBuilder();
    for (BatchItem item : b.items) {
      Object key = item.keyIndex < 0 ? "none" : shown(b.keys[item.keyIndex]);
      text.append(item.kind == BatchItem.VISIT
          ? List.of("visit", item.visit, key, item.timestamp, shown(item.value), item.attempt) : List.of("record", key));
    }
    return text.toString();
  }

  private static String shownVisits(JsonNode m) {
    StringBuilder text = new StringBuilder();
    for (JsonNode item : m.get("items")) {
      Object key = item.get("keyIndex").isNull() ? "none" : m.get("keys").get(item.get("keyIndex").asInt());
      text.append(item.has("visit") ? List.of("visit", item.get("visit").asInt(), key, item.get("time").asLong(), item.get("data"),
          item.get("attempt").asInt()) : List.of("record", key));
    }
    return text.toString();
  }

  @Test
  void framesOfVisits() throws IOException {
    BatchItem.Shape shape = new BatchItem.Shape(1, List.of("KeyValue"), 1, false, 2);
    int batches = 0;
    int results = 0;
    try (Stream<Path> files = Files.list(FRAMES.resolve("visits"))) {
      for (Path file : files.toList()) {
        JsonNode frame = JSON.readTree(file.toFile());
        JsonNode message = frame.get("message");
        if (frame.get("direction").asText().equals("W->S")) {
          if (frame.path("canonical").asBoolean() && message.get("kind").asText().equals("RESULT")) {
            results++;
            assertEquals(HEX.formatHex(payload(frame)), HEX.formatHex(encodeResult(message)), file.toString());
          }
          continue;
        }
        FrameReader r = new FrameReader(payload(frame));
        int fields = r.fields("frame", 1) - 1;
        r.uint64("kind");
        if (message == null) {
          assertThrows(ProtocolException.class, () -> BatchFrame.read(r, fields, shape), file.toString());
        } else if (message.get("kind").asText().equals("WELCOME")) {
          assertEquals(List.of(new WelcomeFrame.VisitPort("interest", 0), new WelcomeFrame.VisitPort("audit", 0)), WelcomeFrame.read(r).visits);
        } else {
          batches++;
          assertEquals(shownVisits(message), shownVisits(BatchFrame.read(r, fields, shape)), file.toString());
          assertThrows(ProtocolException.class, () -> read(payload(frame)), "where none was declared");
        }
      }
    }
    assertTrue(batches > 1 && results > 0);
  }

  @Test
  void framesThatAreRefused() throws IOException {
    for (var frame : frames("W->S", "refused").entrySet()) {
      byte[] whole = HEX.parseHex(frame.getValue().get("frame").asText());
      long length = Integer.toUnsignedLong(ByteBuffer.wrap(whole).getInt());
      if (length == 0 || length > Kind.DEFAULT_FRAME_CAP) {
        continue; // by the channel, see SessionTest
      }
      assertThrows(ProtocolException.class, () -> read(payload(frame.getValue())),
          () -> frame.getKey() + ": the sidecar says " + frame.getValue().get("refused"));
    }
  }

  @Test
  void framesThatAreCutAnywhere() throws IOException {
    for (var frame : frames("W->S", "message").entrySet()) {
      byte[] payload = payload(frame.getValue());
      for (int cut = 0; cut < payload.length; cut++) {
        byte[] part = Arrays.copyOf(payload, cut);
        assertThrows(ProtocolException.class, () -> read(part), frame.getKey() + " cut after " + cut + " bytes");
      }
    }
  }

  private static byte[] raw(JsonNode value) {
    if (value == null || value.isNull()) {
      return null;
    }
    return value.isTextual() ? value.asText().getBytes(StandardCharsets.UTF_8) : HEX.parseHex(value.get("hex").asText());
  }

  private static long number(JsonNode value) {
    return value.bigIntegerValue().longValue();
  }

  /** null for HELLO, GET and SCAN: the conformance suite looks at ours. */
  private static byte[] encode(JsonNode m) {
    return switch (m.get("kind").asText()) {
      case "EXTEND" -> Frames.extend(number(m.get("seq")), m.get("done").asInt());
      case "PING" -> Frames.number(Kind.PING, number(m.get("nonce")));
      case "PONG" -> Frames.number(Kind.PONG, number(m.get("nonce")));
      case "ERROR" -> Frames.error(m.get("code").asText(), m.get("message").asText());
      case "GOODBYE" -> Frames.goodbye(m.get("reason").asText());
      case "RESULT" -> encodeResult(m);
      default -> null;
    };
  }

  private static byte[] encodeResult(JsonNode m) {
    BatchFrame frame = BatchFrame.empty(number(m.get("seq")), 0, PORTS);
    BatchRun run = new BatchRun(SessionTest.schema(PORTS), new KitLink(List.of(), Map.of()), frame);
    for (int store = 0; store < PORTS; store++) {
      for (JsonNode op : m.get("ops").path(String.valueOf(store))) {
        Bytes key = Bytes.of(raw(op.get("key")));
        run.stage(new BatchRun.Op(store, 0, key, Bytes.of(raw(op.get("value"))), new BatchRun.Slot()));
      }
    }
    for (JsonNode timer : m.path("timers")) {
      Timers.Id id = new Timers.Id(timer.get("clock").asInt(), timer.get("name").asText());
      run.stageTimer(new BatchRun.StagedTimer(Bytes.of(raw(timer.get("key"))), id, timer.get("time").isNull() ? null : (Long) timer.get("time").asLong()));
    }
    for (JsonNode visit : m.path("visits")) {
      run.stageVisit(new BatchRun.StagedVisit(visit.get("visit").asInt(), Visit.What.values()[visit.get("what").asInt()], raw(visit.get("data"))));
    }
    FrameWriter w = run.outputs();
    for (JsonNode output : m.get("outputs")) {
      List<Header> headers = new ArrayList<>();
      for (JsonNode header : output.get("headers")) {
        byte[] name = raw(header.get("name"));
        headers.add(new Header(Utf8.decode(name, 0, name.length), raw(header.get("value"))));
      }
      Output.write(w, output.get("output").asInt(), raw(output.get("key")), raw(output.get("value")),
          output.get("timestamp").isNull() ? null : (Long) output.get("timestamp").asLong(), headers,
          output.get("partition").isNull() ? null : (Integer) output.get("partition").asInt());
      run.emitted(0, 0);
    }
    JsonNode f = m.get("failure");
    Failures.Failure failure = f.isNull() ? null : new Failures.Failure(f.get("class").asText(), f.get("error").asText(),
        f.get("message").asText(), f.get("retriable").asBoolean());
    return run.result(m.get("done").asInt(), w.size(), failure);
  }

  @Test
  void framesThatAreSent() throws IOException {
    int tested = 0;
    for (var frame : frames("S->W", "message").entrySet()) {
      byte[] encoded = frame.getValue().path("canonical").asBoolean() ? encode(frame.getValue().get("message")) : null;
      if (encoded != null) {
        tested++;
        assertEquals(HEX.formatHex(payload(frame.getValue())), HEX.formatHex(encoded), frame.getKey());
      }
    }
    assertTrue(tested >= 10);
  }
}
