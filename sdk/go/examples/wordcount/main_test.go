package main

import (
	"reflect"
	"testing"

	"github.com/millstream/millstream/sdk/go"
)

func TestWordCount(t *testing.T) {
	kit, err := millstream.NewTestKit(newApp(), millstream.TestSetup{Stores: []string{"counts"}, Outputs: []string{"word-counts"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"x", "y", "\xff", "x", "\xff"} {
		if err := kit.Feed("words", millstream.TestRecord{Key: word}); err != nil {
			t.Fatal(err)
		}
	}
	for word, want := range map[string]int64{"x": 2, "y": 1, "\xff": 2} {
		if got, _, err := millstream.StateOf(kit, counts, word); got != want || err != nil {
			t.Errorf("%q: %d, %v", word, got, err)
		}
	}
	rows, err := millstream.Emitted(kit, totals)
	want := []millstream.Row[string, int64]{{Key: "x", Value: 1}, {Key: "y", Value: 1}, {Key: "\xff", Value: 1}, {Key: "x", Value: 2}, {Key: "\xff", Value: 2}}
	if err != nil || !reflect.DeepEqual(rows, want) {
		t.Fatal(rows, err)
	}
}
