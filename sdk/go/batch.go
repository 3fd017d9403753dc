package millstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"

	"github.com/tinylib/msgp/msgp"
)

const (
	// Room for a RESULT's own fields and a failure message.
	resultReserve = 20 << 10
	// What an output and a write take in a frame beside their bytes, at most.
	outputOverhead = 16
	writeOverhead  = 16
	// A GET asks for so many keys at most.
	maxKeysPerGet = 512
	// Memory of keys and values is made in pieces of this size.
	arenaChunk = 32 << 10
)

// A link is how a batch reaches the sidecar: a session, or a TestKit. Calls give ErrVoid once the batch is void.
type link interface {
	get(b *batchRun, store int, keys [][]byte) ([][]byte, error)
	scan(b *batchRun, request *scanRequest) (rows []rawRow, cursor []byte, err error)
	extend(b *batchRun, done int) error
}

type rawRow struct{ key, value []byte }

type slotState uint8

const (
	slotUnknown slotState = iota
	slotAbsent
	slotPresent
)

// A slot is what is known of one key in one store.
type slot struct {
	state slotState
	op    int32 // index of the last write in batchRun.ops, -1 for none
	value []byte
}

type stateOp struct {
	store, item int
	key, value  []byte // a nil value deletes
	slot        *slot
	before      slot
}

type storeRun struct {
	slots  []slot           // per key of the batch; of a plain table
	others map[string]*slot // other keys; of windows and sessions all rows
	spare  []slot           // for others
}

// A batchRun is one batch in flight: what its items know and stage, and its RESULT. It belongs to the goroutine that
// runs it; `void` and `done` are looked at by others.
//
// The prefix rule: items run in order; the first that fails ends the batch, what it staged is undone, the items before
// it count. A batch whose RESULT would not fit a frame ends early without failure: the sidecar sends the rest again.
type batchRun struct {
	schema *schema
	link   link
	log    *slog.Logger
	frame  batchFrame
	void   atomic.Bool
	done   atomic.Int64 // items finished, for EXTEND

	ctx         Context
	hook        func(ctx *Context) error // BEGIN or FINALIZE: what is called in place of items
	memory      *taskMemory              // of the task
	stores      []storeRun
	keyIndex    map[string]int32 // made when a handler first names another key
	ops         []stateOp
	toldOps     int
	outputs     []byte // encoded, one after the other
	outputCount int
	timers      []byte // likewise
	timerCount  int
	visits      []byte // likewise
	visitCount  int
	touched     map[keyedTimer]struct{} // timers set or cancelled, where the batch has some that this could overtake
	deferred    []func()                // to be done once the batch counts
	staged      int                     // bytes of ops, outputs, timers and visits
	elements    int                     // list elements of them
	arena       []byte
	scratch     []byte
	shown       []Window // by WindowStore.Windows
	parts       [][]byte // of sessionValues
}

// A mark is how far a batch had come before an item.
type mark struct {
	ops, outputs, outputCount, timers, timerCount, visits, visitCount, deferred, staged, elements int
}

func newBatchRun(ctx context.Context, s *schema, l link, log *slog.Logger, frame batchFrame, memory *taskMemory) *batchRun {
	b := &batchRun{schema: s, link: l, log: log, frame: frame, memory: memory, stores: make([]storeRun, len(s.tables))}
	b.ctx = Context{Context: ctx, batch: b}
	return b
}

func (b *batchRun) budget() int { return min(b.schema.frameCap, defaultFrameCap) - resultReserve }

