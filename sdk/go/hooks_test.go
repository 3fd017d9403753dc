package millstream

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// Joins, lookups, the loop and hooks: through the test kit, and what is Go's own about them in a session.

var (
	testPeople = NewJoin("people", String, String)
	testRates  = NewLookup("rates", String, Int64)
	testLoop   = NewOutput("loop", String, String)
	testSum    = NewGathered(func() int64 { return 0 })
)

func TestJoinsAndLookups(t *testing.T) {
	for _, noPrefetch := range []bool{false, true} {
		seen := ""
		app := textApp(func(ctx *Context, r Record[string, string]) error {
			if err := testCounts.PutKey(ctx, "b", 7); err != nil { // of a store: what others have under that key stays
				return err
			}
			own, found, err := testPeople.Get(ctx)
			if r.NullKey {
				if !errors.Is(err, ErrNoKey) {
					t.Error(err)
				}
				return nil
			}
			if err != nil || !found {
				return err
			}
			other, _, err := testPeople.GetKey(ctx, "b")
			if err != nil {
				return err
			}
			many, err := testPeople.GetMany(ctx, "c", "a")
			if err != nil || many[0].Found || many[1].Value != own {
				t.Error(many, err)
			}
			rate, found, err := testRates.Get(ctx, "usd")
			if err != nil || !found || rate != 11 {
				t.Error(rate, found, err)
			}
			if rates, err := testRates.GetMany(ctx, "usd", "eur", "none"); err != nil || rates[1].Value != 10 || rates[2].Found {
				t.Error(rates, err)
			}
			seen = own + " " + other
			for row, err := range testRates.Scan(ctx, Range[string]{}) {
				if err != nil {
					return err
				}
				seen += " " + row.Key
			}
			for row, err := range testPeople.Scan(ctx, Range[string]{Reverse: true, Limit: 1}) {
				if err != nil {
					return err
				}
				seen += " " + row.Key
			}
			return nil
		})
		kit := kitOf(t, app, TestSetup{Stores: []string{"counts"}, Joins: []string{"people"}, Lookups: []string{"rates"}, NoPrefetch: noPrefetch})
		for key, value := range map[string]int64{"usd": 11, "eur": 10, "chf": 9, "gbp": 8} {
			if err := SetState(kit, testRates, key, value); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(SetState(kit, testPeople, "a", "Anna"), SetState(kit, testPeople, "b", "Bob")); err != nil {
			t.Fatal(err)
		}
		feed(t, kit, at(1), TestRecord{Value: "no key"})
		if seen != "Anna Bob chf eur gbp usd b" {
			t.Fatal(seen)
		}
		if name, found, err := StateOf(kit, testPeople, "b"); name != "Bob" || !found || err != nil {
			t.Fatal(name, found, err)
		}
	}
	kit := kitOf(t, textApp(func(ctx *Context, r Record[string, string]) error {
		_, _, err := testRates.Get(ctx, "usd")
		return err
	}), TestSetup{Joins: []string{"rates"}})
	if failed := failing(t, kit, at(1)); !strings.Contains(failed.Reason, `no lookup "rates" in the manifest; declared lookups: none`) {
		t.Fatal(failed)
	}
}

func TestWhatIsSentToTheLoopComesBack(t *testing.T) {
	app := textApp(func(ctx *Context, r Record[string, string]) error { return testLoop.Emit(ctx, "b", r.Value+"x") })
	On(app, "loop", String, String, func(ctx *Context, r Record[string, string]) error {
		if err := testOut.Emit(ctx, r.Key, int64(len(r.Value))); err != nil {
			return err
		}
		switch {
		case r.Value == "yx":
			return testLoop.EmitWith(ctx, r.Key, "x", EmitOptions{NullKey: true})
		case r.Value == "zx":
			return testLoop.EmitWith(ctx, r.Key, "x", EmitOptions{Partition: Partition(0)})
		case len(r.Value) < 3:
			return testLoop.Emit(ctx, "c", r.Value+"x")
		}
		return nil
	})
	kit := kitOf(t, app, TestSetup{Outputs: []string{"out"}})
	feed(t, kit, at(5))
	rows, err := Emitted(kit, testOut)
	if err != nil || !reflect.DeepEqual(rows, []Row[string, int64]{{"b", 1}, {"c", 2}, {"c", 3}}) || kit.Outputs("out")[2].Timestamp != 5 {
		t.Fatal(rows, err)
	}
	for _, value := range []string{"y", "z"} {
		if failed := failing(t, kit, at(5, value)); failed.Input != "loop" || failed.Class != "Output" || failed.Retriable {
			t.Fatal(failed)
		}
	}
	endless := textApp(func(ctx *Context, r Record[string, string]) error { return testLoop.Emit(ctx, "b", "x") })
	On(endless, "loop", String, String, func(ctx *Context, r Record[string, string]) error { return testLoop.Emit(ctx, "b", "x") })
	if err := kitOf(t, endless, TestSetup{}).Feed("in", at(1)); err == nil || !strings.Contains(err.Error(), "the loop does not end") {
		t.Fatal(err)
	}
}

// gatheringApp adds up the values of records, and sends the sum of each transaction.
func gatheringApp() *App {
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		testSum.Change(ctx, func(sum *int64) { *sum += int64(len(r.Value)) })
		switch r.Value {
		case "fails":
			return errors.New("no")
		case "takes":
			testSum.Take(ctx)
		case "panics":
			testSum.Change(ctx, func(*int64) { panic("of a change") })
		}
		return nil
	})
	app.OnFinalize(func(ctx *Context) error {
		sum := testSum.Take(ctx)
		if sum > 100 {
			return errors.New("too much")
		}
		if _, _, err := testCounts.Get(ctx); !errors.Is(err, ErrNoKey) {
			return errors.New("a hook has a key of its own")
		}
		n, _, err := testCounts.GetKey(ctx, "sums")
		if err != nil {
			return err
		}
		if err := testCounts.PutKey(ctx, "sums", n+1); err != nil {
			return err
		}
		return testOut.Emit(ctx, "sum", sum)
	})
	return app
}

