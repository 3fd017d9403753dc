package millstream

import (
	"context"
	"fmt"
	"log/slog"
)

// A Context belongs to one call of a handler. As a context.Context it ends when the batch no longer counts: pass it on to
// what the handler calls. Do not keep it, and do not use state or outputs from other goroutines than the handler's.
type Context struct {
	context.Context
	batch  *batchRun
	item   *batchItem
	index  int
	key    []byte // nil: null
	failed error  // fails the item, whatever the handler returns
}

// Input is the name in the manifest of the input that the record comes from; "" where it is none: in handlers of timers, of
// windows that close, of visits, and in hooks.
func (c *Context) Input() string {
	if c.item.kind != recordItem {
		return ""
	}
	return c.batch.schema.inputs[c.item.of].name
}

// Task is the number of the task, which is the partition of every input.
func (c *Context) Task() int32 { return c.batch.frame.task }

// Processor is its name in the manifest.
func (c *Context) Processor() string { return c.batch.schema.processor }

// Watermark is how far event time had come in this task when the batch was made, in milliseconds since 1970; false before
// the first record counts, or where the manifest has nothing that depends on it.
func (c *Context) Watermark() (int64, bool) {
	return c.batch.frame.watermark, c.batch.frame.hasWatermark
}

// Logger knows processor and task, and of a record input and offset; the name of a timer or visit; the store and start of a window.
func (c *Context) Logger() *slog.Logger {
	log := c.batch.log.With("processor", c.Processor(), "task", c.Task())
	switch c.item.kind {
	case recordItem:
		return log.With("input", c.Input(), "offset", c.item.offset)
	case timerItem:
		return log.With("timer", string(c.item.detail), "time", c.item.timestamp)
	case closingItem:
		return log.With("window", c.batch.schema.tables[c.item.of].name, "start", c.item.offset)
	case visitItem:
		return log.With("visit", c.batch.schema.visits[c.item.of].name)
	}
	return log
}

// what is the item at hand, for messages.
func (c *Context) what() string {
	switch c.item.kind {
	case timerItem:
		return fmt.Sprintf("%s, task %d", timerID{string(c.item.detail), c.item.wallClock}, c.Task())
	case closingItem:
		return fmt.Sprintf("a window of store %q, task %d", c.batch.schema.tables[c.item.of].name, c.Task())
	case visitItem:
		return fmt.Sprintf("a row of visit %q, task %d", c.batch.schema.visits[c.item.of].name, c.Task())
	}
	return fmt.Sprintf("a record of input %q (partition %d, offset %d)", c.Input(), c.Task(), c.item.offset)
}

// fail makes the item fail and gives the error back.
func (c *Context) fail(err error) error {
	if c.failed == nil {
		c.failed = err
	}
	return err
}
