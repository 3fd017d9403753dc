package millstream

import (
	"context"
	"log/slog"
)

// A Context belongs to one call of a handler. As a context.Context it ends when the batch no longer counts: pass it on to
// what the handler calls. Do not keep it, and do not use state or outputs from other goroutines than the handler's.
type Context struct {
	context.Context
	batch  *batchRun
	item   *recordItem
	index  int
	key    []byte // nil: null
	failed error  // fails the item, whatever the handler returns
}

// Input is the input's name in the manifest.
func (c *Context) Input() string { return c.batch.schema.inputs[c.item.input].name }

// Task is the number of the task, which is the partition of every input.
func (c *Context) Task() int32 { return c.batch.frame.task }

// Processor is its name in the manifest.
func (c *Context) Processor() string { return c.batch.schema.processor }

// Watermark is how far event time has come in this task, in milliseconds since 1970; false before the first record
// counts.
func (c *Context) Watermark() (int64, bool) {
	return c.batch.frame.watermark, c.batch.frame.hasWatermark
}

// Logger knows processor, task, input and offset.
func (c *Context) Logger() *slog.Logger {
	return c.batch.log.With("processor", c.Processor(), "task", c.Task(), "input", c.Input(), "offset", c.item.offset)
}

// fail makes the item fail and gives the error back.
func (c *Context) fail(err error) error {
	if c.failed == nil {
		c.failed = err
	}
	return err
}
