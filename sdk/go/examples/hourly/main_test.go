package main

import (
	"reflect"
	"testing"
	"time"

	"github.com/millstream/millstream/sdk/go"
)

func TestHourly(t *testing.T) {
	kit, err := millstream.NewTestKit(newApp(), millstream.TestSetup{Outputs: []string{"averages"},
		Windows: []millstream.TestWindows{{Name: "hours", Size: time.Hour, Grace: time.Minute, Final: true}}})
	if err != nil {
		t.Fatal(err)
	}
	const noon = 1_700_002_800_000 // a full hour
	feed := func(minute int64, celsius float64, headers ...millstream.Header) {
		t.Helper()
		record := millstream.TestRecord{Key: "s", Value: Reading{celsius}, Headers: headers, Timestamp: noon + minute*60_000}
		if err := kit.Feed("readings", record); err != nil {
			t.Fatal(err)
		}
	}
	feed(1, 10)
	feed(2, 99, millstream.Header{Name: "quality", Value: []byte("bad")})
	feed(60, 7)  // the next hour
	feed(59, 20) // late, and within grace
	if len(kit.Outputs("averages")) != 0 {
		t.Fatal("an hour was told before its end and grace")
	}
	feed(61, 9)
	feed(58, 1_000) // too late
	rows, err := millstream.Emitted(kit, averages)
	if err != nil || !reflect.DeepEqual(rows, []millstream.Row[string, float64]{{Key: "s", Value: 15}}) {
		t.Fatal(rows, err)
	}
	if out := kit.Outputs("averages")[0]; string(out.Headers[0].Value) != "2" || out.Timestamp != noon || kit.Late != 1 {
		t.Fatal(out, kit.Late)
	}
}
