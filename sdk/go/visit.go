package millstream

import (
	"fmt"
	"time"

	"github.com/tinylib/msgp/msgp"
)

const (
	visitsCapability = "visits" // of HELLO: the program takes rows of visits
	maxVisitData     = 4096     // bytes, the protocol's limit
	visitOverhead    = 16       // what an op takes in a frame beside its data, at most
)

// What an op on a visit does, as RESULT has it.
const (
	startVisit = iota
	stopVisit
	pauseVisit
	resumeVisit
)

// A Visit is a handle on a visit of the manifest: a walk over all rows of a store in this task, beside the input. Declare it
// once, next to the handlers; it is safe for use by all of them. OnVisit says what happens to a row. The manifest needs
// `visits: [{name: ..., store: ...}]`.
//
// Starting, stopping, pausing and resuming count if the record does that asked for it, and from that record on. A walk
// survives everything that state survives, and goes on behind the rows that are committed.
type Visit[K, V, D any] struct {
	name  string
	store *Store[K, V]
	data  Codec[D]
}

// NewVisit makes a handle on the visit of that name; `store` is the one that the manifest names for it, `data` the codec of
// what Start is given.
func NewVisit[K, V, D any](name string, store *Store[K, V], data Codec[D]) *Visit[K, V, D] {
	return &Visit[K, V, D]{name, store, data}
}

// Name of the visit in the manifest.
func (v *Visit[K, V, D]) Name() string { return v.name }

// Start begins a walk; one that is under way begins anew, one that is paused as well. `data` comes with every row, at most
// 4096 bytes of it. An error (data that does not encode or is too long, a hook, a visit the manifest does not declare) fails
// the record.
func (v *Visit[K, V, D]) Start(ctx *Context, data D) error {
	raw, err := appendTo(&ctx.batch.arena, v.data, data)
	if err != nil {
		return ctx.fail(&OutputError{fmt.Sprintf("visit %q: its data cannot be encoded as %s: %v", v.name, v.data.Name(), err), err})
	}
	return v.stage(ctx, startVisit, raw)
}

// StartPlain is Start without data.
func (v *Visit[K, V, D]) StartPlain(ctx *Context) error { return v.stage(ctx, startVisit, nil) }

// Stop ends a walk where it is: neither a row nor its end comes any more. Stopping what does not run is fine.
func (v *Visit[K, V, D]) Stop(ctx *Context) error { return v.stage(ctx, stopVisit, nil) }

// Pause holds a walk where it is, until Resume, Start or Stop.
func (v *Visit[K, V, D]) Pause(ctx *Context) error { return v.stage(ctx, pauseVisit, nil) }

// Resume lets a paused walk go on.
func (v *Visit[K, V, D]) Resume(ctx *Context) error { return v.stage(ctx, resumeVisit, nil) }

func (v *Visit[K, V, D]) stage(ctx *Context, what int, data []byte) error {
	id := ctx.batch.schema.findVisit(v.name)
	switch {
	case id < 0:
		return ctx.fail(&UndeclaredError{"visit", v.name, ctx.batch.schema.visitNames()})
	case ctx.item.kind == hookItem:
		return ctx.fail(&OutputError{Message: fmt.Sprintf("visit %q: a hook starts and stops none: they belong to the time of a record", v.name)})
	case len(data) > maxVisitData:
		return ctx.fail(&OutputError{Message: fmt.Sprintf("visit %q: its data has %d bytes, the limit is %d", v.name, len(data), maxVisitData)})
	}
	ctx.batch.stageVisit(id, what, data)
	return nil
}

func (b *batchRun) stageVisit(id, what int, data []byte) {
	out := appendInt(appendInt(msgp.AppendArrayHeader(b.visits, 3), int64(id)), int64(what))
	b.visits = appendMaybeBytes(out, data)
	b.visitCount++
	b.staged += len(data) + visitOverhead
	b.elements++
}

// A Visited is a row that a visit has come to. State and outputs are as for a record of its key: Store.Put without a key
// writes the row. Outputs get the time of the visit's start.
type Visited[K, V, D any] struct {
	Key     K
	Value   V // as it is now
	Data    D // what Start was given
	HasData bool

	ctx *Context
}

