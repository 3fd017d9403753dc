package millstream

import "iter"

// A Join is a handle on a join of the manifest: a topic that others write to as a read-only table, partitioned like the
// inputs; each task sees its own partition. Declare it once, next to the handlers; it is safe for use by all of them.
//
// It shows the table as it is now. The value of the record's own key came with the batch; others are asked for. Errors are
// those of Store.
type Join[K, V any] struct {
	table table[K, V]
}

// NewJoin makes a handle.
func NewJoin[K, V any](name string, key Codec[K], value Codec[V]) *Join[K, V] {
	return &Join[K, V]{table[K, V]{word: wordJoin, name: name, key: key, value: value}}
}

// Name of the join in the manifest.
func (j *Join[K, V]) Name() string { return j.table.name }

// Get reads the value of the record's own key; false if there is none.
func (j *Join[K, V]) Get(ctx *Context) (V, bool, error) { return j.table.get(ctx) }

// GetKey reads the value of any key of the task.
func (j *Join[K, V]) GetKey(ctx *Context, key K) (V, bool, error) { return j.table.getKey(ctx, key) }

// GetMany reads the values of several keys, in their order, in as few round trips as possible.
func (j *Join[K, V]) GetMany(ctx *Context, keys ...K) ([]Found[V], error) {
	return j.table.getMany(ctx, keys)
}

// Scan gives the rows of a range of keys of the task, as Store.Scan.
func (j *Join[K, V]) Scan(ctx *Context, over Range[K]) iter.Seq2[Row[K, V], error] {
	return j.table.scan(ctx, over)
}

// A Lookup is a handle on a lookup of the manifest: a whole topic as a read-only table, the same for every task. Declare it
// once, next to the handlers; it is safe for use by all of them.
//
// Values are asked for, once per key and batch. Errors are those of Store.
type Lookup[K, V any] struct {
	table table[K, V]
}

// NewLookup makes a handle.
func NewLookup[K, V any](name string, key Codec[K], value Codec[V]) *Lookup[K, V] {
	return &Lookup[K, V]{table[K, V]{word: wordLookup, name: name, key: key, value: value}}
}

// Name of the lookup in the manifest.
func (l *Lookup[K, V]) Name() string { return l.table.name }

// Get reads the value of a key; false if there is none.
func (l *Lookup[K, V]) Get(ctx *Context, key K) (V, bool, error) { return l.table.getKey(ctx, key) }

// GetMany reads the values of several keys, in their order, in as few round trips as possible.
func (l *Lookup[K, V]) GetMany(ctx *Context, keys ...K) ([]Found[V], error) {
	return l.table.getMany(ctx, keys)
}

// Scan gives the rows of a range of keys, as Store.Scan.
func (l *Lookup[K, V]) Scan(ctx *Context, over Range[K]) iter.Seq2[Row[K, V], error] {
	return l.table.scan(ctx, over)
}
