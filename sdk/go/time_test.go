package millstream

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Windows, sessions and timers, through the test kit.

var (
	testMinutes  = NewWindowStore("minutes", String, Int64)
	testVisits   = NewSessionStore("visits", String, Int64)
	testReminder = NewTimer("reminder", String)
	testAlarm    = NewWallClockTimer("alarm", String)
)

const ms = time.Millisecond

func kitOf(t *testing.T, app *App, setup TestSetup) *TestKit {
	t.Helper()
	kit, err := NewTestKit(app, setup)
	if err != nil {
		t.Fatal(err)
	}
	return kit
}

func at(ms int64, value ...string) TestRecord {
	return TestRecord{Key: "a", Value: strings.Join(value, " "), Timestamp: ms}
}

// feed hands records of input "in" in as one batch.
func feed(t *testing.T, kit *TestKit, records ...TestRecord) {
	t.Helper()
	if err := kit.Feed("in", records...); err != nil {
		t.Fatal(err)
	}
}

func failing(t *testing.T, kit *TestKit, record TestRecord) FailedRecord {
	t.Helper()
	var failed FailedRecord
	if err := kit.Feed("in", record); !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return failed
}

// windowsIn shows the windows or sessions of key "a".
func windowsIn(t *testing.T, kit *TestKit, of WindowedTable[string, int64]) string {
	t.Helper()
	found, err := WindowsOf(kit, of, "a")
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(found))
	for i, window := range found {
		texts[i] = fmt.Sprintf("%d..%d=%d", window.Start, window.End, window.Value)
		if !window.Found {
			texts[i] = fmt.Sprintf("%d..%d", window.Start, window.End)
		}
	}
	return strings.Join(texts, " ")
}

func countingWindows() *App {
	return textApp(func(ctx *Context, r Record[string, string]) error {
		for _, window := range testMinutes.Windows(ctx) {
			n, _, err := testMinutes.Get(ctx, window)
			if err != nil {
				return err
			}
			if err := testMinutes.Put(ctx, window, n+1); err != nil {
				return err
			}
		}
		if r.Value == "bad" {
			return errors.New("bad")
		}
		return nil
	})
}

func TestWindowsOverlapAndCloseToLateRecords(t *testing.T) {
	for _, noPrefetch := range []bool{false, true} {
		windows := []TestWindows{{Name: "minutes", Size: 60 * ms, Advance: 30 * ms, Grace: 10 * ms, Retention: time.Second}}
		kit := kitOf(t, countingWindows(), TestSetup{NoPrefetch: noPrefetch, Windows: windows})
		feed(t, kit, at(100), at(95), at(130), at(85)) // 85: the window from 60 is over at 120 + 10
		if got := windowsIn(t, kit, testMinutes); got != "60..120=2 90..150=3 120..180=1" {
			t.Fatal(got)
		}
		failing(t, kit, at(135, "bad"))
		feed(t, kit, TestRecord{Timestamp: 140}, at(10)) // without a key; late for all
		if got := windowsIn(t, kit, testMinutes); got != "60..120=2 90..150=3 120..180=1" || kit.Late != 2 {
			t.Fatal(got, kit.Late)
		}
		if now, known := kit.StreamTime(); now != 140 || !known {
			t.Fatal(now)
		}
	}
}

func TestRecordsOfOneBatchThatAreLateForAWindow(t *testing.T) {
	seen := ""
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		count := 0
		count += len(testMinutes.Windows(ctx))
		watermark, known := ctx.Watermark()
		seen += fmt.Sprintf("%d:%d:%d,%t ", r.Timestamp(), count, watermark, known)
		return nil
	})
	windows := []TestWindows{{Name: "minutes", Size: 60 * ms}}
	kit := kitOf(t, app, TestSetup{Windows: windows, ProcessLate: true, Lateness: map[string]time.Duration{"in": 5 * ms}})
	feed(t, kit, at(10), at(64), at(11), at(65), at(12))
	feed(t, kit, at(-1), at(70))
	if want := "10:1:0,false 64:1:0,false 11:1:0,false 65:1:0,false 12:0:0,false -1:0:60,true 70:1:60,true "; seen != want {
		t.Fatal(seen)
	}
}

