package millstream

import (
	"fmt"
	"iter"
	"sync/atomic"
)

// A Store is a handle on a state store of the manifest, with the codecs of its keys and values. Declare it once, next to
// the handlers; it is safe for use by all of them. A store that the manifest does not declare fails the record that uses
// it, with a list of those it does.
//
// Reads see what the batch has written before. Keys belong to the task of the record: the same key of another partition
// is another one.
type Store[K, V any] struct {
	name  string
	key   Codec[K]
	value Codec[V]
	bound atomic.Pointer[binding]
}

// binding remembers the id of a name in one schema.
type binding struct {
	schema *schema
	id     int
}

// NewStore makes a handle.
func NewStore[K, V any](name string, key Codec[K], value Codec[V]) *Store[K, V] {
	return &Store[K, V]{name: name, key: key, value: value}
}

// Name of the store in the manifest.
func (s *Store[K, V]) Name() string { return s.name }

// Get reads the value of the record's own key; false if there is none. Changing what it returned changes nothing: use
// Put.
func (s *Store[K, V]) Get(ctx *Context) (V, bool, error) {
	id, err := s.id(ctx, true)
	if err != nil {
		var none V
		return none, false, err
	}
	return s.read(ctx, id, ctx.batch.ownSlot(id), ctx.key)
}

// GetKey reads the value of any key.
func (s *Store[K, V]) GetKey(ctx *Context, key K) (V, bool, error) {
	var none V
	id, err := s.id(ctx, false)
	if err != nil {
		return none, false, err
	}
	raw, err := s.encodeKey(ctx, key)
	if err != nil {
		return none, false, err
	}
	return s.read(ctx, id, ctx.batch.slot(id, raw), raw)
}

// A Found is a value of GetMany, if there is one.
type Found[V any] struct {
	Value V
	Found bool
}

