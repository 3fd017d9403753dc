package millstream

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Visits, through the test kit.

var (
	testAccounts = NewStore("accounts", String, Int64)
	testInterest = NewVisit("interest", testAccounts, Int64)
	testReports  = NewOutput("reports", String, String)
)

// visitApp adds what a visit's data says to every account, and reports at its end; records do what their value says.
func visitApp() *App {
	app := New()
	On(app, "in", String, String, func(ctx *Context, record Record[string, string]) error {
		var what string
		var n int64
		fmt.Sscan(record.Value, &what, &n)
		switch what {
		case "set":
			return testAccounts.Put(ctx, n)
		case "start":
			return testInterest.Start(ctx, n)
		case "plain":
			return testInterest.StartPlain(ctx)
		case "stop":
			return testInterest.Stop(ctx)
		case "pause":
			return errors.Join(testInterest.Start(ctx, n), testInterest.Pause(ctx))
		case "resume":
			return testInterest.Resume(ctx)
		case "fail":
			return errors.Join(testInterest.Start(ctx, n), errors.New("no"))
		}
		return nil
	})
	OnVisit(app, testInterest, func(ctx *Context, row Visited[string, int64, int64]) error {
		if row.Value < 0 {
			return Reject(fmt.Errorf("account %s is overdrawn", row.Key))
		}
		if row.Value == 1000 { // takes the next one away
			return testAccounts.DeleteKey(ctx, row.Key+"b")
		}
		if row.HasData {
			return testAccounts.Put(ctx, row.Value+row.Data)
		}
		return nil
	})
	OnVisitEnd(app, testInterest, func(ctx *Context, end VisitEnd[int64]) error {
		_, _, err := testAccounts.Get(ctx)
		return testReports.Emit(ctx, "end", fmt.Sprint(end.Data, end.HasData, end.Timestamp(), errors.Is(err, ErrNoKey)))
	})
	return app
}

func visitSetup() TestSetup {
	return TestSetup{Stores: []string{"others", "accounts"}, Outputs: []string{"reports"}, Visits: []TestVisit{{"interest", "accounts"}}}
}

func balances(t *testing.T, kit *TestKit, names ...string) string {
	t.Helper()
	var texts []string
	for _, name := range names {
		value, found, err := StateOf(kit, testAccounts, name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, fmt.Sprint(value, found))
	}
	return strings.Join(texts, " ")
}

func reports(t *testing.T, kit *TestKit) []string {
	t.Helper()
	rows, err := Emitted(kit, testReports)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, row := range rows {
		texts = append(texts, row.Value)
	}
	return texts
}

func TestAVisitComesToEveryRowAndThenToItsEnd(t *testing.T) {
	for _, noPrefetch := range []bool{false, true} {
		setup := visitSetup()
		setup.NoPrefetch = noPrefetch
		kit := kitOf(t, visitApp(), setup)
		for n := range 250 { // more than a page
			if err := SetState(kit, testAccounts, fmt.Sprintf("%03d", n), int64(n)); err != nil {
				t.Fatal(err)
			}
		}
		feed(t, kit, at(5, "start", "2"))
		if got := balances(t, kit, "000", "100", "249"); got != "2 true 102 true 251 true" {
			t.Error(got)
		}
		if got := reports(t, kit); !reflect.DeepEqual(got, []string{"2 true 5 true"}) {
			t.Error(got)
		}
		feed(t, kit, at(6, "plain"))
		if got := reports(t, kit); got[1] != "0 false 6 true" {
			t.Error(got)
		}
	}
}

func TestAPausedVisitWaitsUntilItIsResumed(t *testing.T) {
	kit := kitOf(t, visitApp(), visitSetup())
	feed(t, kit, at(1, "set", "1"), at(2, "pause", "3"), at(3, "set", "10"))
	if got := balances(t, kit, "a"); got != "10 true" || !reflect.DeepEqual(kit.VisitsUnderWay(), []string{"interest"}) {
		t.Error(got, kit.VisitsUnderWay())
	}
	feed(t, kit, at(4, "resume"))
	if got := balances(t, kit, "a"); got != "13 true" || len(kit.VisitsUnderWay()) > 0 {
		t.Error(got, kit.VisitsUnderWay())
	}
	feed(t, kit, at(5, "pause", "3"))
	feed(t, kit, at(6, "stop"))
	if len(kit.VisitsUnderWay()) > 0 || len(reports(t, kit)) != 1 {
		t.Error(kit.VisitsUnderWay(), reports(t, kit))
	}
}

