package millstream

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// What is asked of the sidecar and told to it for windows, sessions and hooks, beside what the program sees.

// askingLink notes what is asked for, of key "a".
type askingLink struct {
	kitLink
	asked []string
}

func (l *askingLink) get(b *batchRun, table int, keys [][]byte) ([][]byte, error) {
	for _, key := range keys {
		of, _ := l.kit.time.split(table, string(key))
		l.asked = append(l.asked, fmt.Sprintf("%d..%d", of.start, of.end))
	}
	return l.kitLink.get(b, table, keys)
}

// runShown runs a batch and gives what was asked for, and the writes as "start..end=value".
func runShown(t *testing.T, kit *TestKit, b *kitBatch) (asked, written string) {
	t.Helper()
	r := &frameReader{rest: kit.payload(b)}
	_, fields := readHead(r)
	frame := readBatch(r, fields, &kit.schema.shape)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	link := &askingLink{kitLink: kitLink{kit: kit, scratch: make([]map[string][]byte, len(kit.rows))}}
	run := newBatchRun(t.Context(), kit.schema, link, quiet(), frame, kit.memory)
	if _, err := run.run(); err != nil {
		t.Fatal(err)
	}
	if done := run.done.Load(); int(done) != b.count {
		t.Fatalf("%d of %d items are done", done, b.count)
	}
	var texts []string
	for _, op := range run.ops {
		of, _ := kit.time.split(op.store, string(op.key))
		texts = append(texts, fmt.Sprintf("%d..%d=%s", of.start, of.end, op.value))
	}
	return strings.Join(link.asked, " "), strings.Join(texts, " ")
}

func sessionKit(t *testing.T, noPrefetch bool) (*TestKit, *SessionStore[string, string]) {
	t.Helper()
	visits := NewSessionStore("visits", String, String)
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		if r.Value == "" {
			return nil // keeps what is there
		}
		values, err := visits.Values(ctx)
		if err != nil {
			return err
		}
		return visits.Put(ctx, strings.Join(values, "")+r.Value)
	})
	kit := kitOf(t, app, TestSetup{NoPrefetch: noPrefetch, Sessions: []TestSessions{{Name: "visits", Gap: 10 * ms}}})
	var arena []byte
	kit.rows[0][string(appendRowKey(&arena, sessionTable, []byte("a"), bounds{30, 30}))] = []byte("x")
	return kit, visits
}

func kitSession(start, end int64, parts ...bounds) []kitWindow {
	return []kitWindow{{bounds: bounds{start, end}, table: 0, session: true, parts: parts}}
}

func TestSessionsThatGrowWithinABatch(t *testing.T) {
	record := func(offset int64, value string) kitRecord {
		return kitRecord{offset: offset, timestamp: 5, key: []byte("a"), value: []byte(value)}
	}
	for _, noPrefetch := range []bool{false, true} {
		kit, _ := sessionKit(t, noPrefetch)
		var b kitBatch
		b.addRecord(record(0, "a"), kitSession(10, 10))
		b.addRecord(record(1, "b"), kitSession(10, 15, bounds{10, 10}))
		b.addRecord(record(2, ""), kitSession(10, 17, bounds{10, 15}))
		b.addRecord(record(3, "c"), kitSession(10, 30, bounds{10, 17}, bounds{30, 30}))
		b.addRecord(record(4, ""), kitSession(10, 30, bounds{10, 30}))
		asked, written := runShown(t, kit, &b)
		if want := map[bool]string{false: "", true: "30..30"}[noPrefetch]; asked != want {
			t.Errorf("asked for %q, want %q", asked, want)
		}
		if written != "10..10=a 10..15=ab 10..17=ab 10..30=abxc" {
			t.Error(written)
		}
		// Inside of what there is, and without a word of the handler: nothing is asked, nothing is written.
		b = kitBatch{}
		b.addRecord(record(5, ""), kitSession(30, 30, bounds{30, 30}))
		if asked, written := runShown(t, kit, &b); asked != "" || written != "" {
			t.Errorf("asked for %q, wrote %q", asked, written)
		}
	}
}

func TestTheValueOfAClosingWindowIsAskedForOnceIfItWasNotSent(t *testing.T) {
	app := countingWindows()
	OnClose(app, testMinutes, func(ctx *Context, closed Closed[string, int64]) error {
		n, _, err := testMinutes.Get(ctx, closed.Window)
		if err != nil || n != 7 {
			return fmt.Errorf("%d, %w", n, err)
		}
		return testMinutes.Put(ctx, closed.Window, 8)
	})
	kit := kitOf(t, app, TestSetup{NoPrefetch: true, Windows: []TestWindows{{Name: "minutes", Size: 60 * ms, Final: true}}})
	var arena []byte
	value := []byte{0, 0, 0, 0, 0, 0, 0, 7}
	kit.rows[0][string(appendRowKey(&arena, windowTable, []byte("a"), bounds{60, 120}))] = value
	for _, sent := range []bool{true, false} {
		var b kitBatch
		b.addDue(kitDue{closing: true, key: []byte("a"), bounds: bounds{60, 120}, value: value}, sent)
		asked, written := runShown(t, kit, &b)
		if want := map[bool]string{true: "", false: "60..120"}[sent]; asked != want || written != "60..120=\x00\x00\x00\x00\x00\x00\x00\x08" {
			t.Errorf("asked for %q, want %q; wrote %q", asked, want, written)
		}
	}
}

func TestAWindowThatAnItemNamesAndThatDidNotComeIsAbsent(t *testing.T) {
	for _, noPrefetch := range []bool{false, true} {
		kit := kitOf(t, countingWindows(), TestSetup{NoPrefetch: noPrefetch, Windows: []TestWindows{{Name: "minutes", Size: 60 * ms}}})
		var b kitBatch
		b.addRecord(kitRecord{timestamp: 70, key: []byte("a"), value: []byte("x")}, []kitWindow{{bounds: bounds{60, 120}}})
		asked, written := runShown(t, kit, &b)
		if want := map[bool]string{false: "", true: "60..120"}[noPrefetch]; asked != want || written != "60..120=\x00\x00\x00\x00\x00\x00\x00\x01" {
			t.Errorf("asked for %q, want %q; wrote %q", asked, want, written)
		}
	}
}

func TestAHookThatFailsHasNoEffects(t *testing.T) {
	app := gatheringApp()
	app.OnFinalize(func(ctx *Context) error {
		if err := errors.Join(testCounts.PutKey(ctx, "a", 1), testOut.Emit(ctx, "a", 1)); err != nil {
			t.Error(err)
		}
		return errors.New("no")
	})
	kit := kitOf(t, app, TestSetup{Stores: []string{"counts"}, Outputs: []string{"out"}})
	if failed := failing(t, kit, at(1, "x")); failed.Input != "finalize" || failed.Class != "Handler" || !failed.Retriable {
		t.Fatal(failed)
	}
	if _, found, _ := StateOf(kit, testCounts, "a"); found || !reflect.DeepEqual(kit.Outputs("out"), []TestOutput(nil)) {
		t.Fatal(found, kit.Outputs("out"))
	}
}
