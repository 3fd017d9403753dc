package millstream

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// The golden frames that every implementation of the protocol reads: decoded, encoded, refused as they say.

type goldenFrame struct {
	Time      bool // of a processor with windows, sessions and timers
	Direction string
	Canonical bool
	Message   map[string]any
	Refused   *string
	Frame     string
}

func goldenFrames(t *testing.T) map[string]goldenFrame {
	t.Helper()
	plain, _ := filepath.Glob("../../tests/conformance/frames/*.json")
	timed, _ := filepath.Glob("../../tests/conformance/frames/time/*.json")
	hooked, _ := filepath.Glob("../../tests/conformance/frames/hooks/*.json")
	visited, _ := filepath.Glob("../../tests/conformance/frames/visits/*.json")
	if len(plain) == 0 || len(timed) == 0 || len(hooked) == 0 || len(visited) == 0 {
		t.Fatal("no golden frames")
	}
	frames := map[string]goldenFrame{}
	for _, path := range slices.Concat(plain, timed, hooked, visited) {
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
		frame.Time = slices.Contains(timed, path)
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if frame.Time {
			name = "time/" + name
		} else if slices.Contains(visited, path) {
			name = "visits/" + name
		} else if slices.Contains(hooked, path) {
			name = "hooks/" + name
		}
		frames[name] = frame
	}
	return frames
}

// goldenSchema has more inputs and stores than any golden frame speaks of. With time the first store is one of windows that
// are told at their end, the second one of sessions.
func goldenSchema(withTime bool) *schema {
	app := New()
	ports := func(prefix string) (ports []welcomePort) {
		for n := range 8 {
			ports = append(ports, welcomePort{name: fmt.Sprint(prefix, n), kind: "KeyValue"})
		}
		return ports
	}
	app.OnBegin(func(*Context) error { return nil })
	app.OnFinalize(func(*Context) error { return nil })
	app.OnCommitted(func(int32) {})
	for _, port := range ports("i") {
		On(app, port.name, Bytes, Bytes, func(*Context, Record[[]byte, []byte]) error { return nil })
	}
	stores := ports("s")
	if withTime {
		stores[0].kind, stores[0].closes = "Window", true
		stores[1].kind = "Session"
		OnClose(app, NewWindowStore("s0", Bytes, Bytes), func(*Context, Closed[[]byte, []byte]) error { return nil })
	}
	for _, name := range []string{"v0", "v1"} {
		visit := NewVisit(name, NewStore("s3", Bytes, Bytes), Bytes)
		OnVisit(app, visit, func(*Context, Visited[[]byte, []byte, []byte]) error { return nil })
	}
	s, err := newSchema(welcome{version: 1, inputs: ports("i"), outputs: ports("o"), stores: stores, timers: withTime, visits: []welcomeVisit{{"v0", 3}, {"v1", 3}},
		capabilities: app.hooks.capabilities(), frameCap: defaultFrameCap}, app)
	if err != nil {
		panic(err)
	}
	return s
}

// A session whose frames come from `data`.
func goldenSession(data []byte, withTime bool) *session {
	conn, other := net.Pipe()
	go func() { // what is sent is nobody's concern here
		buffer := make([]byte, 1024)
		for {
			if _, err := other.Read(buffer); err != nil {
				return
			}
		}
	}()
	session := &session{conn: conn, reader: bufio.NewReader(bytes.NewReader(data)), frameCap: defaultFrameCap,
		schema: goldenSchema(withTime), parallel: 2, log: quiet()}
	session.init()
	return session
}

