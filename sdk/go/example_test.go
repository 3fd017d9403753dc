package millstream_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/millstream/millstream/sdk/go"
)

var (
	perMinute = millstream.NewWindowStore("per-minute", millstream.String, millstream.Int64)
	visits    = millstream.NewSessionStore("visits", millstream.String, millstream.Int64)
	left      = millstream.NewTimer("left", millstream.String)
	names     = millstream.NewJoin("names", millstream.String, millstream.String)
	pages     = millstream.NewGathered(func() map[string]int64 { return map[string]int64{} })
	out       = millstream.NewOutput("out", millstream.String, millstream.Int64)
)

type click = millstream.Record[string, string]

// Clicks per minute, each minute told once, when it is over.
func ExampleOnClose() {
	app := millstream.New()
	millstream.On(app, "clicks", millstream.String, millstream.String, func(ctx *millstream.Context, _ click) error {
		for _, window := range perMinute.Windows(ctx) {
			n, _, err := perMinute.Get(ctx, window)
			if err != nil {
				return err
			}
			if err := perMinute.Put(ctx, window, n+1); err != nil {
				return err
			}
		}
		return nil
	})
	millstream.OnClose(app, perMinute, func(ctx *millstream.Context, minute millstream.Closed[string, int64]) error {
		return out.Emit(ctx, minute.Key, minute.Value)
	})

	kit, err := millstream.NewTestKit(app, millstream.TestSetup{Outputs: []string{"out"},
		Windows: []millstream.TestWindows{{Name: "per-minute", Size: time.Minute, Final: true}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, second := range []int64{1, 59, 60} {
		if err := kit.Feed("clicks", millstream.TestRecord{Key: "anna", Timestamp: 1000 * second}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(millstream.Emitted(kit, out))
	// Output: [{anna 2}] <nil>
}

// Clicks of a visit, which ends with half an hour of silence.
func ExampleSessionStore() {
	app := millstream.New()
	millstream.On(app, "clicks", millstream.String, millstream.String, func(ctx *millstream.Context, _ click) error {
		n, _, err := visits.Get(ctx)
		if err != nil {
			return err
		}
		return visits.Put(ctx, n+1)
	})
	millstream.MergeSessions(app, visits, func(older, newer int64) int64 { return older + newer })

	kit, err := millstream.NewTestKit(app, millstream.TestSetup{
		Sessions: []millstream.TestSessions{{Name: "visits", Gap: 30 * time.Minute, Grace: time.Hour}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, minute := range []int64{1, 2, 60, 31} { // the last one connects
		if err := kit.Feed("clicks", millstream.TestRecord{Key: "anna", Timestamp: 60_000 * minute}); err != nil {
			fmt.Println(err)
		}
	}
	found, err := millstream.WindowsOf(kit, visits, "anna")
	fmt.Println(len(found), found[0].Value, found[0].EndTime().Sub(found[0].StartTime()), err)
	// Output: 1 4 59m0s <nil>
}

// Reminds of baskets that were left for an hour.
func ExampleTimer() {
	app := millstream.New()
	millstream.On(app, "clicks", millstream.String, millstream.String, func(ctx *millstream.Context, record click) error {
		if record.Value == "paid" {
			return left.Cancel(ctx)
		}
		return left.Set(ctx, record.Time().Add(time.Hour))
	})
	millstream.OnTimer(app, left, func(ctx *millstream.Context, due millstream.Due[string]) error {
		return out.Emit(ctx, due.Key, due.Timestamp())
	})

	kit, err := millstream.NewTestKit(app, millstream.TestSetup{Outputs: []string{"out"}, Timers: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = kit.Feed("clicks", millstream.TestRecord{Key: "anna", Value: "basket", Timestamp: 1},
		millstream.TestRecord{Key: "bob", Value: "basket", Timestamp: 2}, millstream.TestRecord{Key: "bob", Value: "paid", Timestamp: 3},
		millstream.TestRecord{Key: "carl", Value: "basket", Timestamp: 3_600_001})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(millstream.Emitted(kit, out))
	// Output: [{anna 3600001}] <nil>
}

// Looks up who somebody is in a topic that others write to.
func ExampleJoin() {
	app := millstream.New()
	millstream.On(app, "clicks", millstream.String, millstream.String, func(ctx *millstream.Context, record click) error {
		name, found, err := names.Get(ctx)
		if err != nil || !found {
			return err
		}
		return out.Emit(ctx, name, 1)
	})

	kit, err := millstream.NewTestKit(app, millstream.TestSetup{Outputs: []string{"out"}, Joins: []string{"names"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := millstream.SetState(kit, names, "17", "Anna"); err != nil {
		fmt.Println(err)
	}
	if err := kit.Feed("clicks", millstream.TestRecord{Key: "17"}, millstream.TestRecord{Key: "18"}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(millstream.Emitted(kit, out))
	// Output: [{Anna 1}] <nil>
}

// One record per page and transaction, however many clicks there were.
func ExampleGathered() {
	app := millstream.New()
	millstream.On(app, "clicks", millstream.String, millstream.String, func(ctx *millstream.Context, record click) error {
		pages.Change(ctx, func(pages *map[string]int64) { (*pages)[strings.Clone(record.Value)]++ })
		return nil
	})
	app.OnFinalize(func(ctx *millstream.Context) error {
		for page, n := range pages.Take(ctx) {
			if err := out.Emit(ctx, page, n); err != nil {
				return err
			}
		}
		return nil
	})

	kit, err := millstream.NewTestKit(app, millstream.TestSetup{Outputs: []string{"out"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	record := millstream.TestRecord{Key: "anna", Value: "shoes"}
	if err := kit.Feed("clicks", record, record, record); err != nil {
		fmt.Println(err)
	}
	fmt.Println(millstream.Emitted(kit, out))
	// Output: [{shoes 3}] <nil>
}
