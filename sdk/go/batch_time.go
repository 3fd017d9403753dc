package millstream

import (
	"encoding/binary"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// Windows, sessions and timers of a batch.

// What a timer takes in a frame beside its key and name, at most.
const timerOverhead = 32

// rowKey is the key of a row of windows or sessions: the record's key, then the start of a window as a signed 64-bit
// big-endian integer; start and end of a session with the sign bit flipped, so that rows sort by time.
func (b *batchRun) rowKey(table int, key []byte, of bounds) []byte {
	return appendRowKey(&b.arena, b.schema.shape.tables[table], key, of)
}

func appendRowKey(arena *[]byte, kind tableKind, key []byte, of bounds) []byte {
	if cap(*arena)-len(*arena) < len(key)+16 {
		*arena = make([]byte, 0, max(arenaChunk, len(key)+16))
	}
	start := len(*arena)
	row := append(*arena, key...)
	if kind == sessionTable {
		row = binary.BigEndian.AppendUint64(row, uint64(of.start)^(1<<63))
		row = binary.BigEndian.AppendUint64(row, uint64(of.end)^(1<<63))
	} else {
		row = binary.BigEndian.AppendUint64(row, uint64(of.start))
	}
	*arena = row
	return row[start:len(row):len(row)]
}

// ownRow is the slot and the key of a row of the item's own key. Precondition: it has one.
func (b *batchRun) ownRow(table int, of bounds) (*slot, []byte) {
	key := b.rowKey(table, b.ctx.key, of)
	return b.row(table, key), key
}

// row is the slot of a row of windows or sessions. `key` is kept.
func (b *batchRun) row(table int, key []byte) *slot {
	run := &b.stores[table]
	if run.others == nil {
		run.others = make(map[string]*slot, len(b.frame.windows))
		b.fillRows(table)
	}
	return run.other(key)
}

// fillRows notes what came along for windows and sessions. What an item names and did not come is absent, if the table did.
func (b *batchRun) fillRows(table int) {
	kind, came := b.schema.shape.tables[table], b.frame.came[table]
	run := &b.stores[table]
	know := func(keyIndex int32, of bounds, state slotState, value []byte) {
		known := run.other(b.rowKey(table, b.frame.keys[keyIndex], of))
		known.state, known.value = state, value
	}
	for at := range b.frame.items {
		item := &b.frame.items[at]
		windows := b.frame.windowsOf(item)
		for w := range windows {
			window := &windows[w]
			switch {
			case int(window.table) != table || item.keyIndex < 0:
			case item.kind == closingItem && item.value != nil:
				know(item.keyIndex, window.bounds, slotPresent, item.value)
			case came && item.kind == recordItem:
				know(item.keyIndex, window.bounds, slotAbsent, nil)
				for _, part := range b.frame.partsOf(window) {
					know(item.keyIndex, part, slotAbsent, nil)
				}
			}
		}
	}
	if kind == plainTable || !came {
		return
	}
	for at := range b.frame.rows[table] {
		row := &b.frame.rows[table][at]
		state := slotPresent
		switch row.state.kind {
		case stateNotPrefetched:
			state = slotUnknown
		case stateAbsent:
			state = slotAbsent
		}
		know(row.keyIndex, row.bounds, state, row.state.value)
	}
}

// -- sessions

// sessionValues are the values of what a session is made of; of the session itself, once this item has written it. They are
// valid until the next call.
func (b *batchRun) sessionValues(session *openWindow) ([][]byte, error) {
	table := int(session.table)
	rows := b.frame.partsOf(session)
	own, _ := b.ownRow(table, session.bounds)
	if own.op >= 0 && b.ops[own.op].item == b.ctx.index {
		rows = []bounds{session.bounds}
	}
	var few [8]*slot
	slots := few[:0]
	var missing [][]byte
	for _, of := range rows {
		known, key := b.ownRow(table, of)
		slots = append(slots, known)
		if known.state == slotUnknown {
			missing = append(missing, key)
		}
	}
	if err := b.fetch(table, missing); err != nil {
		return nil, err
	}
	values := b.parts[:0]
	for _, known := range slots {
		if known.state == slotPresent && len(known.value) > 0 { // an empty value is a session without one
			values = append(values, known.value)
		}
	}
	b.parts = values
	return values, nil
}

// sessionValue is the value of a session, merged if there are several; nil if there is none.
func (b *batchRun) sessionValue(session *openWindow) ([]byte, error) {
	values, err := b.sessionValues(session)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	if len(values) == 1 {
		return values[0], nil
	}
	table := int(session.table)
	name, merge := b.schema.tables[table].name, b.schema.merges[table]
	if merge == nil {
		return nil, Reject(fmt.Errorf("store %q: a record connects %d sessions with values, and nobody says what becomes of them; write the "+
			"session's value in the handler, from Values, or add millstream.MergeSessions(app, ...)", name, len(values)))
	}
	merged, err := merge(values, &b.arena)
	if most := b.schema.tables[table].max; err == nil && int64(len(merged)) > most {
		return nil, &OutputError{Message: fmt.Sprintf("store %q: the merged value has %d bytes, the limit is %d", name, len(merged), most)}
	}
	return merged, err
}

// finishSessions carries over the values of sessions that the handler did not write; `before` is the number of writes before
// the item.
func (b *batchRun) finishSessions(before int) error {
	ctx := &b.ctx
	windows := b.frame.windowsOf(ctx.item)
	for w := range windows {
		session := &windows[w]
		table := int(session.table)
		if b.schema.shape.tables[table] != sessionTable {
			continue
		}
		to, key := b.ownRow(table, session.bounds)
		parts := b.frame.partsOf(session)
		if int(to.op) >= before || len(parts) == 0 || (len(parts) == 1 && parts[0] == session.bounds) {
			continue
		}
		value, err := b.sessionValue(session)
		if err != nil {
			return err
		}
		if value != nil {
			b.write(ctx, table, to, key, value)
		}
	}
	return nil
}

// -- timers

// A keyedTimer is one timer.
type keyedTimer struct {
	id  timerID
	key string
}

// setTimer stages a timer; without a time it cancels.
func (b *batchRun) setTimer(key []byte, id timerID, due *int64) {
	clock := uint64(0)
	if id.wallClock {
		clock = 1
	}
	out := msgp.AppendUint64(msgp.AppendBytes(msgp.AppendArrayHeader(b.timers, 4), key), clock)
	out = msgp.AppendString(out, id.name)
	if due == nil {
		out = msgp.AppendNil(out)
	} else {
		out = appendInt(out, *due)
	}
	b.timers = out
	b.timerCount++
	b.staged += len(key) + len(id.name) + timerOverhead
	b.elements++
	if b.frame.hasTimers {
		if b.touched == nil {
			b.touched = map[keyedTimer]struct{}{}
		}
		b.touched[keyedTimer{id, string(key)}] = struct{}{}
	}
}

// overtaken tells of a timer that an earlier item of this batch set anew or cancelled. What a failed item did is no matter:
// it ends the batch.
func (b *batchRun) overtaken(ctx *Context) bool {
	if b.touched == nil {
		return false
	}
	_, known := b.touched[keyedTimer{timerID{string(ctx.item.detail), ctx.item.wallClock}, string(ctx.key)}]
	return known
}
