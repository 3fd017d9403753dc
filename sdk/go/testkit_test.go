package millstream

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	testCounts = NewStore("counts", String, Int64)
	testOut    = NewOutput("out", String, Int64)
)

func countingKit(t *testing.T, setup TestSetup, more func(ctx *Context, r Record[string, string]) error) *TestKit {
	t.Helper()
	app := New()
	On(app, "in", String, String, func(ctx *Context, r Record[string, string]) error {
		n, _, err := testCounts.Get(ctx)
		if err != nil {
			return err
		}
		if err := testCounts.Put(ctx, n+1); err != nil {
			return err
		}
		if err := testOut.Emit(ctx, r.Key, n+1); err != nil {
			return err
		}
		return more(ctx, r)
	})
	setup.Stores, setup.Outputs = []string{"counts"}, []string{"out"}
	kit, err := NewTestKit(app, setup)
	if err != nil {
		t.Fatal(err)
	}
	return kit
}

func TestAFailureKeepsWhatCameBefore(t *testing.T) {
	for _, setup := range []TestSetup{{}, {NoPrefetch: true}} {
		kit := countingKit(t, setup, func(ctx *Context, r Record[string, string]) error {
			if r.Value == "bad" {
				return errors.New("out of luck")
			}
			return nil
		})
		err := kit.Feed("in", TestRecord{Key: "a", Value: "1"}, TestRecord{Key: "a", Value: "2"}, TestRecord{Key: "a", Value: "bad"},
			TestRecord{Key: "a", Value: "3"})
		var failed FailedRecord
		if !errors.As(err, &failed) || failed.Offset != 2 || failed.Class != "Handler" || failed.Reason != "out of luck" || !failed.Retriable {
			t.Fatal(err)
		}
		if n, _, _ := StateOf(kit, testCounts, "a"); n != 2 || len(kit.Outputs("out")) != 2 {
			t.Fatal(n, kit.Outputs("out"))
		}
		if err := kit.Feed("in", TestRecord{Key: "a"}); err != nil {
			t.Fatal(err)
		}
		if n, _, _ := StateOf(kit, testCounts, "a"); n != 3 {
			t.Fatal(n)
		}
	}
}