// GetMany reads the values of several keys, in their order, in as few round trips as possible.
func (s *Store[K, V]) GetMany(ctx *Context, keys ...K) ([]Found[V], error) {
	id, err := s.id(ctx, false)
	if err != nil {
		return nil, err
	}
	raws := make([][]byte, len(keys))
	slots := make([]*slot, len(keys))
	var missing [][]byte
	asked := map[*slot]bool{}
	for i, key := range keys {
		if raws[i], err = s.encodeKey(ctx, key); err != nil {
			return nil, err
		}
		slots[i] = ctx.batch.slot(id, raws[i])
		if slots[i].state == slotUnknown && !asked[slots[i]] {
			asked[slots[i]] = true
			missing = append(missing, raws[i])
		}
	}
	if err := ctx.batch.fetch(id, missing); err != nil {
		return nil, err
	}
	found := make([]Found[V], len(keys))
	for i := range keys {
		if found[i].Value, found[i].Found, err = s.read(ctx, id, slots[i], raws[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Put writes the value of the record's own key.
func (s *Store[K, V]) Put(ctx *Context, value V) error {
	id, err := s.id(ctx, true)
	if err != nil {
		return err
	}
	return s.write(ctx, id, ctx.batch.ownSlot(id), ctx.key, value)
}

// PutKey writes the value of any key.
func (s *Store[K, V]) PutKey(ctx *Context, key K, value V) error {
	id, err := s.id(ctx, false)
	if err != nil {
		return err
	}
	raw, err := s.encodeKey(ctx, key)
	if err != nil {
		return err
	}
	return s.write(ctx, id, ctx.batch.slot(id, raw), raw, value)
}

// Delete forgets the record's own key. Deleting what is not there is fine.
func (s *Store[K, V]) Delete(ctx *Context) error {
	id, err := s.id(ctx, true)
	if err != nil {
		return err
	}
	ctx.batch.write(ctx, id, ctx.batch.ownSlot(id), ctx.key, nil)
	return nil
}

// DeleteKey forgets any key.
func (s *Store[K, V]) DeleteKey(ctx *Context, key K) error {
	id, err := s.id(ctx, false)
	if err != nil {
		return err
	}
	raw, err := s.encodeKey(ctx, key)
	if err != nil {
		return err
	}
	ctx.batch.write(ctx, id, ctx.batch.slot(id, raw), raw, nil)
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
	return func(yield func(Row[K, V], error) bool) {
		request, err := s.scanRequest(ctx, over)
		if err != nil {
			yield(Row[K, V]{}, err)
			return
		}
		for given := 0; ; {
			if over.Limit > 0 {
				request.limit = over.Limit - given
			}
			rows, cursor, err := ctx.batch.scan(request)
			if err != nil {
				yield(Row[K, V]{}, err)
				return
			}
			for _, raw := range rows {
				row, err := s.row(raw)
				if !yield(row, err) || err != nil {
					return
				}
				if given++; over.Limit > 0 && given >= over.Limit {
					return
				}
			}
			if cursor == nil {
				return
			}
			request.cursor = cursor
		}
	}
}

func (s *Store[K, V]) scanRequest(ctx *Context, over Range[K]) (*scanRequest, error) {
	id, err := s.id(ctx, false)
	if err != nil {
		return nil, err
	}
	request := &scanRequest{store: id, reverse: over.Reverse}
	bounds := []struct {
		key *K
		to  *[]byte
	}{{over.From, &request.from}, {over.To, &request.to}, {over.Prefix, &request.from}}
	if over.Prefix != nil && (over.From != nil || over.To != nil) {
		return nil, fmt.Errorf("store %q: a scan takes either Prefix or From and To", s.name)
	}
	for _, bound := range bounds {
		if bound.key == nil {
			continue
		}
		if *bound.to, err = s.encodeKey(ctx, *bound.key); err != nil {
			return nil, err
		}
	}
	if over.Prefix != nil {
		request.to = afterPrefix(request.from)
	}
	return request, nil
}

// afterPrefix is the first byte string after all that begin with prefix; nil if there is none.
func afterPrefix(prefix []byte) []byte {
	for end := len(prefix); end > 0; end-- {
		if prefix[end-1] != 0xff {
			after := append([]byte(nil), prefix[:end]...)
			after[end-1]++
			return after
		}
	}
	return nil
}

func (s *Store[K, V]) row(raw rawRow) (row Row[K, V], err error) {
	if row.Key, err = s.key.Decode(raw.key); err != nil {
		return row, fmt.Errorf("store %q: a key is not %s: %w", s.name, s.key.Name(), err)
	}
	row.Value, err = s.decode(raw.key, raw.value)
	return row, err
}

func (s *Store[K, V]) id(ctx *Context, needsKey bool) (int, error) {
	if needsKey && ctx.key == nil {
		return 0, fmt.Errorf("store %q: %w", s.name, ErrNoKey)
	}
	bound := s.bound.Load()
	if bound == nil || bound.schema != ctx.batch.schema {
		id, known := ctx.batch.schema.storeIDs[s.name]
		if !known {
			return 0, ctx.fail(&UndeclaredError{"store", s.name, ctx.batch.schema.storeNames()})
		}
		bound = &binding{ctx.batch.schema, id}
		s.bound.Store(bound)
	}
	return bound.id, nil
}

func (s *Store[K, V]) encodeKey(ctx *Context, key K) ([]byte, error) {
	raw, err := appendTo(&ctx.batch.arena, s.key, key)
	if err != nil {
		return nil, ctx.fail(&OutputError{fmt.Sprintf("store %q: a key cannot be encoded as %s: %v", s.name, s.key.Name(), err), err})
	}
	return raw, nil
}

func (s *Store[K, V]) read(ctx *Context, id int, from *slot, raw []byte) (value V, found bool, err error) {
	if from.state == slotUnknown {
		if err := ctx.batch.fetch(id, [][]byte{raw}); err != nil {
			return value, false, err
		}
	}
	if from.state == slotAbsent {
		return value, false, nil
	}
	value, err = s.decode(raw, from.value)
	return value, err == nil, err
}

func (s *Store[K, V]) decode(key, data []byte) (V, error) {
	value, err := s.value.Decode(data)
	if err != nil {
		return value, fmt.Errorf("store %q: the value of key %.80q is not %s: %w; was the codec of the store changed?", s.name,
			key, s.value.Name(), err)
	}
	return value, nil
}

func (s *Store[K, V]) write(ctx *Context, id int, to *slot, key []byte, value V) error {
	data, err := appendTo(&ctx.batch.arena, s.value, value)
	if err != nil {
		return ctx.fail(&OutputError{fmt.Sprintf("store %q: a value cannot be encoded as %s: %v", s.name, s.value.Name(), err), err})
	}
	if most := ctx.batch.schema.stores[id].max; int64(len(data)) > most {
		return ctx.fail(&OutputError{Message: fmt.Sprintf("store %q: the value of key %.80q has %d bytes, the limit is %d", s.name,
			key, len(data), most)})
	}
	ctx.batch.write(ctx, id, to, key, data)
	return nil
}
