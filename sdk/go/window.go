package millstream

import (
	"errors"
	"fmt"
	"time"
)

// A Window is a window or a session, in milliseconds since 1970. A window is from Start up to before End; a session has its
// first and last record at Start and End.
type Window struct{ Start, End int64 }

// StartTime and EndTime are the same as time.Time.
func (w Window) StartTime() time.Time { return time.UnixMilli(w.Start) }
func (w Window) EndTime() time.Time   { return time.UnixMilli(w.End) }

// Memory of what Windows returns is made in pieces of so many.
const windowChunk = 256

// A WindowStore is a handle on a store of type Window: a value per key and window. Declare it once, next to the handlers;
// it is safe for use by all of them.
//
//	for _, window := range perMinute.Windows(ctx) {
//		n, _, err := perMinute.Get(ctx, window)
//		if err != nil {
//			return err
//		}
//		if err := perMinute.Put(ctx, window, n+1); err != nil {
//			return err
//		}
//	}
//
// With `emit: Final` in the manifest, OnClose says what happens to a window at its end. Errors are those of Store.
type WindowStore[K, V any] struct {
	table table[K, V]
}

// NewWindowStore makes a handle.
func NewWindowStore[K, V any](name string, key Codec[K], value Codec[V]) *WindowStore[K, V] {
	return &WindowStore[K, V]{table[K, V]{word: wordStore, kind: windowTable, name: name, key: key, value: value}}
}

// Name of the store in the manifest.
func (s *WindowStore[K, V]) Name() string { return s.table.name }

// Windows are the open windows of the record: one, or several if they overlap, in the order of their beginnings; none where
// the record is late for all, or has no key. In a handler of closing windows, the one that closes. A store that the manifest
// does not declare gives none, and fails the record.
func (s *WindowStore[K, V]) Windows(ctx *Context) []Window {
	id, err := s.table.id(ctx)
	if err != nil {
		return nil // it fails the record
	}
	// One piece of memory for the windows of many records.
	all := ctx.batch.shown
	open := ctx.batch.frame.windowsOf(ctx.item)
	if cap(all)-len(all) < len(open) {
		all = make([]Window, 0, max(len(open), min(len(ctx.batch.frame.windows), windowChunk)))
	}
	before := len(all)
	for at := range open {
		if int(open[at].table) == id {
			all = append(all, Window{open[at].start, open[at].end})
		}
	}
	ctx.batch.shown = all
	return all[before:len(all):len(all)]
}

// Get reads the value of a window of the record's own key, which is known by its Start; false if there is none.
func (s *WindowStore[K, V]) Get(ctx *Context, window Window) (V, bool, error) {
	id, from, row, err := s.row(ctx, window)
	if err != nil {
		var none V
		return none, false, err
	}
	return s.table.read(ctx, id, from, row)
}

// GetKey reads the value of a window of any key of the task.
func (s *WindowStore[K, V]) GetKey(ctx *Context, key K, window Window) (V, bool, error) {
	var none V
	id, err := s.table.id(ctx)
	if err != nil {
		return none, false, err
	}
	raw, err := s.table.encodeKey(ctx, key)
	if err != nil {
		return none, false, err
	}
	row := ctx.batch.rowKey(id, raw, bounds{window.Start, window.End})
	return s.table.read(ctx, id, ctx.batch.slot(id, row), row)
}

// Put writes the value of a window of the record's own key. The sidecar refuses one that is no window of the store.
func (s *WindowStore[K, V]) Put(ctx *Context, window Window, value V) error {
	id, to, row, err := s.row(ctx, window)
	if err != nil {
		return err
	}
	return s.table.write(ctx, id, to, row, value)
}

// Delete forgets the value of a window of the record's own key. Nothing is told then when it closes.
func (s *WindowStore[K, V]) Delete(ctx *Context, window Window) error {
	id, to, row, err := s.row(ctx, window)
	if err != nil {
		return err
	}
	ctx.batch.write(ctx, id, to, row, nil)
	return nil
}

