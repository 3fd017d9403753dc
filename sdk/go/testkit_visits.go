package millstream

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// Visits in a TestKit: what the sidecar keeps of them, and which rows come next.

// TestVisit is a visit of the manifest.
type TestVisit struct{ Name, Store string }

// Rows per batch: fewer than a usual store has, so that tests meet several.
const testVisitPage = 100

// A kitRun is a visit that was started and has not ended.
type kitRun struct {
	started int64
	data    []byte // nil: none
	after   *string
	paused  bool
}

// StartVisit starts a visit as a handler would, at Now, and lets it run to its end. `data` goes through the visit's codec; nil is
// none.
func (k *TestKit) StartVisit(name string, data any) error {
	id := k.schema.findVisit(name)
	if id < 0 {
		return &ConfigError{fmt.Sprintf("no visit %q; visits: %s", name, listed(k.schema.visitNames()))}
	}
	raw, err := k.schema.visitHandlers[id].encode(data)
	if err != nil {
		return err
	}
	k.visits[uint32(id)] = &kitRun{started: k.Now, data: raw}
	return k.handleDue()
}

// VisitsUnderWay are those that were started and have not ended: those that are paused.
func (k *TestKit) VisitsUnderWay() []string {
	var names []string
	for id := range k.visits {
		names = append(names, k.schema.visits[id].name)
	}
	slices.Sort(names)
	return names
}

// visited are the next rows of the first visit, by name, that is not paused; or its end.
func (k *TestKit) visited() []kitDue {
	ids := slices.SortedFunc(maps.Keys(k.visits), func(a, b uint32) int {
		return cmp.Compare(k.schema.visits[a].name, k.schema.visits[b].name)
	})
	for _, id := range ids {
		run := k.visits[id]
		if run.paused {
			continue
		}
		var found []kitDue
		for _, key := range slices.Sorted(maps.Keys(k.rows[k.schema.visits[id].store])) {
			if (run.after == nil || key > *run.after) && len(found) < testVisitPage {
				found = append(found, kitDue{at: run.started, key: []byte(key), visit: run, table: int(id)})
			}
		}
		if len(found) == 0 {
			return []kitDue{{at: run.started, visit: run, table: int(id)}}
		}
		return found
	}
	return nil
}

func (b *kitBatch) addVisited(due kitDue) {
	items := appendInt(appendInt(msgp.AppendArrayHeader(b.items, 6), 3), int64(due.table))
	if due.key == nil {
		items = msgp.AppendNil(items)
	} else {
		items = appendInt(items, b.keyIndex(due.key))
	}
	b.items = appendInt(appendMaybeBytes(appendInt(items, due.at), due.visit.data), 1)
	b.count++
}

// visitedDone notes that a row, or the end, is done with.
func (k *TestKit) visitedDone(due kitDue) {
	if due.key == nil {
		delete(k.visits, uint32(due.table))
		return
	}
	after := string(due.key)
	due.visit.after = &after
}

// changeVisit reads [visit, what, data or nil]; `at` is the time of the item that made it.
func (k *TestKit) changeVisit(r *frameReader, at int64) {
	r.fields("visit", 3)
	id, what, data := r.uint32("visit"), r.uint32("what"), r.maybeBytes("data")
	run := k.visits[id]
	switch {
	case what == startVisit:
		k.visits[id] = &kitRun{started: at, data: data}
	case what == stopVisit:
		delete(k.visits, id)
	case run != nil:
		run.paused = what == pauseVisit
	}
}
