package millstream

import "iter"

// A Store is a handle on a state store of the manifest, with the codecs of its keys and values. Declare it once, next to
// the handlers; it is safe for use by all of them. A store that the manifest does not declare fails the record that uses
// it, with a list of those it does.
//
// Reads see what the batch has written before. Keys belong to the task of the record: the same key of another partition
// is another one.
type Store[K, V any] struct {
	table table[K, V]
}

// NewStore makes a handle.
func NewStore[K, V any](name string, key Codec[K], value Codec[V]) *Store[K, V] {
	return &Store[K, V]{table[K, V]{word: wordStore, name: name, key: key, value: value}}
}

// Name of the store in the manifest.
func (s *Store[K, V]) Name() string { return s.table.name }

// Get reads the value of the record's own key; false if there is none. Changing what it returned changes nothing: use
// Put.
func (s *Store[K, V]) Get(ctx *Context) (V, bool, error) { return s.table.get(ctx) }

// GetKey reads the value of any key.
func (s *Store[K, V]) GetKey(ctx *Context, key K) (V, bool, error) { return s.table.getKey(ctx, key) }

// A Found is a value of GetMany, if there is one.
type Found[V any] struct {
	Value V
	Found bool
}

// GetMany reads the values of several keys, in their order, in as few round trips as possible.
func (s *Store[K, V]) GetMany(ctx *Context, keys ...K) ([]Found[V], error) {
	return s.table.getMany(ctx, keys)
}

// Put writes the value of the record's own key.
func (s *Store[K, V]) Put(ctx *Context, value V) error {
	id, to, err := s.table.own(ctx)
	if err != nil {
		return err
	}
	return s.table.write(ctx, id, to, ctx.key, value)
}

// PutKey writes the value of any key.
func (s *Store[K, V]) PutKey(ctx *Context, key K, value V) error {
	id, to, raw, err := s.table.other(ctx, key)
	if err != nil {
		return err
	}
	return s.table.write(ctx, id, to, raw, value)
}

// Delete forgets the record's own key. Deleting what is not there is fine.
func (s *Store[K, V]) Delete(ctx *Context) error {
	id, to, err := s.table.own(ctx)
	if err != nil {
		return err
	}
	ctx.batch.write(ctx, id, to, ctx.key, nil)
	return nil
}

// DeleteKey forgets any key.
func (s *Store[K, V]) DeleteKey(ctx *Context, key K) error {
	id, to, raw, err := s.table.other(ctx, key)
	if err != nil {
		return err
	}
	ctx.batch.write(ctx, id, to, raw, nil)
	return nil
}

// A Row of a scan.
type Row[K, V any] struct {
	Key   K
	Value V
}

// A Range of keys, in the order of their bytes.
type Range[K any] struct {
	From, To *K  // keys from From up to before To; nil is open
	Prefix   *K  // instead of From and To: keys whose bytes begin so
	Limit    int // 0: all
	Reverse  bool
}

// Scan gives the rows of a range, paged as they are read:
//
//	for row, err := range store.Scan(ctx, millstream.Range[string]{Prefix: &prefix}) {
//
// The writes of the batch up to now are seen. An error is the last thing it gives.
func (s *Store[K, V]) Scan(ctx *Context, over Range[K]) iter.Seq2[Row[K, V], error] {
	return s.table.scan(ctx, over)
}
