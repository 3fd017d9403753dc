package millstream

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// An Output is a handle on an output of the manifest, with the codecs of its keys and values. Declare it once, next to
// the handlers; it is safe for use by all of them. The output "loop" of a manifest with `loop: {}` sends records to any key
// of the processor itself, where the handler of the input "loop" gets them; they need a key.
type Output[K, V any] struct {
	name  string
	key   Codec[K]
	value Codec[V]
	bound atomic.Pointer[binding]
}

// NewOutput makes a handle.
func NewOutput[K, V any](name string, key Codec[K], value Codec[V]) *Output[K, V] {
	return &Output[K, V]{name: name, key: key, value: value}
}

// Name of the output in the manifest.
func (o *Output[K, V]) Name() string { return o.name }

// EmitOptions for what is not the usual. The zero value is the usual.
type EmitOptions struct {
	NullKey, NullValue bool // whatever key or value was passed
	Headers            []Header
	Time               time.Time // default: that of the record being handled, of the timer, the last millisecond of the window, the start of the visit
	Partition          *int32    // default: by the hash of the key
}

// Emit sends a record to the output. It is committed together with the record being handled, whose timestamp it gets.
// An error (it cannot be encoded, is beyond the limits, or the output is not declared) fails the record being handled,
// whatever the handler returns.
func (o *Output[K, V]) Emit(ctx *Context, key K, value V) error {
	return o.EmitWith(ctx, key, value, EmitOptions{})
}

// EmitWith is Emit with options.
func (o *Output[K, V]) EmitWith(ctx *Context, key K, value V, options EmitOptions) error {
	b := ctx.batch
	id, err := o.id(ctx)
	if err != nil {
		return err
	}
	var rawKey, rawValue []byte
	scratch := b.scratch[:0]
	if !options.NullKey {
		if scratch, err = o.key.Append(scratch, key); err != nil {
			return o.unencodable(ctx, "key", o.key.Name(), err)
		}
	}
	keyEnd := len(scratch)
	if !options.NullValue {
		if scratch, err = o.value.Append(scratch, value); err != nil {
			return o.unencodable(ctx, "value", o.value.Name(), err)
		}
	}
	b.scratch = scratch
	if !options.NullKey {
		rawKey = nonNil(scratch[:keyEnd])
	}
	if !options.NullValue {
		rawValue = nonNil(scratch[keyEnd:])
	}
	size := len(scratch)
	for _, header := range options.Headers {
		size += len(header.Name) + len(header.Value)
	}
	if most := b.schema.outputs[id].max; int64(size) > most {
		return ctx.fail(&OutputError{Message: fmt.Sprintf("output %q: key, value and headers have %d bytes, the limit is %d", o.name, size, most)})
	}
	return o.stage(ctx, id, rawKey, rawValue, options)
}

// stage encodes the output where it goes into RESULT.
func (o *Output[K, V]) stage(ctx *Context, id int, key, value []byte, options EmitOptions) error {
	b := ctx.batch
	timestamp, has := ctx.item.timestamp, ctx.item.kind != hookItem
	if !options.Time.IsZero() {
		timestamp, has = options.Time.UnixMilli(), true
	}
	if timestamp < b.schema.minTimestamp || timestamp > b.schema.maxTimestamp {
		if !options.Time.IsZero() {
			return ctx.fail(&OutputError{Message: fmt.Sprintf("output %q: timestamp %d is outside %d to %d", o.name, timestamp,
				b.schema.minTimestamp, b.schema.maxTimestamp)})
		}
		has = false // a record without a time of its own: the sidecar's clock
	}
	if id == b.schema.loop && (key == nil || options.Partition != nil) {
		return ctx.fail(&OutputError{Message: fmt.Sprintf("output %q: what is sent to the loop needs a key and chooses no partition: "+
			"it comes back where its key belongs", o.name)})
	}
	fields := uint32(4)
	switch {
	case options.Partition != nil:
		if *options.Partition < 0 {
			return ctx.fail(&OutputError{Message: fmt.Sprintf("output %q: %d is not a partition", o.name, *options.Partition)})
		}
		fields = 6
	case len(options.Headers) > 0:
		fields = 5
	}
	out := b.outputs
	before := len(out)
	out = appendInt(msgp.AppendArrayHeader(out, fields), int64(id))
	out = appendMaybeBytes(appendMaybeBytes(out, key), value)
	if has {
		out = appendInt(out, timestamp)
	} else {
		out = msgp.AppendNil(out)
	}
	if fields >= 5 {
		out = appendHeaders(out, options.Headers)
	}
	if fields == 6 {
		out = appendInt(out, int64(*options.Partition))
	}
	b.outputs = out
	b.outputCount++
	b.staged += len(out) - before + outputOverhead
	b.elements += 1 + len(options.Headers)
	return nil
}

func appendHeaders(out []byte, headers []Header) []byte {
	if len(headers) == 0 {
		return msgp.AppendNil(out)
	}
	out = msgp.AppendArrayHeader(out, uint32(len(headers)))
	for _, header := range headers {
		out = msgp.AppendArrayHeader(out, 2)
		out = appendHeaderName(out, header.Name)
		out = appendMaybeBytes(out, header.Value)
	}
	return out
}

func (o *Output[K, V]) id(ctx *Context) (int, error) {
	bound := o.bound.Load()
	if bound == nil || bound.schema != ctx.batch.schema {
		id, known := ctx.batch.schema.outputIDs[o.name]
		if !known {
			return 0, ctx.fail(&UndeclaredError{"output", o.name, ctx.batch.schema.outputNames()})
		}
		bound = &binding{ctx.batch.schema, id}
		o.bound.Store(bound)
	}
	return bound.id, nil
}

func (o *Output[K, V]) unencodable(ctx *Context, what, codec string, cause error) error {
	return ctx.fail(&OutputError{fmt.Sprintf("output %q: a %s cannot be encoded as %s: %v", o.name, what, codec, cause), cause})
}

func nonNil(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// Partition is for EmitOptions.
func Partition(number int) *int32 {
	if number < 0 || number > math.MaxInt32 {
		number = -1 // refused when it is used
	}
	partition := int32(number)
	return &partition
}