// run handles the items and gives the RESULT frame. The only error is that of a batch that no longer counts.
func (b *batchRun) run() ([]byte, error) {
	if b.hook != nil {
		return b.runHook()
	}
	trace := b.frame.flags&flagTrace != 0
	done := 0
	var failed *failure
	for ; done < len(b.frame.items) && failed == nil; done++ {
		if b.void.Load() {
			return nil, ErrVoid
		}
		if trace {
			if err := b.link.extend(b, done); err != nil {
				return nil, err
			}
		}
		before := b.mark()
		err := b.handle(done)
		if b.void.Load() {
			return nil, ErrVoid
		}
		if err == nil && !b.fits(mark{}) {
			if b.fits(before) {
				b.undo(before) // the next batch begins with this item
				break
			}
			err = b.tooLarge("record", before)
		}
		if err != nil {
			b.undo(before)
			failed = failureOf(err)
			break
		}
		b.done.Store(int64(done + 1))
		if b.visitCount > 0 { // it counts from here on: rows of this batch may not be wanted any more
			done++
			break
		}
	}
	return b.result(done, failed), nil
}

// runHook calls a hook, whose frame has one item for it, and gives the RESULT frame: all of it or, with a failure, nothing.
func (b *batchRun) runHook() ([]byte, error) {
	if b.void.Load() {
		return nil, ErrVoid
	}
	err := b.handle(0)
	if b.void.Load() {
		return nil, ErrVoid
	}
	if err == nil && !b.fits(mark{}) {
		err = b.tooLarge("hook", mark{})
	}
	var failed *failure
	if err != nil {
		b.undo(mark{})
		failed = failureOf(err)
	}
	return b.result(0, failed), nil
}

func (b *batchRun) mark() mark {
	return mark{len(b.ops), len(b.outputs), b.outputCount, len(b.timers), b.timerCount, len(b.visits), b.visitCount, len(b.deferred),
		b.staged, b.elements}
}

// fits tells whether what was staged since then goes into a frame.
func (b *batchRun) fits(since mark) bool {
	return b.staged-since.staged <= b.budget() && b.elements-since.elements <= maxElements/2
}

func (b *batchRun) tooLarge(what string, since mark) error {
	return &OutputError{Message: fmt.Sprintf("the state changes and outputs of this one %s have %d bytes together, which does not fit "+
		"a frame of %d bytes; emit and write less per %s", what, b.staged-since.staged, b.schema.frameCap, what)}
}

// handle runs the handler of one item.
func (b *batchRun) handle(index int) (err error) {
	ctx := &b.ctx
	ctx.item, ctx.index, ctx.key, ctx.failed = &b.frame.items[index], index, nil, nil
	if at := ctx.item.keyIndex; at >= 0 {
		ctx.key = b.frame.keys[at]
	}
	defer func() {
		if ctx.failed != nil {
			err = ctx.failed
		}
		if panicked := recover(); panicked != nil {
			err = &panicError{panicked, stackOf()}
		}
	}()
	before := len(b.ops)
	if err := b.call(ctx); err != nil || ctx.failed != nil {
		return err
	}
	return b.finishSessions(before)
}

func (b *batchRun) call(ctx *Context) error {
	switch ctx.item.kind {
	case recordItem:
		return b.schema.inputs[ctx.item.of].handler.run(ctx)
	case hookItem:
		return b.hook(ctx)
	}
	if ctx.item.kind == timerItem && b.overtaken(ctx) {
		return nil
	}
	due, err := b.schema.due(ctx.item)
	if err != nil || due == nil {
		return err
	}
	return due(ctx)
}

// runDeferred does what was to be done once the batch counts. The error is that of a panic.
func (b *batchRun) runDeferred() (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("a change of what was gathered failed: %w", &panicError{panicked, stackOf()})
		}
	}()
	for _, act := range b.deferred {
		act()
	}
	return nil
}

// undo takes back what came after the mark, the last write first.
func (b *batchRun) undo(to mark) {
	for at := len(b.ops) - 1; at >= to.ops; at-- {
		*b.ops[at].slot = b.ops[at].before
	}
	b.ops = b.ops[:to.ops]
	b.toldOps = min(b.toldOps, to.ops)
	b.outputs, b.outputCount = b.outputs[:to.outputs], to.outputCount
	b.timers, b.timerCount = b.timers[:to.timers], to.timerCount
	b.visits, b.visitCount = b.visits[:to.visits], to.visitCount
	b.deferred = b.deferred[:to.deferred]
	b.staged, b.elements = to.staged, to.elements
}

