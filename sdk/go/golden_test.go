package millstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// The golden frames that every implementation of the protocol reads: decoded, encoded, refused as they say.

type goldenFrame struct {
	Direction string
	Canonical bool
	Message   map[string]any
	Refused   *string
	Frame     string
}

func goldenFrames(t *testing.T) map[string]goldenFrame {
	t.Helper()
	paths, err := filepath.Glob("../../tests/conformance/frames/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal("no golden frames", err)
	}
	frames := map[string]goldenFrame{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		var frame goldenFrame
		if err := decoder.Decode(&frame); err != nil {
			t.Fatal(path, err)
		}
		frames[strings.TrimSuffix(filepath.Base(path), ".json")] = frame
	}
	return frames
}

// A session with more inputs and stores than any golden frame speaks of, whose frames come from `data`.
func goldenSession(data []byte) *session {
	app := New()
	ports := func(prefix string) (ports []welcomePort) {
		for n := range 8 {
			ports = append(ports, welcomePort{name: fmt.Sprint(prefix, n), kind: "KeyValue"})
		}
		return ports
	}
	for _, port := range ports("i") {
		On(app, port.name, Bytes, Bytes, func(*Context, Record[[]byte, []byte]) error { return nil })
	}
	s, err := newSchema(welcome{version: 1, inputs: ports("i"), outputs: ports("o"), stores: ports("s"), frameCap: defaultFrameCap}, app)
	if err != nil {
		panic(err)
	}
	conn, other := net.Pipe()
	go func() { // what is sent is nobody's concern here
		buffer := make([]byte, 1024)
		for {
			if _, err := other.Read(buffer); err != nil {
				return
			}
		}
	}()
	session := &session{conn: conn, reader: bufio.NewReader(bytes.NewReader(data)), frameCap: defaultFrameCap, schema: s, parallel: 2,
		flights: map[uint64]*flight{}, lastOf: map[int32]*flight{}, answers: map[uint64]*question{}}
	session.log = slog.Default()
	session.ctx, session.cancel = context.WithCancel(context.Background())
	return session
}