func (s *WindowStore[K, V]) row(ctx *Context, window Window) (int, *slot, []byte, error) {
	id, err := s.table.id(ctx)
	if err != nil {
		return 0, nil, nil, err
	}
	if ctx.key == nil {
		return 0, nil, nil, fmt.Errorf("store %q: %w", s.table.name, ErrNoKey)
	}
	slot, row := ctx.batch.ownRow(id, bounds{window.Start, window.End})
	return id, slot, row, nil
}

// A Closed is a window that closes. State and outputs are as for a record of its key; outputs get the window's last
// millisecond.
type Closed[K, V any] struct {
	Window
	Key   K
	Value V

	ctx *Context
}

// Attempt is 1 for the first try, one more after each failure.
func (c Closed[K, V]) Attempt() int { return int(c.ctx.item.attempt) }

// OnClose makes a function the handler of the windows of a store with `emit: Final`: it is called once per window, when
// event time has passed its end and grace, with its last value. What is said of On applies.
//
// OnClose panics if the store has such a handler already.
func OnClose[K, V any](app *App, store *WindowStore[K, V], handle func(ctx *Context, closed Closed[K, V]) error) {
	name := store.Name()
	if app.closings[name] != nil {
		panic(fmt.Sprintf("millstream: store %q already has a handler for closing windows", name))
	}
	app.closings[name] = &handler{run: func(ctx *Context) error {
		closed := Closed[K, V]{Window: Window{ctx.item.offset, ctx.item.timestamp + 1}, ctx: ctx}
		var err error
		if closed.Key, err = store.table.key.Decode(ctx.key); err != nil {
			return ctx.undecodable("key", store.table.key.Name(), err)
		}
		var found bool
		if closed.Value, found, err = store.Get(ctx, closed.Window); err != nil || !found {
			return err // without a value there is nothing to tell
		}
		return handle(ctx, closed)
	}}
}

// sessionClosingsCapability is that of HELLO: the program takes sessions that close.
const sessionClosingsCapability = "sessionClosings"

// A ClosedSession is a session that closes, from its first record to its last. State and outputs are as for a record of its
// key; outputs get the time of its last record.
type ClosedSession[K, V any] struct {
	Window
	Key      K
	Value    V
	HasValue bool // false: nothing was written to it

	ctx *Context
}

// Attempt is 1 for the first try, one more after each failure.
func (c ClosedSession[K, V]) Attempt() int { return int(c.ctx.item.attempt) }

// OnCloseSession makes a function the handler of the sessions of a store with `emit: Final`: it is called once per session,
// when event time has passed its end, gap and grace, with its last value. What is said of On applies.
//
// OnCloseSession panics if the store has such a handler already.
func OnCloseSession[K, V any](app *App, store *SessionStore[K, V], handle func(ctx *Context, closed ClosedSession[K, V]) error) {
	name := store.Name()
	if app.closings[name] != nil {
		panic(fmt.Sprintf("millstream: store %q already has a handler for closing sessions", name))
	}
	app.closings[name] = &handler{run: func(ctx *Context) error {
		closed := ClosedSession[K, V]{Window: Window{ctx.item.offset, ctx.item.timestamp}, ctx: ctx}
		var err error
		if closed.Key, err = store.table.key.Decode(ctx.key); err != nil {
			return ctx.undecodable("key", store.table.key.Name(), err)
		}
		if closed.Value, closed.HasValue, err = store.Get(ctx); err != nil {
			return err
		}
		return handle(ctx, closed)
	}}
}

// ErrNoSession is returned where the record belongs to no session of the store: it is late, or has no key.
var ErrNoSession = errors.New("the record belongs to no session of the store: it is late, or has no key")

// A SessionStore is a handle on a store of type Session: a value per key and session. Declare it once, next to the handlers;
// it is safe for use by all of them.
//
//	clicks, _, err := visits.Get(ctx)
//	if err != nil {
//		return err
//	}
//	return visits.Put(ctx, clicks+1)
//
// A record belongs to one session, made of all that it joins or connects. A session that the handler does not write keeps
// its value; what becomes of several values MergeSessions says, else the record fails. With `emit: Final` in the manifest,
// OnCloseSession says what happens to a session once it is over.
type SessionStore[K, V any] struct {
	table table[K, V]
}