func TestAVisitOfATest(t *testing.T) {
	kit := kitOf(t, visitApp(), visitSetup())
	feed(t, kit, at(1, "set", "1"))
	if err := kit.StartVisit("interest", int64(5)); err != nil || balances(t, kit, "a") != "6 true" {
		t.Error(err, balances(t, kit, "a"))
	}
	var config *ConfigError
	if err := kit.StartVisit("other", nil); !errors.As(err, &config) || !strings.Contains(err.Error(), "visits: interest") {
		t.Error(err)
	}
}

func TestARowThatFails(t *testing.T) {
	kit := kitOf(t, visitApp(), visitSetup())
	for name, value := range map[string]int64{"a": 1, "b": -1, "c": 1} {
		if err := SetState(kit, testAccounts, name, value); err != nil {
			t.Fatal(err)
		}
	}
	var failed FailedRecord
	if err := kit.Feed("in", at(1, "start", "2")); !errors.As(err, &failed) || failed.Input != "interest" || failed.Retriable {
		t.Error(err)
	}
	if got := balances(t, kit, "a", "b", "c"); got != "3 true -1 true 1 true" {
		t.Error(got)
	}
	if err := kit.Advance(ms); err != nil { // it is given up, and the walk goes on
		t.Error(err)
	}
	if got := balances(t, kit, "c"); got != "3 true" {
		t.Error(got)
	}
}

func TestARowThatIsGoneIsPassedOver(t *testing.T) {
	kit := kitOf(t, visitApp(), visitSetup())
	for name, value := range map[string]int64{"a": 1000, "ab": -1, "c": 1} {
		if err := SetState(kit, testAccounts, name, value); err != nil {
			t.Fatal(err)
		}
	}
	feed(t, kit, at(1, "start", "2"))
	if got := balances(t, kit, "a", "ab", "c"); got != "1000 true 0 false 3 true" {
		t.Error(got)
	}
}

func TestAStartThatFailsIsNone(t *testing.T) {
	kit := kitOf(t, visitApp(), visitSetup())
	failing(t, kit, at(1, "fail", "2"))
	if len(kit.VisitsUnderWay()) > 0 || len(reports(t, kit)) > 0 {
		t.Error(kit.VisitsUnderWay(), reports(t, kit))
	}
}

func TestVisitsThatDoNotFitTheManifest(t *testing.T) {
	for want, change := range map[string]func(app *App, setup *TestSetup){
		`declares visit "audit"`:             func(_ *App, setup *TestSetup) { setup.Visits = append(setup.Visits, TestVisit{"audit", "others"}) },
		`walks store "others" in the manif`:  func(_ *App, setup *TestSetup) { setup.Visits[0].Store = "others" },
		`does not declare; add {name: inter`: func(_ *App, setup *TestSetup) { setup.Visits = nil },
		`walks store "nowhere"; Stores: oth`: func(_ *App, setup *TestSetup) { setup.Visits[0].Store = "nowhere" },
	} {
		app, setup := visitApp(), visitSetup()
		change(app, &setup)
		var config *ConfigError
		if _, err := NewTestKit(app, setup); !errors.As(err, &config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestVisitsThatCannotBe(t *testing.T) {
	long := NewVisit("interest", testAccounts, String)
	other := NewVisit("other", testAccounts, String)
	app := visitApp()
	app.OnFinalize(func(ctx *Context) error { return testInterest.Stop(ctx) })
	On(app, "more", String, String, func(ctx *Context, record Record[string, string]) error {
		if record.Value == "other" {
			return other.Stop(ctx)
		}
		return long.Start(ctx, record.Value)
	})
	kit := kitOf(t, app, visitSetup())
	for value, want := range map[string]string{
		"other":                   `no visit "other" in the manifest; declared visits: interest`,
		strings.Repeat("x", 4097): `data has 4097 bytes, the limit is 4096`,
	} {
		if err := kit.Feed("more", TestRecord{Key: "a", Value: value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if failed := kit.Failures[len(kit.Failures)-1]; failed.Input != "finalize" || !strings.Contains(failed.Reason, "a hook") {
		t.Error(failed)
	}
}
