package main

import (
	"reflect"
	"testing"

	"github.com/millstream/millstream/sdk/go"
)

func TestCents(t *testing.T) {
	kit, err := millstream.NewTestKit(newApp(), millstream.TestSetup{Outputs: []string{"order-cents"}})
	if err != nil {
		t.Fatal(err)
	}
	headers := []millstream.Header{{Name: "h", Value: []byte("1")}, {Name: "h"}}
	if err := kit.Feed("orders", millstream.TestRecord{Key: "a", Value: Order{1.25}, Headers: headers},
		millstream.TestRecord{Key: "a", Value: Order{0}}); err != nil {
		t.Fatal(err)
	}
	rows, err := millstream.Emitted(kit, cents)
	if err != nil || !reflect.DeepEqual(rows, []millstream.Row[string, int64]{{Key: "a", Value: 125}}) {
		t.Fatal(rows, err)
	}
	if got := kit.Outputs("order-cents")[0].Headers; !reflect.DeepEqual(got, headers) {
		t.Fatal(got)
	}
}