func TestHooksAndWhatIsGathered(t *testing.T) {
	app := gatheringApp()
	begun, committed := 0, 0
	app.OnBegin(func(ctx *Context) error {
		if ctx.Input() != "" || testReminder.SetKey(ctx, "a", time.UnixMilli(5)) == nil {
			return Reject(errors.New("a hook has an input, or sets a timer"))
		}
		begun++
		return nil
	})
	app.OnCommitted(func(task int32) { committed += int(task) })
	kit := kitOf(t, app, TestSetup{Stores: []string{"counts"}, Outputs: []string{"out"}, Timers: true})
	// The timer that the hook tried to set fails it, whatever it returns.
	if failed := failing(t, kit, at(1, "x")); failed.Input != "begin" || !strings.Contains(failed.Reason, "a hook sets no timers") {
		t.Fatal(failed)
	}

	app.OnBegin(func(*Context) error { begun++; return nil })
	kit = kitOf(t, app, TestSetup{Stores: []string{"counts"}, Outputs: []string{"out"}})
	other := kitOf(t, app, TestSetup{Stores: []string{"counts"}, Outputs: []string{"out"}})
	kit.Task, begun = 3, 0
	feed(t, kit, at(1, "1"), at(1, "22"))
	feed(t, other, at(1, "999999999"))
	feed(t, kit, at(1, "4444"))
	var failed FailedRecord
	if err := kit.Feed("in", at(1, "55555"), at(1, "fails")); !errors.As(err, &failed) || failed.Offset != 4 {
		t.Fatal(err)
	}
	rows, err := Emitted(kit, testOut)
	if err != nil || !reflect.DeepEqual(rows, []Row[string, int64]{{"sum", 3}, {"sum", 4}, {"sum", 5}}) || kit.Outputs("out")[0].Timestamp != 0 {
		t.Fatal(rows, err)
	}
	if n, _, _ := StateOf(kit, testCounts, "sums"); n != 3 || begun != 4 || committed != 9 {
		t.Fatal(n, begun, committed)
	}
	if failed := failing(t, kit, at(1, strings.Repeat("x", 101))); failed.Input != "finalize" || failed.Reason != "too much" {
		t.Fatal(failed)
	}
	if failed := failing(t, kit, at(1, "takes")); failed.Retriable || !strings.Contains(failed.Reason, "Gathered.Take outside") {
		t.Fatal(failed)
	}
	if err := kit.Feed("in", at(1, "panics")); err == nil || !strings.Contains(err.Error(), "of a change") {
		t.Fatal(err)
	}
}

// hookFrameOf is BEGIN or FINALIZE.
func hookFrameOf(kind uint8, seq uint64, task int) []byte {
	return endFrame(appendInt(msgp.AppendUint64(beginFrame(nil, kind, 2), seq), int64(task)))
}

func committedFrame(tasks ...int64) []byte {
	b := msgp.AppendArrayHeader(beginFrame(nil, kindCommitted, 1), uint32(len(tasks)))
	for _, task := range tasks {
		b = appendInt(appendInt(msgp.AppendArrayHeader(b, 2), task), 9)
	}
	return endFrame(b)
}

// gatheredIn answers FINALIZE, and gives the sum it sent.
func (c *fakeConnection) gatheredIn(seq uint64, task int) int64 {
	c.t.Helper()
	c.send(hookFrameOf(kindFinalize, seq, task))
	r := c.expect(kindResult)
	if got, done := r.uint64("seq"), r.int64("done"); got != seq || done != 0 || !r.isNil() {
		c.t.Fatal(got, done, string(r.rest))
	}
	r.skip(1)
	if r.list("outputs") != 1 || r.fields("output", 4) != 4 {
		c.t.Fatal("not one output")
	}
	r.skip(2)
	sum, _ := Int64.Decode(r.bytes("value"))
	if !r.isNil() {
		c.t.Fatal("an output of a hook has a timestamp")
	}
	return sum
}

