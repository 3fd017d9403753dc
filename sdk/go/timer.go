package millstream

import (
	"fmt"
	"time"
)

// The protocol's limit of a timer's name, in bytes.
const maxTimerName = 255

// A Timer is a handle on the timers of a name, one per key: set again, it moves. Declare it once, next to the handlers; it
// is safe for use by all of them. OnTimer says what happens when it is due. The manifest needs `timers: {}`.
//
// A timer is committed with the record that set it, and survives everything that state survives.
type Timer[K any] struct {
	id  timerID
	key Codec[K]
}

// NewTimer makes a handle on timers of event time: due when the records of the task have come so far.
func NewTimer[K any](name string, key Codec[K]) *Timer[K] {
	return &Timer[K]{timerID{name, false}, key}
}

// NewWallClockTimer makes a handle on timers of the sidecar's clock.
func NewWallClockTimer[K any](name string, key Codec[K]) *Timer[K] {
	return &Timer[K]{timerID{name, true}, key}
}

// Name of the timers.
func (t *Timer[K]) Name() string { return t.id.name }

// Set makes the timer of the record's own key due at a time, to the millisecond; one that has passed is due at once. An error
// (no key, a time beyond the limits, a manifest without timers) fails the record where it is not ErrNoKey.
func (t *Timer[K]) Set(ctx *Context, at time.Time) error {
	due := at.UnixMilli()
	return t.stageOwn(ctx, &due)
}

// SetKey is Set for any key of the task.
func (t *Timer[K]) SetKey(ctx *Context, key K, at time.Time) error {
	due := at.UnixMilli()
	return t.stageKey(ctx, key, &due)
}

// Cancel forgets the timer of the record's own key. Cancelling what is not set is fine.
func (t *Timer[K]) Cancel(ctx *Context) error { return t.stageOwn(ctx, nil) }

// CancelKey is Cancel for any key of the task.
func (t *Timer[K]) CancelKey(ctx *Context, key K) error { return t.stageKey(ctx, key, nil) }

func (t *Timer[K]) stageOwn(ctx *Context, due *int64) error {
	if ctx.key == nil {
		return fmt.Errorf("%s: %w", t.id, ErrNoKey)
	}
	return t.stage(ctx, ctx.key, due)
}

func (t *Timer[K]) stageKey(ctx *Context, key K, due *int64) error {
	raw, err := appendTo(&ctx.batch.arena, t.key, key)
	if err != nil {
		return ctx.fail(&OutputError{fmt.Sprintf("%s: a key cannot be encoded as %s: %v", t.id, t.key.Name(), err), err})
	}
	return t.stage(ctx, raw, due)
}

func (t *Timer[K]) stage(ctx *Context, key []byte, due *int64) error {
	s := ctx.batch.schema
	problem := ""
	switch {
	case !s.shape.timers:
		problem = "the manifest has no timers; add \"timers: {}\" under spec"
	case ctx.item.kind == hookItem:
		problem = "a hook sets no timers: they belong to the time of a record"
	case len(t.id.name) > maxTimerName:
		problem = fmt.Sprintf("its name has %d bytes, the limit is %d", len(t.id.name), maxTimerName)
	case due != nil && (*due < s.minTimestamp || *due > s.maxTimestamp):
		problem = fmt.Sprintf("time %d is outside %d to %d", *due, s.minTimestamp, s.maxTimestamp)
	default:
		ctx.batch.setTimer(key, t.id, due)
		return nil
	}
	return ctx.fail(&OutputError{Message: fmt.Sprintf("%s: %s", t.id, problem)})
}

// A Due is a timer that is due. State and outputs are as for a record of its key; outputs get its time.
type Due[K any] struct {
	Key K // it was set for

	ctx *Context
}

// Timestamp is when it was to be due, in milliseconds since 1970; Time is the same as a time.Time.
func (d Due[K]) Timestamp() int64 { return d.ctx.item.timestamp }
func (d Due[K]) Time() time.Time  { return time.UnixMilli(d.ctx.item.timestamp) }

// Attempt is 1 for the first try, one more after each failure.
func (d Due[K]) Attempt() int { return int(d.ctx.item.attempt) }

// OnTimer makes a function the handler of timers that are due. What is said of On applies.
//
// OnTimer panics if the timers have a handler already.
func OnTimer[K any](app *App, timer *Timer[K], handle func(ctx *Context, due Due[K]) error) {
	if app.timers[timer.id] != nil {
		panic(fmt.Sprintf("millstream: %s already has a handler", timer.id))
	}
	app.timers[timer.id] = &handler{run: func(ctx *Context) error {
		due := Due[K]{ctx: ctx}
		var err error
		if due.Key, err = timer.key.Decode(ctx.key); err != nil {
			return ctx.undecodable("key", timer.key.Name(), err)
		}
		return handle(ctx, due)
	}}
}
