package millstream

import "time"

// A Header of a record; a nil Value is null.
type Header struct {
	Name  string
	Value []byte
}

// A Record of an input as its handler sees it. It is valid while the handler runs; Key and Value may be kept unless they
// are []byte or hold some.
type Record[K, V any] struct {
	Key       K
	Value     V
	NullKey   bool // the record has no key; Key is the zero value
	NullValue bool // a tombstone; Value is the zero value

	ctx *Context
}

func decodeRecord[K, V any](ctx *Context, key Codec[K], value Codec[V]) (Record[K, V], error) {
	record := Record[K, V]{ctx: ctx, NullKey: ctx.key == nil, NullValue: ctx.item.value == nil}
	var err error
	if ctx.key != nil {
		if record.Key, err = key.Decode(ctx.key); err != nil {
			return record, ctx.undecodable("key", key.Name(), err)
		}
	}
	if ctx.item.value != nil {
		if record.Value, err = value.Decode(ctx.item.value); err != nil {
			return record, ctx.undecodable("value", value.Name(), err)
		}
	}
	return record, nil
}

func (c *Context) undecodable(what, codec string, cause error) error {
	return &DecodeError{what, c.what(), codec, cause}
}

// RawKey and RawValue are the bytes as they are in the topic, nil for null. Do not change them.
func (r Record[K, V]) RawKey() []byte   { return r.ctx.key }
func (r Record[K, V]) RawValue() []byte { return r.ctx.item.value }

// Headers are all headers in order; names may repeat.
func (r Record[K, V]) Headers() []Header { return readHeaders(r.ctx.item.detail) }

// Header is the value of the last header of that name.
func (r Record[K, V]) Header(name string) (value []byte, found bool) {
	for _, header := range r.Headers() {
		if header.Name == name {
			value, found = header.Value, true
		}
	}
	return value, found
}

// Timestamp in milliseconds since 1970, possibly negative; Time is the same as a time.Time.
func (r Record[K, V]) Timestamp() int64 { return r.ctx.item.timestamp }
func (r Record[K, V]) Time() time.Time  { return time.UnixMilli(r.ctx.item.timestamp) }

// Where the record comes from. Task is the partition, which is the same for every input.
func (r Record[K, V]) Input() string { return r.ctx.Input() }
func (r Record[K, V]) Topic() string { return r.ctx.batch.schema.inputs[r.ctx.item.of].topic }
func (r Record[K, V]) Task() int32   { return r.ctx.Task() }
func (r Record[K, V]) Offset() int64 { return r.ctx.item.offset }

// Attempt is 1 for the first try of this record, one more after each failure.
func (r Record[K, V]) Attempt() int { return int(r.ctx.item.attempt) }