// Timestamp is when the visit was started, in milliseconds since 1970: the time of the record that did; Time is the same as a
// time.Time.
func (r Visited[K, V, D]) Timestamp() int64 { return r.ctx.item.timestamp }
func (r Visited[K, V, D]) Time() time.Time  { return time.UnixMilli(r.ctx.item.timestamp) }

// Attempt is 1 for the first try, one more after each failure.
func (r Visited[K, V, D]) Attempt() int { return int(r.ctx.item.attempt) }

// A VisitEnd says that a visit has come to the end of the task's rows. It has no key.
type VisitEnd[D any] struct {
	Data    D // what Start was given
	HasData bool

	ctx *Context
}

// Timestamp is when the visit was started, in milliseconds since 1970; Time is the same as a time.Time.
func (e VisitEnd[D]) Timestamp() int64 { return e.ctx.item.timestamp }
func (e VisitEnd[D]) Time() time.Time  { return time.UnixMilli(e.ctx.item.timestamp) }

// Attempt is 1 for the first try, one more after each failure.
func (e VisitEnd[D]) Attempt() int { return int(e.ctx.item.attempt) }

// visitHandlers are those of one visit.
type visitHandlers struct {
	store     string
	rows, end func(ctx *Context) error // `end` may be nil
	encode    func(data any) ([]byte, error)
}

func (a *App) visit(name, store string, encode func(any) ([]byte, error)) *visitHandlers {
	found := a.visits[name]
	if found == nil {
		found = &visitHandlers{store: store, encode: encode}
		a.visits[name] = found
	}
	return found
}

// OnVisit makes a function the handler of the rows of a visit: called for every row of its store in the task, in the order of
// the key bytes, once in committed effect. What is said of On applies; records are handled in between.
//
// OnVisit panics if the visit has a handler already.
func OnVisit[K, V, D any](app *App, visit *Visit[K, V, D], handle func(ctx *Context, row Visited[K, V, D]) error) {
	of := app.visit(visit.name, visit.store.Name(), visit.encodeAny)
	if of.rows != nil {
		panic(fmt.Sprintf("millstream: visit %q already has a handler", visit.name))
	}
	of.rows = func(ctx *Context) error {
		row := Visited[K, V, D]{ctx: ctx}
		var there bool
		var err error
		if row.Value, there, err = visit.store.Get(ctx); err != nil || !there {
			return err // an earlier item of the batch deleted it
		}
		if row.Key, err = visit.store.table.key.Decode(ctx.key); err != nil {
			return ctx.undecodable("key", visit.store.table.key.Name(), err)
		}
		if row.Data, row.HasData, err = visit.dataOf(ctx); err != nil {
			return err
		}
		return handle(ctx, row)
	}
}

// OnVisitEnd makes a function the one that is called behind the last row of a visit. It panics if there is one already.
func OnVisitEnd[K, V, D any](app *App, visit *Visit[K, V, D], handle func(ctx *Context, end VisitEnd[D]) error) {
	of := app.visit(visit.name, visit.store.Name(), visit.encodeAny)
	if of.end != nil {
		panic(fmt.Sprintf("millstream: the end of visit %q already has a handler", visit.name))
	}
	of.end = func(ctx *Context) error {
		end := VisitEnd[D]{ctx: ctx}
		var err error
		if end.Data, end.HasData, err = visit.dataOf(ctx); err != nil {
			return err
		}
		return handle(ctx, end)
	}
}

func (v *Visit[K, V, D]) encodeAny(data any) ([]byte, error) { return encodeAny(v.data, data) }

func (v *Visit[K, V, D]) dataOf(ctx *Context) (data D, has bool, err error) {
	if ctx.item.value == nil {
		return data, false, nil
	}
	if data, err = v.data.Decode(ctx.item.value); err != nil {
		return data, false, ctx.undecodable("data", v.data.Name(), err)
	}
	return data, true, nil
}
