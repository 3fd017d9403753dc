package millstream

import (
	"fmt"
	"iter"
	"sync/atomic"
)

// A table is what the handles on stores, joins and lookups have in common: a name of the manifest, with the codecs of its
// keys and values, and how it is read and written.
type table[K, V any] struct {
	word  tableWord
	kind  tableKind
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

// id is that of the readable thing; an *UndeclaredError fails the item.
func (t *table[K, V]) id(ctx *Context) (int, error) {
	bound := t.bound.Load()
	if bound == nil || bound.schema != ctx.batch.schema {
		id, declared := ctx.batch.schema.find(t.word, t.kind, t.name)
		if id < 0 {
			return 0, ctx.fail(&UndeclaredError{string(t.word), t.name, declared})
		}
		bound = &binding{ctx.batch.schema, id}
		t.bound.Store(bound)
	}
	return bound.id, nil
}

// own is the slot of the record's own key.
func (t *table[K, V]) own(ctx *Context) (int, *slot, error) {
	if ctx.key == nil {
		return 0, nil, fmt.Errorf("%s %q: %w", t.word, t.name, ErrNoKey)
	}
	id, err := t.id(ctx)
	if err != nil {
		return 0, nil, err
	}
	return id, ctx.batch.ownSlot(id), nil
}

// other is the slot of any key, and its bytes.
func (t *table[K, V]) other(ctx *Context, key K) (int, *slot, []byte, error) {
	id, err := t.id(ctx)
	if err != nil {
		return 0, nil, nil, err
	}
	raw, err := t.encodeKey(ctx, key)
	if err != nil {
		return 0, nil, nil, err
	}
	return id, ctx.batch.slot(id, raw), raw, nil
}

func (t *table[K, V]) get(ctx *Context) (V, bool, error) {
	id, from, err := t.own(ctx)
	if err != nil {
		var none V
		return none, false, err
	}
	return t.read(ctx, id, from, ctx.key)
}

func (t *table[K, V]) getKey(ctx *Context, key K) (V, bool, error) {
	id, from, raw, err := t.other(ctx, key)
	if err != nil {
		var none V
		return none, false, err
	}
	return t.read(ctx, id, from, raw)
}

func (t *table[K, V]) getMany(ctx *Context, keys []K) ([]Found[V], error) {
	id, err := t.id(ctx)
	if err != nil {
		return nil, err
	}
	raws := make([][]byte, len(keys))
	slots := make([]*slot, len(keys))
	var missing [][]byte
	asked := map[*slot]bool{}
	for i, key := range keys {
		if raws[i], err = t.encodeKey(ctx, key); err != nil {
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
		if found[i].Value, found[i].Found, err = t.read(ctx, id, slots[i], raws[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (t *table[K, V]) scan(ctx *Context, over Range[K]) iter.Seq2[Row[K, V], error] {
	return func(yield func(Row[K, V], error) bool) {
		request, err := t.scanRequest(ctx, over)
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
				row, err := t.row(raw)
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

func (t *table[K, V]) scanRequest(ctx *Context, over Range[K]) (*scanRequest, error) {
	id, err := t.id(ctx)
	if err != nil {
		return nil, err
	}
	request := &scanRequest{store: id, reverse: over.Reverse}
	bounds := []struct {
		key *K
		to  *[]byte
	}{{over.From, &request.from}, {over.To, &request.to}, {over.Prefix, &request.from}}
	if over.Prefix != nil && (over.From != nil || over.To != nil) {
		return nil, fmt.Errorf("%s %q: a scan takes either Prefix or From and To", t.word, t.name)
	}
	for _, bound := range bounds {
		if bound.key == nil {
			continue
		}
		if *bound.to, err = t.encodeKey(ctx, *bound.key); err != nil {
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

func (t *table[K, V]) row(raw rawRow) (row Row[K, V], err error) {
	if row.Key, err = t.key.Decode(raw.key); err != nil {
		return row, fmt.Errorf("%s %q: a key is not %s: %w", t.word, t.name, t.key.Name(), err)
	}
	row.Value, err = t.decode(raw.key, raw.value)
	return row, err
}

func (t *table[K, V]) encodeKey(ctx *Context, key K) ([]byte, error) {
	raw, err := appendTo(&ctx.batch.arena, t.key, key)
	if err != nil {
		return nil, ctx.fail(&OutputError{fmt.Sprintf("%s %q: a key cannot be encoded as %s: %v", t.word, t.name, t.key.Name(), err), err})
	}
	return raw, nil
}

// read decodes what a slot has, which is asked for if it is not known.
func (t *table[K, V]) read(ctx *Context, id int, from *slot, raw []byte) (value V, found bool, err error) {
	if from.state == slotUnknown {
		if err := ctx.batch.fetch(id, [][]byte{raw}); err != nil {
			return value, false, err
		}
	}
	if from.state == slotAbsent {
		return value, false, nil
	}
	value, err = t.decode(raw, from.value)
	return value, err == nil, err
}

func (t *table[K, V]) decode(key, data []byte) (V, error) {
	value, err := t.value.Decode(data)
	if err != nil {
		return value, fmt.Errorf("%s %q: the value of key %.80q is not %s: %w; was the codec changed?", t.word, t.name, key,
			t.value.Name(), err)
	}
	return value, nil
}

// write stages a value.
func (t *table[K, V]) write(ctx *Context, id int, to *slot, key []byte, value V) error {
	data, err := appendTo(&ctx.batch.arena, t.value, value)
	if err != nil {
		return ctx.fail(&OutputError{fmt.Sprintf("%s %q: a value cannot be encoded as %s: %v", t.word, t.name, t.value.Name(), err), err})
	}
	if most := ctx.batch.schema.tables[id].max; int64(len(key)+len(data)) > most {
		return ctx.fail(&OutputError{Message: fmt.Sprintf("%s %q: key %.80q and its value have %d bytes, the limit is %d", t.word, t.name,
			key, len(key)+len(data), most)})
	}
	ctx.batch.write(ctx, id, to, key, data)
	return nil
}