func TestAWindowIsToldOnceWhenItCloses(t *testing.T) {
	for _, noPrefetch := range []bool{false, true} {
		app := countingWindows()
		tries := 0
		OnClose(app, testMinutes, func(ctx *Context, closed Closed[string, int64]) error {
			for _, window := range testMinutes.Windows(ctx) {
				if window != closed.Window {
					t.Error(window, closed.Window)
				}
			}
			if n, found, err := testMinutes.Get(ctx, closed.Window); n != closed.Value || !found || err != nil {
				t.Error(n, found, err)
			}
			if tries++; closed.Start == 120 {
				return errors.New("not this one")
			}
			n, _, err := testCounts.Get(ctx)
			if err != nil {
				return err
			}
			if err := testCounts.Put(ctx, n+closed.Value); err != nil {
				return err
			}
			return testOut.Emit(ctx, closed.Key, closed.Value)
		})
		windows := []TestWindows{{Name: "minutes", Size: 60 * ms, Grace: 10 * ms, Retention: 130 * ms, Final: true}}
		kit := kitOf(t, app, TestSetup{NoPrefetch: noPrefetch, Windows: windows, Stores: []string{"counts"}, Outputs: []string{"out"}})
		feed(t, kit, at(1), at(59), at(69)) // within grace
		if len(kit.Outputs("out")) != 0 {
			t.Fatal("told before its grace")
		}
		feed(t, kit, TestRecord{Key: "b", Timestamp: 70}, at(129))
		rows, _ := Emitted(kit, testOut)
		if !reflect.DeepEqual(rows, []Row[string, int64]{{"a", 2}}) || kit.Outputs("out")[0].Timestamp != 59 {
			t.Fatal(rows, kit.Outputs("out"))
		}
		if got := windowsIn(t, kit, testMinutes); got != "0..60=2 60..120=1 120..180=1" {
			t.Fatal(got)
		}
		feed(t, kit, at(130)) // 60..120 is told, 0..60 is gone
		if got := windowsIn(t, kit, testMinutes); got != "60..120=1 120..180=2" {
			t.Fatal(got)
		}
		if n, _, _ := StateOf(kit, testCounts, "a"); n != 3 {
			t.Fatal(n)
		}
		if failed := failing(t, kit, at(200)); failed.Input != "minutes" || failed.Reason != "not this one" || failed.Offset != -1 {
			t.Fatal(failed)
		}
		before := tries
		feed(t, kit, at(201))
		if tries != before {
			t.Fatal("a window that was given up came again")
		}
	}
}

func visiting() *App {
	return textApp(func(ctx *Context, r Record[string, string]) error {
		if r.Value == "silent" {
			return nil
		}
		if r.Value == "gone" {
			return testVisits.Delete(ctx)
		}
		values, err := testVisits.Values(ctx)
		if err != nil {
			return err
		}
		sum := int64(1)
		for _, n := range values {
			sum += n
		}
		if err := testVisits.Put(ctx, sum); err != nil {
			return err
		}
		if n, found, err := testVisits.Get(ctx); n != sum || !found || err != nil {
			return fmt.Errorf("%d is read as %d, %t, %w", sum, n, found, err)
		}
		return nil
	})
}