func payloadOf(t *testing.T, frame goldenFrame) []byte {
	t.Helper()
	data, err := hex.DecodeString(frame.Frame)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := goldenSession(data, frame.Time).receive()
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
	for at := range b.items {
		items = append(items, shownItem(&b, &b.items[at]))
	}
	for store, values := range b.state {
		if !b.came[store] {
			continue
		}
		list := []any{}
		for _, value := range values {
			list = append(list, shownState(value))
		}
		if b.rows != nil && b.rows[store] != nil {
			list = shownRows(b.rows[store], len(b.keys))
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

func shownItem(b *batchFrame, item *batchItem) map[string]any {
	shown := map[string]any{"attempt": shownInt(item.attempt), "keyIndex": nil, "value": shown(item.value)}
	if item.keyIndex >= 0 {
		shown["keyIndex"] = shownInt(item.keyIndex)
	}
	switch item.kind {
	case timerItem:
		delete(shown, "value")
		shown["timer"], shown["clock"], shown["time"] = string(item.detail), shownInt(0), shownInt(item.timestamp)
		if item.wallClock {
			shown["clock"] = shownInt(1)
		}
	case closingItem:
		shown["closing"], shown["start"], shown["end"] = shownInt(item.of), shownInt(item.offset), shownInt(item.timestamp+1)
		if item.value == nil {
			shown["value"] = map[string]any{"notPrefetched": true}
		}
	case visitItem:
		delete(shown, "value")
		shown["visit"], shown["time"] = shownInt(item.of), shownInt(item.timestamp)
		if shown["data"] = nil; item.value != nil {
			shown["data"] = string(item.value)
		}
	default:
		shown["input"], shown["offset"], shown["timestamp"] = shownInt(item.of), shownInt(item.offset), shownInt(item.timestamp)
		shown["headers"] = shownHeaders(item)
		if windows := shownWindows(b, item); len(windows) > 0 {
			shown["windows"] = windows
		}
	}
	return shown
}

func shownHeaders(item *batchItem) []any {
	headers := []any{}
	for _, header := range readHeaders(item.detail) {
		headers = append(headers, map[string]any{"name": shown([]byte(header.Name)), "value": shown(header.Value)})
	}
	return headers
}

func shownWindows(b *batchFrame, item *batchItem) []any {
	list := []any{}
	for _, window := range b.windowsOf(item) {
		shown := map[string]any{"store": shownInt(window.table), "start": shownInt(window.start), "end": shownInt(window.end)}
		var merged []any
		for _, part := range b.partsOf(&window) {
			merged = append(merged, []any{shownInt(part.start), shownInt(part.end)})
		}
		if merged != nil {
			shown["merged"] = merged
		}
		list = append(list, shown)
	}
	return list
}

func shownRows(rows []windowRow, keys int) []any {
	list := make([]any, keys)
	for key := range list {
		of := []any{}
		for _, row := range rows {
			if int(row.keyIndex) == key {
				of = append(of, map[string]any{"start": shownInt(row.start), "end": shownInt(row.end), "value": shownState(row.state)})
			}
		}
		list[key] = of
	}
	return list
}

func shownState(value prefetchedValue) any {
	if value.kind == stateNotPrefetched {
		return map[string]any{"notPrefetched": true}
	}
	return shown(value.value)
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
			got := shownBatch(readBatch(r, fields, &goldenSchema(frame.Time).shape))
			if err := r.end(); err != nil {
				t.Error(name, err)
			}
			if !reflect.DeepEqual(got, frame.Message) {
				t.Errorf("%s: %v, want %v", name, got, frame.Message)
			}
		case "WELCOME":
			w := readWelcome(r)
			r.skip(fields - 1)
			if err := r.end(); err != nil {
				t.Error(name, err)
			}
			if w.processor != frame.Message["processor"] || shownInt(w.session) != frame.Message["session"] ||
				len(w.stores) != len(frame.Message["stores"].([]any)) || len(w.joins) != len(frame.Message["joins"].([]any)) || w.timers != (frame.Message["timers"] == true) {
				t.Errorf("%s: %+v", name, w)
			}
			visits, _ := frame.Message["visits"].([]any)
			if len(w.visits) != len(visits) {
				t.Errorf("%s: %+v", name, w.visits)
			}
			for i, visit := range visits {
				if of := visit.(map[string]any); w.visits[i].name != of["name"] || shownInt(w.visits[i].store) != of["store"] {
					t.Errorf("%s: %+v", name, w.visits[i])
				}
			}
			for i, store := range frame.Message["stores"].([]any) {
				window, _ := store.(map[string]any)["window"].(map[string]any)
				if w.stores[i].kind != store.(map[string]any)["type"] || w.stores[i].closes != (window["final"] == true) {
					t.Errorf("%s: %+v", name, w.stores[i])
				}
			}
		case "ERROR", "GOODBYE", "PING", "PONG", "OPEN", "CLOSE", "CANCEL", "VALUES", "ROWS",
			"BEGIN", "FINALIZE", "COMMITTED":
			var protocol *ProtocolError
			if err := goldenSession(nil, frame.Time).dispatch(payload); errors.As(err, &protocol) {
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
		s := goldenSession(data, frame.Time)
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
	timers, _ := m["timers"].([]any)
	for _, entry := range timers {
		timer := entry.(map[string]any)
		var due *int64
		if timer["time"] != nil {
			at := number(timer["time"])
			due = &at
		}
		b.setTimer(rawOf(timer["key"]), timerID{timer["name"].(string), number(timer["clock"]) == 1}, due)
	}
	visits, _ := m["visits"].([]any)
	for _, entry := range visits {
		visit := entry.(map[string]any)
		b.stageVisit(int(number(visit["visit"])), int(number(visit["what"])), rawOf(visit["data"]))
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
			s := goldenSession(nil, frame.Time)
			if err := s.dispatch(payload[:cut]); err == nil {
				t.Fatalf("%s cut after %d bytes was taken", name, cut)
			}
		}
	}
}

// noLink knows nothing.
type noLink struct{}

func (noLink) get(_ *batchRun, _ int, keys [][]byte) ([][]byte, error) {
	return make([][]byte, len(keys)), nil
}
func (noLink) scan(*batchRun, *scanRequest) ([]rawRow, []byte, error) { return nil, nil, nil }
func (noLink) extend(*batchRun, int) error                            { return nil }

// Whatever it is then: no panic, neither when it is read nor when handlers look at it.
func TestFramesWithAWrongByte(t *testing.T) {
	windows, sessions := NewWindowStore("s0", Bytes, Bytes), NewSessionStore("s1", Bytes, Bytes)
	for name, frame := range goldenFrames(t) {
		if frame.Message == nil || frame.Direction == "W->S" || frame.Message["kind"] != "BATCH" {
			continue
		}
		s := goldenSchema(frame.Time)
		for at := range s.inputs {
			s.inputs[at].handler = &handler{run: func(ctx *Context) error {
				if !frame.Time {
					return nil
				}
				for _, window := range windows.Windows(ctx) {
					if _, _, err := windows.Get(ctx, window); err != nil {
						return err
					}
				}
				_, err := sessions.Values(ctx)
				return err
			}}
		}
		payload := payloadOf(t, frame)
		for at := range payload {
			for _, flip := range []byte{0x01, 0x10, 0x80, 0xff} {
				wrong := bytes.Clone(payload)
				wrong[at] ^= flip
				r := &frameReader{rest: wrong}
				_, fields := readHead(r)
				batch := readBatch(r, fields, &s.shape)
				if r.end() != nil {
					continue
				}
				result, err := newBatchRun(t.Context(), s, noLink{}, quiet(), batch, &taskMemory{}).run()
				if err != nil || bytes.Contains(result, []byte("panic")) {
					t.Fatalf("%s with byte %d as %02x: %v %q", name, at, wrong[at], err, result)
				}
			}
		}
	}
}