// NewSessionStore makes a handle.
func NewSessionStore[K, V any](name string, key Codec[K], value Codec[V]) *SessionStore[K, V] {
	return &SessionStore[K, V]{table[K, V]{word: wordStore, kind: sessionTable, name: name, key: key, value: value}}
}

// Name of the store in the manifest.
func (s *SessionStore[K, V]) Name() string { return s.table.name }

// Session is the record's session, with the record; false where it has none: see ErrNoSession. In a handler of closing
// sessions, the one that closes.
func (s *SessionStore[K, V]) Session(ctx *Context) (Window, bool) {
	_, session, err := s.session(ctx)
	if err != nil {
		return Window{}, false
	}
	return Window{session.start, session.end}, true
}

// Values are those of the sessions that the record's is made of, oldest first: none for a new session, several where the
// record connects some. After Put or Delete what is left of it.
func (s *SessionStore[K, V]) Values(ctx *Context) ([]V, error) {
	_, session, err := s.session(ctx)
	if errors.Is(err, ErrNoSession) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	raws, err := ctx.batch.sessionValues(session)
	if err != nil {
		return nil, err
	}
	values := make([]V, len(raws))
	for i, raw := range raws {
		if values[i], err = s.table.decode(ctx.key, raw); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// Get reads the session's value so far, merged if there are several (MergeSessions); false if there is none.
func (s *SessionStore[K, V]) Get(ctx *Context) (V, bool, error) {
	var none V
	_, session, err := s.session(ctx)
	if errors.Is(err, ErrNoSession) {
		return none, false, nil
	}
	if err != nil {
		return none, false, err
	}
	raw, err := ctx.batch.sessionValue(session)
	if err != nil || raw == nil {
		return none, false, err
	}
	value, err := s.table.decode(ctx.key, raw)
	return value, err == nil, err
}

// Put writes the value of the record's session. An empty value (no bytes) is a session without one.
func (s *SessionStore[K, V]) Put(ctx *Context, value V) error {
	id, session, err := s.session(ctx)
	if err != nil {
		return err
	}
	to, row := ctx.batch.ownRow(id, session.bounds)
	return s.table.write(ctx, id, to, row, value)
}

// Delete forgets the value: the session goes on without one.
func (s *SessionStore[K, V]) Delete(ctx *Context) error {
	id, session, err := s.session(ctx)
	if err != nil {
		return err
	}
	to, row := ctx.batch.ownRow(id, session.bounds)
	ctx.batch.write(ctx, id, to, row, nil)
	return nil
}

func (s *SessionStore[K, V]) session(ctx *Context) (int, *openWindow, error) {
	id, err := s.table.id(ctx)
	if err != nil {
		return 0, nil, err
	}
	open := ctx.batch.frame.windowsOf(ctx.item)
	for at := range open {
		if int(open[at].table) == id {
			return id, &open[at], nil
		}
	}
	return 0, nil, fmt.Errorf("store %q: %w", s.table.name, ErrNoSession)
}

// mergeFunc makes one value of several, in the arena.
type mergeFunc func(values [][]byte, arena *[]byte) ([]byte, error)

// MergeSessions says what becomes of the values of sessions that a record connects, where its handler does not write the
// session: merge is called with two of them, the older first, until one is left.
func MergeSessions[K, V any](app *App, store *SessionStore[K, V], merge func(older, newer V) V) {
	codec := store.table.value
	app.merges[store.Name()] = func(raws [][]byte, arena *[]byte) ([]byte, error) {
		var merged V
		for i, raw := range raws {
			value, err := store.table.decode(nil, raw)
			if err != nil {
				return nil, err
			}
			if i == 0 {
				merged = value
			} else {
				merged = merge(merged, value)
			}
		}
		data, err := appendTo(arena, codec, merged)
		if err != nil {
			message := fmt.Sprintf("store %q: a merged value cannot be encoded as %s: %v", store.Name(), codec.Name(), err)
			return nil, &OutputError{message, err}
		}
		return data, nil
	}
}