func TestSessionsGrowAndMerge(t *testing.T) {
	for _, noPrefetch := range []bool{false, true} {
		setup := TestSetup{NoPrefetch: noPrefetch, Sessions: []TestSessions{{Name: "visits", Gap: 10 * ms, Grace: time.Hour}}}
		kit := kitOf(t, visiting(), setup)
		check := func(want string) {
			t.Helper()
			if got := windowsIn(t, kit, testVisits); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
		feed(t, kit, at(1), at(8), at(30), at(31), at(60))
		check("1..8=2 30..31=2 60..60=1")
		feed(t, kit, at(40, "silent"), at(19), at(19)) // 40 belongs to 30..31; 19 is too far from 8
		check("1..8=2 19..19=2 30..40=2 60..60=1")
		feed(t, kit, at(10)) // connects
		check("1..19=5 30..40=2 60..60=1")
		feed(t, kit, at(50))
		check("1..19=5 30..60=4")
		failed := failing(t, kit, at(25, "silent"))
		if !strings.Contains(failed.Reason, `store "visits": a record connects 2 sessions with values`) || failed.Retriable {
			t.Fatal(failed)
		}
		check("1..19=5 30..60=4")
		feed(t, kit, at(61, "gone"), at(100, "silent"))
		check("1..19=5 30..61 100..100")
		feed(t, kit, at(25)) // one of the two has no value any more
		check("1..61=6 100..100")

		// All within one batch: what a later record connects, earlier ones wrote.
		app := visiting()
		MergeSessions(app, testVisits, func(older, newer int64) int64 { return 10*older + newer })
		kit = kitOf(t, app, setup)
		feed(t, kit, at(1), at(20), at(21), at(100, "silent"), at(10, "silent"), at(105))
		check("1..21=12 100..105=1")
		if n, found, err := StateOf(kit, testCounts, "a"); err == nil {
			t.Fatal(n, found)
		}
	}
}

func TestASessionIsToldOnceWhenItIsOver(t *testing.T) {
	for _, noPrefetch := range []bool{false, true} {
		app := visiting()
		told := ""
		OnCloseSession(app, testVisits, func(ctx *Context, closed ClosedSession[string, int64]) error {
			if session, found := testVisits.Session(ctx); !found || session != closed.Window {
				t.Error(session, closed.Window)
			}
			if n, found, err := testVisits.Get(ctx); n != closed.Value || found != closed.HasValue || err != nil {
				t.Error(n, found, err)
			}
			if closed.Start == 90 {
				return errors.New("not this one")
			}
			told += fmt.Sprintf("%s %d..%d=%d,%t,%d ", closed.Key, closed.Start, closed.End, closed.Value, closed.HasValue, closed.Attempt())
			if closed.Value == 4 {
				if err := testVisits.Put(ctx, 5); err != nil {
					return err
				}
			}
			return testOut.Emit(ctx, closed.Key, closed.Value)
		})
		sessions := []TestSessions{{Name: "visits", Gap: 10 * ms, Grace: 5 * ms, Retention: time.Second, Final: true}}
		kit := kitOf(t, app, TestSetup{NoPrefetch: noPrefetch, Sessions: sessions, Outputs: []string{"out"}})
		feed(t, kit, at(1), at(10), at(20), at(12), at(35))
		if told != "" {
			t.Fatal("told before its grace: " + told)
		}
		feed(t, kit, TestRecord{Key: "b", Value: "silent", Timestamp: 50})
		feed(t, kit, at(30), at(36)) // 30 would reach the one that is over
		if told != "a 1..20=4,true,1 " || kit.Outputs("out")[0].Timestamp != 20 || kit.Late != 1 {
			t.Fatal(told, kit.Outputs("out"), kit.Late)
		}
		feed(t, kit, at(90))
		if told != "a 1..20=4,true,1 a 35..36=2,true,1 b 50..50=0,false,1 " {
			t.Fatal(told)
		}
		if got := windowsIn(t, kit, testVisits); got != "1..20=5 35..36=2 90..90=1" {
			t.Fatal(got)
		}
		if failed := failing(t, kit, at(2000)); failed.Input != "visits" || failed.Reason != "not this one" {
			t.Fatal(failed)
		}
		feed(t, kit, at(2001)) // the one that was given up does not come again, and all are gone
		if got := windowsIn(t, kit, testVisits); got != "2000..2001=2" || len(kit.Outputs("out")) != 3 {
			t.Fatal(got, kit.Outputs("out"))
		}
	}
}

func TestARecordThatIsLateForItsSession(t *testing.T) {
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		_, found := testVisits.Session(ctx)
		n, has, err := testVisits.Get(ctx)
		if r.Value == "late" && (found || has || err != nil || !errors.Is(testVisits.Put(ctx, 1), ErrNoSession)) {
			t.Error(found, n, has, err)
		}
		if r.Value == "late" {
			return nil
		}
		return testVisits.Put(ctx, 1)
	})
	kit := kitOf(t, app, TestSetup{ProcessLate: true, Sessions: []TestSessions{{Name: "visits", Gap: 10 * ms, Grace: 5 * ms}}})
	feed(t, kit, at(100), at(115), at(84, "late"), TestRecord{Value: "late", Timestamp: 115})
	if got := windowsIn(t, kit, testVisits); got != "100..100=1 115..115=1" {
		t.Fatal(got)
	}
	if kit.Late != 1 {
		t.Fatal(kit.Late)
	}
	feed(t, kit, at(131))
	if got := windowsIn(t, kit, testVisits); got != "131..131=1" {
		t.Fatal(got)
	}
}