// ownSlot is the slot of the record's own key. Precondition: it has one.
func (b *batchRun) ownSlot(store int) *slot {
	return &b.slots(store)[b.ctx.item.keyIndex]
}

// slots of a plain table, filled with what came along when they are first wanted.
func (b *batchRun) slots(store int) []slot {
	run := &b.stores[store]
	if run.slots == nil {
		run.slots = make([]slot, len(b.frame.keys))
		for i := range run.slots {
			run.slots[i].op = -1
		}
		for i, known := range b.frame.state[store] {
			switch known.kind {
			case stateAbsent:
				run.slots[i].state = slotAbsent
			case stateValue:
				run.slots[i].state, run.slots[i].value = slotPresent, known.value
			}
		}
	}
	return run.slots
}

// slot of any key; one that is not the batch's is made. `key` is kept.
func (b *batchRun) slot(store int, key []byte) *slot {
	if b.schema.shape.tables[store] != plainTable {
		return b.row(store, key)
	}
	if b.keyIndex == nil {
		b.keyIndex = make(map[string]int32, len(b.frame.keys))
		for i, known := range b.frame.keys {
			b.keyIndex[string(known)] = int32(i)
		}
	}
	if index, known := b.keyIndex[string(key)]; known {
		return &b.slots(store)[index]
	}
	return b.stores[store].other(key)
}

// other is the slot of a key that is not the batch's, or of a row. `key` is kept.
func (r *storeRun) other(key []byte) *slot {
	if found := r.others[string(key)]; found != nil {
		return found
	}
	if r.others == nil {
		r.others = map[string]*slot{}
	}
	if len(r.spare) == 0 {
		r.spare = make([]slot, min(max(2*len(r.others), 8), 1024))
	}
	found := &r.spare[0]
	r.spare = r.spare[1:]
	found.op = -1
	// Nobody writes to the bytes of a key: the frame's, or the arena's behind its end.
	r.others[unsafe.String(unsafe.SliceData(key), len(key))] = found
	return found
}

// write stages a write; a nil value deletes.
func (b *batchRun) write(ctx *Context, store int, to *slot, key, value []byte) {
	b.ops = append(b.ops, stateOp{store, ctx.index, key, value, to, *to})
	*to = slot{slotPresent, int32(len(b.ops) - 1), value}
	if value == nil {
		to.state = slotAbsent
	}
	b.staged += len(key) + len(value) + writeOverhead
	b.elements++
}

// fetch asks for keys that are not known and fills their slots.
func (b *batchRun) fetch(store int, keys [][]byte) error {
	for len(keys) > 0 {
		count := min(len(keys), maxKeysPerGet)
		for {
			values, err := b.link.get(b, store, keys[:count])
			if err == nil {
				for i, value := range values {
					known := b.slot(store, keys[i])
					known.state, known.value = slotPresent, value
					if value == nil {
						known.state = slotAbsent
					}
				}
				break
			}
			// The values may not fit a frame together: fewer at once. For one alone, the error it is.
			if count == 1 || errors.Is(err, ErrVoid) {
				return err
			}
			count /= 2
		}
		keys = keys[count:]
	}
	return nil
}

func (b *batchRun) scan(request *scanRequest) ([]rawRow, []byte, error) {
	request.newOps = b.ops[b.toldOps:]
	b.toldOps = len(b.ops)
	return b.link.scan(b, request)
}