func payloadOf(t *testing.T, frame goldenFrame) []byte {
	t.Helper()
	data, err := hex.DecodeString(frame.Frame)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := goldenSession(data).receive()
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func shown(data []byte) any {
	if data == nil {
		return nil
	}
	if utf8.Valid(data) {
		return string(data)
	}
	return map[string]any{"hex": hex.EncodeToString(data)}
}

func shownInt(n any) json.Number { return json.Number(fmt.Sprint(n)) }

func shownBatch(b batchFrame) map[string]any {
	keys, items, state := []any{}, []any{}, map[string]any{}
	for _, key := range b.keys {
		keys = append(keys, shown(key))
	}
	for _, item := range b.items {
		headers := []any{}
		for _, header := range readHeaders(item.headers) {
			headers = append(headers, map[string]any{"name": shown([]byte(header.Name)), "value": shown(header.Value)})
		}
		var key any
		if item.keyIndex >= 0 {
			key = shownInt(item.keyIndex)
		}
		items = append(items, map[string]any{"input": shownInt(item.input), "offset": shownInt(item.offset), "timestamp": shownInt(item.timestamp),
			"keyIndex": key, "value": shown(item.value), "headers": headers, "attempt": shownInt(item.attempt)})
	}
	for store, values := range b.state {
		if values == nil {
			continue
		}
		list := []any{}
		for _, value := range values {
			if value.kind == stateNotPrefetched {
				list = append(list, map[string]any{"notPrefetched": true})
			} else {
				list = append(list, shown(value.value))
			}
		}
		state[strconv.Itoa(store)] = list
	}
	var watermark any
	if b.hasWatermark {
		watermark = shownInt(b.watermark)
	}
	return map[string]any{"kind": "BATCH", "seq": shownInt(b.seq), "task": shownInt(b.task), "flags": shownInt(b.flags), "keys": keys,
		"items": items, "state": state, "watermark": watermark}
}

func TestGoldenFramesThatAreReceived(t *testing.T) {
	batches := 0
	for name, frame := range goldenFrames(t) {
		if frame.Message == nil || frame.Direction == "W->S" {
			continue
		}
		payload := payloadOf(t, frame)
		r := &frameReader{rest: payload}
		kind, fields := readHead(r)
		switch frame.Message["kind"] {
		case "BATCH":
			batches++
			got := shownBatch(readBatch(r, fields, 8, 8))
			if err := r.end(); err != nil {
				t.Error(name, err)
			}
			// A store whose state is for no keys at all looks like one that did not come.
			if len(frame.Message["keys"].([]any)) > 0 && !reflect.DeepEqual(got, frame.Message) {
				t.Errorf("%s: %v, want %v", name, got, frame.Message)
			}
		case "WELCOME":
			w := readWelcome(r)
			r.skip(fields - 1)
			if err := r.end(); err != nil {
				t.Error(name, err)
			}
			if w.processor != frame.Message["processor"] || shownInt(w.session) != frame.Message["session"] ||
				len(w.stores) != len(frame.Message["stores"].([]any)) || len(w.joins) != len(frame.Message["joins"].([]any)) {
				t.Errorf("%s: %+v", name, w)
			}
		case "ERROR", "GOODBYE", "PING", "PONG", "OPEN", "CLOSE", "CANCEL", "VALUES", "ROWS":
			var protocol *ProtocolError
			if err := goldenSession(nil).dispatch(payload); errors.As(err, &protocol) {
				t.Error(name, err)
			}
		default:
			t.Errorf("%s: kind %d is not tested", name, kind)
		}
	}
	if batches == 0 {
		t.Error("no BATCH among the golden frames")
	}
}

func TestGoldenFramesThatAreRefused(t *testing.T) {
	tested := 0
	for name, frame := range goldenFrames(t) {
		if frame.Refused == nil || frame.Direction == "W->S" {
			continue
		}
		tested++
		data, _ := hex.DecodeString(frame.Frame)
		s := goldenSession(data)
		payload, err := s.receive()
		if err == nil && strings.Contains(name, "welcome") {
			r := &frameReader{rest: payload}
			readHead(r)
			readWelcome(r)
			err = r.err
		} else if err == nil {
			err = s.dispatch(payload)
		}
		var protocol *ProtocolError
		if !errors.As(err, &protocol) {
			t.Errorf("%s was taken (%v); the sidecar says: %s", name, err, *frame.Refused)
		}
	}
	if tested == 0 {
		t.Error("no refused frames")
	}
}

func rawOf(value any) []byte {
	switch v := value.(type) {
	case string:
		return []byte(v)
	case map[string]any:
		data, _ := hex.DecodeString(v["hex"].(string))
		return append([]byte{}, data...)
	}
	return nil
}

func number(value any) int64 {
	n, _ := strconv.ParseInt(string(value.(json.Number)), 10, 64)
	return n
}

func unsigned(value any) uint64 {
	n, _ := strconv.ParseUint(string(value.(json.Number)), 10, 64)
	return n
}

func encodeGolden(m map[string]any) []byte {
	switch m["kind"] {
	case "EXTEND":
		return extendFrame(unsigned(m["seq"]), int(number(m["done"])))
	case "PING":
		return numberFrame(kindPing, unsigned(m["nonce"]))
	case "PONG":
		return numberFrame(kindPong, unsigned(m["nonce"]))
	case "ERROR":
		return textFrame(kindError, m["code"].(string), m["message"].(string))
	case "GOODBYE":
		return textFrame(kindGoodbye, m["reason"].(string))
	case "RESULT":
		return encodeGoldenResult(m)
	}
	return nil
}

func encodeGoldenResult(m map[string]any) []byte {
	b := &batchRun{frame: batchFrame{seq: unsigned(m["seq"])}, stores: make([]storeRun, 8)}
	for store := range 8 {
		ops, _ := m["ops"].(map[string]any)[strconv.Itoa(store)].([]any)
		for _, op := range ops {
			b.write(&b.ctx, store, &slot{op: -1}, rawOf(op.(map[string]any)["key"]), rawOf(op.(map[string]any)["value"]))
		}
	}
	for _, entry := range m["outputs"].([]any) {
		output := entry.(map[string]any)
		headers := []Header{}
		for _, header := range output["headers"].([]any) {
			headers = append(headers, Header{string(rawOf(header.(map[string]any)["name"])), rawOf(header.(map[string]any)["value"])})
		}
		fields := uint32(4)
		if len(headers) > 0 {
			fields = 5
		}
		if output["partition"] != nil {
			fields = 6
		}
		out := appendInt(msgp.AppendArrayHeader(b.outputs, fields), number(output["output"]))
		out = appendMaybeBytes(appendMaybeBytes(out, rawOf(output["key"])), rawOf(output["value"]))
		if output["timestamp"] == nil {
			out = msgp.AppendNil(out)
		} else {
			out = appendInt(out, number(output["timestamp"]))
		}
		if fields >= 5 {
			out = appendHeaders(out, headers)
		}
		if fields == 6 {
			out = appendInt(out, number(output["partition"]))
		}
		b.outputs = out
		b.outputCount++
	}
	var failed *failure
	if f, isFailure := m["failure"].(map[string]any); isFailure {
		failed = &failure{f["class"].(string), f["error"].(string), f["message"].(string), f["retriable"].(bool)}
	}
	return b.result(int(number(m["done"])), failed)
}

func TestGoldenFramesThatAreSent(t *testing.T) {
	tested := 0
	for name, frame := range goldenFrames(t) {
		if frame.Message == nil || frame.Direction == "S->W" || !frame.Canonical {
			continue
		}
		encoded := encodeGolden(frame.Message)
		if encoded == nil {
			continue // HELLO, GET and SCAN: the conformance suite looks at ours
		}
		tested++
		if got := hex.EncodeToString(encoded); got != frame.Frame {
			t.Errorf("%s:\n got %s\nwant %s", name, got, frame.Frame)
		}
	}
	if tested < 10 {
		t.Errorf("only %d frames", tested)
	}
}

func TestFramesThatAreCutAnywhere(t *testing.T) {
	for name, frame := range goldenFrames(t) {
		if frame.Message == nil || frame.Direction == "W->S" {
			continue
		}
		payload := payloadOf(t, frame)
		for cut := range payload {
			s := goldenSession(nil)
			if err := s.dispatch(payload[:cut]); err == nil {
				t.Fatalf("%s cut after %d bytes was taken", name, cut)
			}
		}
	}
}