func withTimers() *App {
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		switch r.Value {
		case "cancel":
			return testReminder.Cancel(ctx)
		case "cancel b":
			return testReminder.CancelKey(ctx, "b")
		case "other":
			return testReminder.SetKey(ctx, "b", time.UnixMilli(500))
		case "alarm":
			return testAlarm.Set(ctx, time.UnixMilli(2_000))
		case "far":
			return testReminder.Set(ctx, time.UnixMilli(-1))
		case "fail":
			if err := testReminder.Set(ctx, time.UnixMilli(1)); err != nil {
				return err
			}
			return errors.New("no")
		}
		return testReminder.Set(ctx, r.Time().Add(100*ms))
	})
	OnTimer(app, testReminder, func(ctx *Context, due Due[string]) error {
		if due.Timestamp() == 500 {
			if err := testReminder.Set(ctx, time.UnixMilli(700)); err != nil {
				return err
			}
		}
		return testOut.Emit(ctx, due.Key, due.Timestamp())
	})
	OnTimer(app, testAlarm, func(ctx *Context, due Due[string]) error { return testOut.Emit(ctx, due.Key, -1) })
	return app
}

func TestTimersMoveAreCancelledAndSetEachOther(t *testing.T) {
	kit := kitOf(t, withTimers(), TestSetup{Outputs: []string{"out"}, Timers: true})
	kit.Now = 1_000
	emitted := func() []Row[string, int64] {
		rows, err := Emitted(kit, testOut)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	feed(t, kit, at(1), at(50))
	if pending := kit.Timers(); !reflect.DeepEqual(pending, []PendingTimer{{"reminder", []byte("a"), 150, false}}) {
		t.Fatal(pending)
	}
	failing(t, kit, at(120, "fail"))
	feed(t, kit, at(60, "other"), at(150, "alarm"))
	if rows := emitted(); !reflect.DeepEqual(rows, []Row[string, int64]{{"a", 150}}) {
		t.Fatal(rows)
	}
	feed(t, kit, at(170), at(260, "cancel"))
	if err := kit.Advance(999 * ms); err != nil || len(emitted()) != 1 {
		t.Fatal(err, emitted())
	}
	if err := kit.Advance(ms); err != nil {
		t.Fatal(err)
	}
	feed(t, kit, at(699, "cancel"))
	feed(t, kit, at(700, "cancel"))
	if rows := emitted()[1:]; !reflect.DeepEqual(rows, []Row[string, int64]{{"a", -1}, {"b", 500}, {"b", 700}}) {
		t.Fatal(rows)
	}
	if kit.Outputs("out")[2].Timestamp != 500 || len(kit.Timers()) != 0 {
		t.Fatal(kit.Outputs("out"), kit.Timers())
	}
	if failed := failing(t, kit, at(701, "far")); failed.Class != "Output" || !strings.Contains(failed.Reason, `timer "reminder": time -1 is outside`) {
		t.Fatal(failed)
	}
	feed(t, kit, at(701, "other"), at(702, "cancel b"))
	if rows := emitted(); len(rows) != 4 || len(kit.Timers()) != 0 {
		t.Fatal(rows)
	}
}

// A timer that an earlier one of the same batch moves or cancels is passed over.
func TestTimersThatAreOvertaken(t *testing.T) {
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		for n, key := range []string{"first", "moved", "cancelled"} {
			if err := testReminder.SetKey(ctx, key, time.UnixMilli(int64(n)+10)); err != nil {
				return err
			}
		}
		return nil
	})
	OnTimer(app, testReminder, func(ctx *Context, due Due[string]) error {
		if due.Key == "first" {
			if err := testReminder.SetKey(ctx, "moved", time.UnixMilli(200)); err != nil {
				return err
			}
			if err := testReminder.CancelKey(ctx, "cancelled"); err != nil {
				return err
			}
		}
		return testOut.Emit(ctx, due.Key, due.Timestamp())
	})
	kit := kitOf(t, app, TestSetup{Outputs: []string{"out"}, Timers: true})
	feed(t, kit, at(100))
	rows, _ := Emitted(kit, testOut)
	if !reflect.DeepEqual(rows, []Row[string, int64]{{"first", 10}}) {
		t.Fatal(rows)
	}
	if pending := kit.Timers(); len(pending) != 1 || pending[0].Time != 200 {
		t.Fatal(pending)
	}
}