// result encodes RESULT: the last write of each key, and the outputs.
func (b *batchRun) result(done int, failed *failure) []byte {
	frame := make([]byte, 0, b.staged+2*writeOverhead*len(b.ops)+256)
	fields := uint32(5)
	switch {
	case b.visitCount > 0:
		fields = 7
	case b.timerCount > 0:
		fields = 6
	}
	frame = beginFrame(frame, kindResult, fields)
	frame = msgp.AppendUint64(frame, b.frame.seq)
	frame = appendInt(frame, int64(done))
	frame = appendFailure(frame, failed)

	counts := make([]int, len(b.stores))
	stores := 0
	for at := range b.ops {
		if op := &b.ops[at]; op.slot.op == int32(at) {
			if counts[op.store]++; counts[op.store] == 1 {
				stores++
			}
		}
	}
	frame = msgp.AppendMapHeader(frame, uint32(stores))
	for store, count := range counts {
		if count == 0 {
			continue
		}
		frame = msgp.AppendArrayHeader(appendInt(frame, int64(store)), uint32(count))
		for at := range b.ops {
			if op := &b.ops[at]; op.store == store && op.slot.op == int32(at) {
				frame = msgp.AppendBytes(msgp.AppendArrayHeader(frame, 2), op.key)
				frame = appendMaybeBytes(frame, op.value)
			}
		}
	}
	frame = msgp.AppendArrayHeader(frame, uint32(b.outputCount))
	frame = append(frame, b.outputs...)
	if fields > 5 {
		frame = append(msgp.AppendArrayHeader(frame, uint32(b.timerCount)), b.timers...)
	}
	if b.visitCount > 0 {
		frame = append(msgp.AppendArrayHeader(frame, uint32(b.visitCount)), b.visits...)
	}
	return endFrame(frame)
}

// appendTo encodes into the arena; the result is never nil and stays as it is.
func appendTo[T any](arena *[]byte, codec Codec[T], value T) ([]byte, error) {
	if cap(*arena)-len(*arena) < 256 {
		*arena = make([]byte, 0, arenaChunk)
	}
	start := len(*arena)
	extended, err := codec.Append(*arena, value)
	if err != nil {
		return nil, err
	}
	*arena = extended
	return extended[start:len(extended):len(extended)], nil
}

type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// stackOf is where a panic happened: the frames of the program, innermost first, without Go's own and the SDK's.
func stackOf() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var text strings.Builder
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "batchRun).call") || strings.Contains(frame.Function, "batchRun).runDeferred") {
			break
		}
		if !strings.HasPrefix(frame.Function, "runtime.") {
			fmt.Fprintf(&text, "  at %s:%d in %s\n", frame.File, frame.Line, frame.Function)
		}
		if !more {
			break
		}
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func failureOf(err error) *failure {
	f := &failure{class: "Handler", name: errorName(err), message: cutText(err.Error(), maxTextBytes/2), retriable: true}
	var decode *DecodeError
	var output *OutputError
	var undeclared *UndeclaredError
	var reject *rejectError
	switch {
	case errors.As(err, &decode):
		f.class, f.retriable = "Decode", false
	case errors.As(err, &output):
		f.class, f.retriable = "Output", false
	case errors.As(err, &undeclared), errors.As(err, &reject):
		f.retriable = false
	}
	return f
}

// errorName is the type of the error, behind wrappers that have no name of their own.
func errorName(err error) string {
	for {
		name := strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
		inner := errors.Unwrap(err)
		if inner == nil || (name != "fmt.wrapError" && name != "millstream.rejectError") {
			return name
		}
		err = inner
	}
}

// cutText is valid UTF-8 of at most `most` bytes.
func cutText(text string, most int) string {
	if len(text) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + fmt.Sprintf("\n... (%d bytes in all)", len(text))
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// appendHeaderName writes str, or bin where the name is not UTF-8.
func appendHeaderName(out []byte, name string) []byte {
	if utf8.ValidString(name) {
		return msgp.AppendString(out, name)
	}
	return msgp.AppendBytes(out, []byte(name))
}
