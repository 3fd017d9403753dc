package main

import (
	"reflect"
	"testing"

	"github.com/millstream/millstream/sdk/go"
)

func TestAverage(t *testing.T) {
	kit, err := millstream.NewTestKit(newApp(), millstream.TestSetup{Stores: []string{"seen", "sums"}, Outputs: []string{"averages"}})
	if err != nil {
		t.Fatal(err)
	}
	bad := []millstream.Header{{Name: "quality", Value: []byte("bad")}}
	err = kit.Feed("readings",
		millstream.TestRecord{Key: "s", Value: Reading{1, 10}}, millstream.TestRecord{Key: "s", Value: Reading{1, 10}},
		millstream.TestRecord{Key: "s", Value: Reading{2, 99}, Headers: bad}, millstream.TestRecord{Key: "s", Value: Reading{3, 20}})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := millstream.Emitted(kit, averages)
	if err != nil || !reflect.DeepEqual(rows, []millstream.Row[string, float64]{{Key: "s", Value: 10}, {Key: "s", Value: 15}}) {
		t.Fatal(rows, err)
	}
	if got := string(kit.Outputs("averages")[1].Headers[0].Value); got != "2" {
		t.Fatal(got)
	}
}