func TestScansArePagedAndSeeOwnWrites(t *testing.T) {
	var seen []string
	scan := func(ctx *Context, over Range[string]) error {
		seen = nil
		for row, err := range testCounts.Scan(ctx, over) {
			if err != nil {
				return err
			}
			seen = append(seen, row.Key)
		}
		return nil
	}
	prefix, from, to := "k", "k2", "k5"
	for want, over := range map[string]Range[string]{
		"a k1 k2 k3 k4 k5 k6 new": {}, "k1 k2 k3 k4 k5 k6": {Prefix: &prefix}, "k2 k3 k4": {From: &from, To: &to},
		"new k6 k5 k4": {Reverse: true, Limit: 4},
	} {
		kit := countingKit(t, TestSetup{}, func(ctx *Context, r Record[string, string]) error {
			if err := testCounts.PutKey(ctx, "new", 1); err != nil {
				return err
			}
			if err := testCounts.DeleteKey(ctx, "gone"); err != nil {
				return err
			}
			return scan(ctx, over)
		})
		for _, key := range []string{"k1", "k2", "k3", "k4", "k5", "k6", "gone"} {
			if err := SetState(kit, testCounts, key, 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := kit.Feed("in", TestRecord{Key: "a"}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(seen, " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestErrorsOfOutputsFailTheRecordWhateverTheHandlerReturns(t *testing.T) {
	for what, emit := range map[string]func(ctx *Context) error{
		"limit":     func(ctx *Context) error { return testOut.Emit(ctx, strings.Repeat("x", testMaxBytes), 1) },
		"timestamp": func(ctx *Context) error { return testOut.EmitWith(ctx, "a", 1, EmitOptions{Time: time.UnixMilli(-5)}) },
		"partition": func(ctx *Context) error { return testOut.EmitWith(ctx, "a", 1, EmitOptions{Partition: Partition(-1)}) },
		"nowhere":   func(ctx *Context) error { return NewOutput("nowhere", String, Int64).Emit(ctx, "a", 1) },
	} {
		kit := countingKit(t, TestSetup{}, func(ctx *Context, r Record[string, string]) error {
			if emit(ctx) == nil {
				t.Errorf("%s: no error", what)
			}
			return nil
		})
		var failed FailedRecord
		if err := kit.Feed("in", TestRecord{Key: "a"}); !errors.As(err, &failed) || failed.Retriable || !strings.Contains(failed.Reason, what) {
			t.Errorf("%s: %v", what, err)
		}
		if len(kit.Outputs("out")) != 0 {
			t.Errorf("%s: something was emitted", what)
		}
	}
}

func TestDecodeFailuresAndRejections(t *testing.T) {
	app := New()
	On(app, "ints", String, Int64, func(ctx *Context, r Record[string, int64]) error { return Reject(errors.New("hopeless")) })
	kit, err := NewTestKit(app, TestSetup{})
	if err != nil {
		t.Fatal(err)
	}
	var failed FailedRecord
	if err := kit.Feed("ints", TestRecord{Key: "a", Value: []byte("1")}); !errors.As(err, &failed) || failed.Class != "Decode" || failed.Retriable {
		t.Fatal(err)
	}
	if err := kit.Feed("ints", TestRecord{Key: "a", Value: int64(1)}); !errors.As(err, &failed) || failed.Class != "Handler" || failed.Retriable {
		t.Fatal(err)
	}
	if failed.ErrorName != "errors.errorString" {
		t.Fatal(failed.ErrorName)
	}
}

func TestCodecs(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 1 << 62, -1 << 63} {
		data, _ := Int64.Append(nil, n)
		if back, err := Int64.Decode(data); back != n || err != nil {
			t.Error(n, back, err)
		}
	}
	if _, err := Int64.Decode([]byte("1234567")); err == nil {
		t.Error("7 bytes were taken as an integer")
	}
	data, err := JSON[map[string]string]().Append([]byte("before "), map[string]string{"a": "<b>"})
	if string(data) != `before {"a":"<b>"}` || err != nil {
		t.Error(string(data), err)
	}
	if _, err := JSON[int]().Decode([]byte("{")); err == nil {
		t.Error("broken JSON was taken")
	}
	if text, _ := String.Decode([]byte{0xff, 0}); text != "\xff\x00" {
		t.Error([]byte(text))
	}
}

func TestAfterPrefix(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "\xff\xff": "", "": ""} {
		if got := string(afterPrefix([]byte(prefix))); got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}

// One batch of many records allocates about as often as one of few: nothing per record.
func TestNothingIsAllocatedPerRecord(t *testing.T) {
	minutes := TestSetup{Windows: []TestWindows{{Name: "minutes", Size: time.Minute, Advance: 20 * time.Second}}}
	visits := TestSetup{Sessions: []TestSessions{{Name: "visits", Gap: time.Minute}}}
	for name, kit := range map[string]*TestKit{
		"counts":   countingKit(t, TestSetup{}, func(*Context, Record[string, string]) error { return nil }),
		"windows":  kitOf(t, countingWindows(), minutes),
		"sessions": kitOf(t, textApp(countVisit), visits),
	} {
		few, many := allocations(t, kit, 100), allocations(t, kit, 1100)
		if perRecord := (many - few) / 1000; perRecord > 0.1 {
			t.Errorf("%s: %.2f allocations per record (%.0f for 100 records, %.0f for 1100)", name, perRecord, few, many)
		}
	}
}

func countVisit(ctx *Context, r Record[string, string]) error {
	n, _, err := testVisits.Get(ctx)
	if err != nil {
		return err
	}
	return testVisits.Put(ctx, n+1)
}

// allocations are those of a batch of so many records.
func allocations(t *testing.T, kit *TestKit, count int) float64 {
	t.Helper()
	link := &kitLink{kit: kit, scratch: make([]map[string][]byte, len(kit.rows))}
	b := kitBatch{}
	view := kit.time.view()
	for range count {
		encoded, err := kit.encode(0, TestRecord{Key: "k", Value: "v"})
		if err != nil {
			t.Fatal(err)
		}
		open, _ := view.open(encoded.key, encoded.timestamp)
		b.addRecord(encoded, open)
	}
	payload := kit.payload(&b)
	return testing.AllocsPerRun(20, func() {
		r := &frameReader{rest: payload}
		_, fields := readHead(r)
		if _, err := newBatchRun(t.Context(), kit.schema, link, quiet(), readBatch(r, fields, &kit.schema.shape), kit.memory).run(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheReadmeShowsTheExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	samples := regexp.MustCompile("(?s)<!-- sample: (\\w+) -->\n```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(samples) != 3 {
		t.Fatal(len(samples), "samples")
	}
	for _, sample := range samples {
		program, err := os.ReadFile("examples/" + sample[1] + "/main.go")
		if err != nil || string(program) != sample[2] {
			t.Errorf("README.md and examples/%s/main.go differ (%v)", sample[1], err)
		}
	}
	manifest := regexp.MustCompile("(?s)<!-- manifest: hourly -->\n```yaml\n(.*?)```").FindStringSubmatch(string(readme))
	if file, err := os.ReadFile("examples/hourly/processor.yaml"); err != nil || manifest == nil || string(file) != manifest[1] {
		t.Errorf("README.md and examples/hourly/processor.yaml differ (%v)", err)
	}
}
