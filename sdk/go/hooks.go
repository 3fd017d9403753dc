package millstream

import "slices"

// hooks are what a program wants to know of transactions.
type hooks struct {
	begin, finalize func(ctx *Context) error
	committed       func(task int32)
}

// capabilities are those of HELLO.
func (h *hooks) capabilities() []string {
	names := []string{}
	if h.begin != nil {
		names = append(names, "begin")
	}
	if h.finalize != nil {
		names = append(names, "finalize")
	}
	if h.committed != nil {
		names = append(names, "committed")
	}
	return names
}

// only are the hooks that a sidecar calls, and the names of the others.
func (h hooks) only(capabilities []string) (called hooks, uncalled []string) {
	called = h
	for _, name := range h.capabilities() {
		if slices.Contains(capabilities, name) {
			continue
		}
		uncalled = append(uncalled, name)
		switch name {
		case "begin":
			called.begin = nil
		case "finalize":
			called.finalize = nil
		case "committed":
			called.committed = nil
		}
	}
	return called, uncalled
}

// OnBegin has a function called when a transaction begins for a task. What it writes and emits becomes part of it; there is
// no record, so state has no default key and outputs get the time at which they are written. An error aborts the
// transaction, which is tried again.
func (a *App) OnBegin(hook func(ctx *Context) error) { a.hooks.begin = hook }

// OnFinalize has a function called for a task before a transaction with its records is closed: the place to send what was
// gathered over many of them, see Gathered. Otherwise as OnBegin. The records of a transaction that is aborted come again.
func (a *App) OnFinalize(hook func(ctx *Context) error) { a.hooks.finalize = hook }

// OnCommitted has a function called, with the number of the task, after a transaction with effects of the task was
// committed: at most once for each, and never if the sidecar dies in between. For side effects that may be left out.
func (a *App) OnCommitted(hook func(task int32)) { a.hooks.committed = hook }

// A Gathered is what a program gathers over the records of a task, for OnFinalize to send. Declare it once, next to the
// handlers; it is safe for use by all of them.
//
// Each task has its own. It is forgotten when the sidecar takes back what it is made of: a transaction was aborted, or the
// task went elsewhere.
type Gathered[T any] struct {
	initial func() T
}

// NewGathered makes a handle; initial is what a task begins with.
func NewGathered[T any](initial func() T) *Gathered[T] { return &Gathered[T]{initial} }

// taskMemory has what a task gathered, by the handle. It is of one task at a time between OPEN and CLOSE, whose batches and
// hooks run one after the other.
type taskMemory struct {
	gathered map[any]any
}

// Change changes what the task has gathered once the record counts: a record whose handler fails has changed nothing. The
// function is called after the record's batch, before the next one of the task. Of the record keep clones (strings.Clone):
// its strings hold on to the memory of the whole batch.
func (g *Gathered[T]) Change(ctx *Context, change func(gathered *T)) {
	memory := ctx.batch.memory
	ctx.batch.deferred = append(ctx.batch.deferred, func() { change(g.of(memory)) })
}

// Take gives what the task has gathered so far, which begins anew. Only in OnBegin and OnFinalize: a handler of records
// fails, as what it takes would be lost with a record that fails.
func (g *Gathered[T]) Take(ctx *Context) T {
	if ctx.item.kind != hookItem {
		_ = ctx.fail(Reject(errTakeOutside))
		return g.initial()
	}
	taken := *g.of(ctx.batch.memory)
	delete(ctx.batch.memory.gathered, g)
	return taken
}

func (g *Gathered[T]) of(memory *taskMemory) *T {
	if found, known := memory.gathered[g].(*T); known {
		return found
	}
	fresh := new(T)
	*fresh = g.initial()
	if memory.gathered == nil {
		memory.gathered = map[any]any{}
	}
	memory.gathered[g] = fresh
	return fresh
}