func TestWhatIsGatheredBelongsToItsTaskUntilItGoes(t *testing.T) {
	f := newFakeSidecar(t)
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		testSum.Change(ctx, func(sum *int64) { *sum += int64(len(r.Value)) })
		return nil
	})
	app.OnFinalize(func(ctx *Context) error { return testOut.Emit(ctx, "sum", testSum.Take(ctx)) })
	start(t, f, app, Options{Parallel: 1})
	c := f.accept(app)
	c.batch(1, 0, "x", "x")
	c.result()
	c.batch(2, 1, "yyyyy")
	c.result()
	c.batch(3, 0, "x")
	c.result()
	if sum := c.gatheredIn(4, 1); sum != 5 {
		t.Fatal(sum)
	}
	if sum := c.gatheredIn(5, 0); sum != 3 {
		t.Fatal(sum)
	}
	if sum := c.gatheredIn(6, 0); sum != 0 {
		t.Fatal(sum)
	}
	c.batch(7, 0, "lost")
	c.result()
	c.send(numberFrame(kindClose, 0))
	c.send(numberFrame(kindOpen, 0))
	c.batch(8, 0, "kept!")
	c.result()
	if sum := c.gatheredIn(9, 0); sum != 5 {
		t.Fatal(sum)
	}
}

// What a handler of a batch that was voided goes on to do is no matter to the task that was opened again.
func TestAVoidBatchGathersNothing(t *testing.T) {
	f := newFakeSidecar(t)
	started, letGo := make(chan struct{}), make(chan struct{})
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		testSum.Change(ctx, func(sum *int64) { *sum += 1000 })
		if r.Value == "slow" {
			close(started)
			<-letGo
		}
		return nil
	})
	app.OnFinalize(func(ctx *Context) error { return testOut.Emit(ctx, "sum", testSum.Take(ctx)) })
	start(t, f, app, Options{})
	c := f.accept(app)
	c.batch(1, 0, "slow")
	within(t, started)
	c.send(numberFrame(kindClose, 0))
	c.send(numberFrame(kindOpen, 0))
	c.batch(2, 0, "x")
	c.send(numberFrame(kindPing, 5))
	c.expect(kindPong)
	close(letGo)
	if seq, done := c.result(); seq != 1 || done != 0 {
		t.Fatal(seq, done)
	}
	if seq, done := c.result(); seq != 2 || done != 1 {
		t.Fatal(seq, done)
	}
	if sum := c.gatheredIn(3, 0); sum != 1000 {
		t.Fatal(sum)
	}
}

func TestCommittedIsToldBehindWhatTheTaskHasInFlight(t *testing.T) {
	f := newFakeSidecar(t)
	order := make(chan string, 8)
	started, letGo := make(chan struct{}), make(chan struct{})
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		close(started)
		<-letGo
		order <- "record"
		return nil
	})
	app.OnCommitted(func(task int32) {
		if task == 1 {
			order <- "other task"
			panic("told to the log")
		}
		order <- "committed"
	})
	start(t, f, app, Options{})
	c := f.accept(app)
	c.batch(1, 0, "x")
	within(t, started)
	c.send(committedFrame(0, 1))
	if first := within(t, order); first != "other task" {
		t.Fatal(first)
	}
	close(letGo)
	c.result()
	if next, last := within(t, order), within(t, order); next != "record" || last != "committed" {
		t.Fatal(next, last)
	}
}

func TestHooksThatWereNotAskedFor(t *testing.T) {
	for _, frame := range [][]byte{hookFrameOf(kindBegin, 5, 0), hookFrameOf(kindFinalize, 5, 0), committedFrame(0)} {
		f := newFakeSidecar(t)
		app := textApp(func(*Context, Record[string, string]) error { return nil })
		start(t, f, app, Options{})
		c := f.accept(app)
		c.send(frame)
		if code := c.expect(kindError).text("code"); code != codeBadFrame {
			t.Fatal(code)
		}
	}
}

// A panic of a change, after the RESULT went out: the connection ends, so that nothing of it counts.
func TestAChangeThatPanicsEndsTheConnection(t *testing.T) {
	f := newFakeSidecar(t)
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		testSum.Change(ctx, func(*int64) { panic("of a change") })
		return nil
	})
	app.OnFinalize(func(*Context) error { return nil })
	start(t, f, app, Options{})
	c := f.accept(app)
	c.batch(1, 0, "x")
	c.result()
	r := c.expect(kindError)
	if code, message := r.text("code"), r.text("message"); code != codeWorkerFailed || !strings.Contains(message, "of a change") ||
		!strings.Contains(message, "hooks_test.go") {
		t.Fatal(code, message)
	}
	f.accept(app)
}