func TestKeysAreForgottenAfterTheirTTL(t *testing.T) {
	seen := []int64{}
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		if r.Value == "tick" {
			return nil
		}
		n, _, err := testCounts.Get(ctx)
		if err != nil {
			return err
		}
		seen = append(seen, n)
		return testCounts.Put(ctx, n+1)
	})
	kit := kitOf(t, app, TestSetup{Stores: []string{"counts"}, TTL: map[string]time.Duration{"counts": 10 * ms}})
	if err := SetState(kit, testCounts, "b", 5); err != nil { // prepared: it stays
		t.Fatal(err)
	}
	feed(t, kit, at(1), TestRecord{Key: "other", Value: "tick", Timestamp: 8})
	feed(t, kit, at(9))
	feed(t, kit, TestRecord{Key: "other", Value: "tick", Timestamp: 18})
	feed(t, kit, at(5), TestRecord{Key: "other", Value: "tick", Timestamp: 15})
	feed(t, kit, at(18), TestRecord{Key: "other", Value: "tick", Timestamp: 28}, at(28))
	if !reflect.DeepEqual(seen, []int64{0, 1, 2, 0, 0}) {
		t.Fatal(seen)
	}
	if n, _, _ := StateOf(kit, testCounts, "b"); n != 5 {
		t.Fatal(n)
	}
}

func TestWhatTheManifestLacksIsNamed(t *testing.T) {
	closes := countingWindows()
	OnClose(closes, testMinutes, func(*Context, Closed[string, int64]) error { return nil })
	merges := countingWindows()
	MergeSessions(merges, testVisits, func(a, b int64) int64 { return a + b })
	minutes := func(final bool) TestSetup {
		return TestSetup{Windows: []TestWindows{{Name: "minutes", Size: time.Minute, Final: final}}}
	}
	for want, of := range map[string]struct {
		app   *App
		setup TestSetup
	}{
		`timer "reminder", and the manifest has no timers`:                                        {onlyReminder(), TestSetup{}},
		`closing windows or sessions of "minutes"; stores with emit: Final in the manifest: none`: {closes, minutes(false)},
		`"minutes" has emit: Final in the manifest`:                                               {countingWindows(), minutes(true)},
		`stores: minutes (Window)`:                                                                {merges, minutes(false)},
		`need a Size above 0`:                                                                     {countingWindows(), TestSetup{Windows: []TestWindows{{Name: "minutes"}}}},
		`need a Gap above 0`:                                                                      {countingWindows(), TestSetup{Sessions: []TestSessions{{Name: "visits"}}}},
	} {
		var config *ConfigError
		if _, err := NewTestKit(of.app, of.setup); !errors.As(err, &config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	kit := kitOf(t, countingWindows(), TestSetup{Stores: []string{"minutes"}})
	if failed := failing(t, kit, at(1)); !strings.Contains(failed.Reason, "declared stores: minutes (KeyValue)") || failed.Retriable {
		t.Fatal(failed)
	}
	kit = kitOf(t, textApp(func(ctx *Context, r Record[string, string]) error { return testReminder.Set(ctx, r.Time()) }), TestSetup{})
	if failed := failing(t, kit, at(1)); !strings.Contains(failed.Reason, `add "timers: {}" under spec`) {
		t.Fatal(failed)
	}
	kit = kitOf(t, textApp(func(ctx *Context, r Record[string, string]) error { return testAlarm.Set(ctx, r.Time()) }), TestSetup{Timers: true})
	if failed := failing(t, kit, at(1)); failed.Input != "alarm" || !strings.Contains(failed.Reason, `no handler for wall clock timer "alarm"`) {
		t.Fatal(failed)
	}
}

func onlyReminder() *App {
	app := countingWindows()
	OnTimer(app, testReminder, func(*Context, Due[string]) error { return nil })
	return app
}
