package main

import (
	"reflect"
	"testing"

	"github.com/millstream/millstream/sdk/go"
)

// Without a sidecar: go test.
func TestCountsPerKey(t *testing.T) {
	kit, err := millstream.NewTestKit(newApp(), millstream.TestSetup{Stores: []string{"counts"}, Outputs: []string{"word-counts"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"tea", "milk", "tea"} {
		if err := kit.Feed("words", millstream.TestRecord{Key: word, Value: []byte(word)}); err != nil {
			t.Fatal(err)
		}
	}
	if n, _, err := millstream.StateOf(kit, counts, "tea"); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	rows, err := millstream.Emitted(kit, totals)
	want := []millstream.Row[string, count]{{Key: "tea", Value: count{1}}, {Key: "milk", Value: count{1}}, {Key: "tea", Value: count{2}}}
	if err != nil || !reflect.DeepEqual(rows, want) {
		t.Fatal(rows, err)
	}
}
