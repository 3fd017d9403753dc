package millstream

import (
	"bytes"
	"context"
	"log/slog"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// The sidecar's part of a TestKit: batches as frames, and what becomes of RESULT.

// A kitRecord is a record on its way to a batch.
type kitRecord struct {
	input             int
	offset, timestamp int64
	key, value        []byte // nil: null
	headers           []Header
}

func (k *TestKit) encode(input int, record TestRecord) (kitRecord, error) {
	handler := k.schema.inputs[input].handler
	encoded := kitRecord{input: input, timestamp: record.Timestamp, headers: record.Headers, offset: k.offsets[input]}
	if record.Timestamp == 0 {
		encoded.timestamp = k.Now
	}
	var err error
	if encoded.key, err = handler.encodeKey(record.Key); err != nil {
		return encoded, err
	}
	encoded.value, err = handler.encodeValue(record.Value)
	if err == nil {
		k.offsets[input]++
	}
	return encoded, err
}

// transaction handles records with the program's hooks around. What came before a failure counts, so finalize follows it.
func (k *TestKit) transaction(records []kitRecord) error {
	hooks := &k.schema.hooks
	if err := k.callHook("begin", hooks.begin); err != nil {
		return err
	}
	err := k.handle(records)
	if hookErr := k.callHook("finalize", hooks.finalize); err == nil {
		err = hookErr
	}
	if hooks.committed != nil {
		hooks.committed(k.Task)
	}
	return err
}

func (k *TestKit) callHook(name string, hook func(ctx *Context) error) error {
	if hook == nil {
		return nil
	}
	k.seq++
	frame := hookFrame(&k.schema.shape)
	frame.seq, frame.task = k.seq, k.Task
	_, failed, err := k.runFrame(frame, hook, nil, k.writeTime)
	if err == nil && failed != nil {
		k.memory = &taskMemory{} // the transaction is aborted
		return k.failed(failed, name, -1)
	}
	return err
}

// handle handles records as one batch, or as few as their RESULTs allow.
func (k *TestKit) handle(records []kitRecord) error {
	for len(records) > 0 {
		batch := records
		if k.time.forgets { // a batch ends before a record for which a key is forgotten
			batch = records[:1]
		}
		done, failed, err := k.runRecords(batch)
		if err != nil {
			return err
		}
		if failed != nil {
			record := records[done]
			err = k.failed(failed, k.schema.inputs[record.input].name, record.offset)
			k.time.clock.advance(record.input, record.timestamp) // it is given up, and time goes on
			if dueErr := k.handleDue(); dueErr != nil && err == nil {
				err = dueErr
			}
			return err
		}
		if err := k.handleDue(); err != nil {
			return err
		}
		records = records[done:]
	}
	return nil
}

func (k *TestKit) failed(failed *FailedRecord, input string, offset int64) error {
	failed.Input, failed.Offset = input, offset
	k.Failures = append(k.Failures, *failed)
	return *failed
}

// runRecords gives how many of the records are done; late ones are done without a call.
func (k *TestKit) runRecords(records []kitRecord) (int, *FailedRecord, error) {
	before := k.time.clock
	view := k.time.view()
	b := kitBatch{}
	sent := make([]int, 0, len(records))
	opened, late := make([][]kitWindow, len(records)), make([]bool, len(records))
	for n, record := range records {
		k.time.clock.advance(record.input, record.timestamp)
		if opened[n], late[n] = view.open(record.key, record.timestamp); !late[n] || k.time.processLate {
			sent = append(sent, n)
			b.addRecord(record, opened[n])
		}
	}
	k.time.clock = before // only what is done moves it
	done, failed := 0, (*FailedRecord)(nil)
	if len(sent) > 0 {
		var err error
		last := func(done int, key string) int64 {
			for n := done - 1; n >= 0; n-- {
				if record := records[sent[n]]; string(record.key) == key {
					return record.timestamp
				}
			}
			return records[sent[max(done, 1)-1]].timestamp
		}
		if done, failed, err = k.runBatch(&b, nil, last); err != nil {
			return 0, nil, err
		}
	}
	finished := len(records)
	if done < len(sent) {
		finished = sent[done]
	}
	for n, record := range records[:finished] {
		k.time.clock.advance(record.input, record.timestamp)
		if late[n] {
			k.Late++
		}
		k.time.settle(record.key, opened[n])
	}
	return finished, failed, nil
}

// A kitBatch is a BATCH in the making.
type kitBatch struct {
	keys  [][]byte
	items []byte
	count int
}

func (b *kitBatch) keyIndex(key []byte) int64 {
	place := slices.IndexFunc(b.keys, func(known []byte) bool { return bytes.Equal(known, key) })
	if place < 0 {
		place = len(b.keys)
		b.keys = append(b.keys, key)
	}
	return int64(place)
}

func (b *kitBatch) addRecord(record kitRecord, open []kitWindow) {
	fields := uint32(8)
	if len(open) > 0 {
		fields = 9
	}
	items := appendInt(appendInt(msgp.AppendArrayHeader(b.items, fields), 0), int64(record.input))
	items = appendInt(appendInt(items, record.offset), record.timestamp)
	if record.key == nil {
		items = msgp.AppendNil(items)
	} else {
		items = appendInt(items, b.keyIndex(record.key))
	}
	items = appendInt(appendHeaders(appendMaybeBytes(items, record.value), record.headers), 1)
	if len(open) > 0 {
		items = appendKitWindows(items, open)
	}
	b.items = items
	b.count++
}

func (b *kitBatch) addDue(due kitDue, known bool) {
	switch {
	case due.visit != nil:
		b.addVisited(due)
		return
	case due.closing:
		items := appendInt(appendInt(msgp.AppendArrayHeader(b.items, 7), 2), int64(due.table))
		items = appendInt(appendInt(appendInt(items, b.keyIndex(due.key)), due.bounds.start), due.bounds.end)
		if known {
			items = msgp.AppendBytes(items, due.value)
		} else {
			items = append(items, 0xc7, 0, notPrefetchedExt)
		}
		b.items = appendInt(items, 1)
	default:
		items := appendInt(appendInt(msgp.AppendArrayHeader(b.items, 6), 1), b.keyIndex(due.key))
		clock := int64(0)
		if due.timer.wallClock {
			clock = 1
		}
		items = msgp.AppendString(appendInt(items, clock), due.timer.name)
		b.items = appendInt(appendInt(items, due.at), 1)
	}
	b.count++
}

// A writeTime is the time of what the first `done` items of a batch wrote for a key: of its last record.
type writeTime func(done int, key string) int64

// writeTime is that of what is no record.
func (k *TestKit) writeTime(int, string) int64 {
	if now, known := k.StreamTime(); known {
		return now
	}
	return k.Now
}

// runBatch sends a batch; `due` are its items, if they are not records.
func (k *TestKit) runBatch(b *kitBatch, due []kitDue, written writeTime) (int, *FailedRecord, error) {
	r := &frameReader{rest: k.payload(b)}
	_, fields := readHead(r)
	frame := readBatch(r, fields, &k.schema.shape)
	if err := r.end(); err != nil {
		return 0, nil, err
	}
	return k.runFrame(frame, nil, due, written)
}

// payload is the BATCH without its length.
func (k *TestKit) payload(b *kitBatch) []byte {
	k.seq++
	out := msgp.AppendUint64(msgp.AppendArrayHeader(nil, 8), kindBatch)
	out = appendInt(appendInt(msgp.AppendUint64(out, k.seq), int64(k.Task)), 0)
	out = msgp.AppendArrayHeader(out, uint32(len(b.keys)))
	for _, key := range b.keys {
		out = msgp.AppendBytes(out, key)
	}
	out = append(msgp.AppendArrayHeader(out, uint32(b.count)), b.items...)
	out = k.appendState(out, b.keys)
	if now, known := k.time.clock.now, k.time.clock.known; known {
		return appendInt(out, now)
	}
	return msgp.AppendNil(out)
}

// appendState writes what travels along: stores and joins.
func (k *TestKit) appendState(out []byte, keys [][]byte) []byte {
	if k.noState {
		return msgp.AppendMapHeader(out, 0)
	}
	out = msgp.AppendMapHeader(out, uint32(k.schema.firstLookup))
	for table, rows := range k.rows[:k.schema.firstLookup] {
		out = msgp.AppendArrayHeader(appendInt(out, int64(table)), uint32(len(keys)))
		for _, key := range keys {
			if k.schema.shape.tables[table] == plainTable {
				out = appendMaybeBytes(out, rows[string(key)])
				continue
			}
			known := k.time.rowsOf(table, key)
			out = msgp.AppendArrayHeader(out, uint32(len(known)))
			for _, row := range known {
				out = appendInt(appendInt(msgp.AppendArrayHeader(out, 3), row.start), row.end)
				out = msgp.AppendBytes(out, row.value)
			}
		}
	}
	return out
}

// runFrame runs a batch, or a hook; `due` are its items, if they are not records.
func (k *TestKit) runFrame(frame batchFrame, hook func(ctx *Context) error, due []kitDue, written writeTime) (int, *FailedRecord, error) {
	told := &kitLink{kit: k, scratch: make([]map[string][]byte, len(k.rows))}
	b := newBatchRun(context.Background(), k.schema, told, slog.Default(), frame, k.memory)
	b.hook = hook
	result, err := b.run()
	if err != nil {
		return 0, nil, err
	}
	done, failed, err := k.apply(result[lengthBytes:], &frame, due, written)
	if err == nil {
		err = b.runDeferred()
	}
	return done, failed, err
}

// apply reads a RESULT as a sidecar would.
func (k *TestKit) apply(payload []byte, frame *batchFrame, due []kitDue, written writeTime) (int, *FailedRecord, error) {
	r := &frameReader{rest: payload}
	_, fields := readHead(r)
	r.uint64("seq")
	done := int(r.int64("done"))
	for _, item := range due[:min(done, len(due))] {
		k.handled(item)
	}
	var failed *FailedRecord
	if !r.isNil() {
		failed = readFailure(r)
	}
	for stores := r.mapSize("ops"); stores > 0; stores-- {
		store := r.uint32("store")
		rows := k.rows[store]
		for ops := r.list("ops"); ops > 0; ops-- {
			r.fields("op", 2)
			key := r.text("key")
			if value := r.maybeBytes("value"); value == nil {
				delete(rows, key)
			} else {
				rows[key] = value
				k.time.written[store][key] = written(done, key)
			}
		}
	}
	for count := r.list("outputs"); count > 0; count-- {
		k.take(r)
	}
	if fields > 5 {
		for count := r.list("timers"); count > 0; count-- {
			k.time.setTimer(r)
		}
	}
	if fields > 6 {
		for count := r.list("visits"); count > 0; count-- {
			k.changeVisit(r, frame.items[done-1].timestamp)
		}
	}
	return done, failed, r.end()
}

func readFailure(r *frameReader) *FailedRecord {
	failed := &FailedRecord{}
	for count := r.mapSize("failure"); count > 0; count-- {
		switch r.text("failure") {
		case "class":
			failed.Class = r.text("class")
		case "error":
			failed.ErrorName = r.text("error")
		case "message":
			failed.Reason = r.text("message")
		case "retriable":
			failed.Retriable = r.bool("retriable")
		}
	}
	return failed
}

// take reads an output; one to the loop comes back.
func (k *TestKit) take(r *frameReader) {
	left := r.fields("output", 4) - 4
	id := int(r.uint32("output"))
	out := TestOutput{Key: r.maybeBytes("key"), Value: r.maybeBytes("value"), Partition: -1}
	if !r.isNil() {
		out.Timestamp = r.int64("timestamp")
	}
	if r.more(&left) {
		before := r.rest
		skipHeaders(r)
		out.Headers = readHeaders(before[:len(before)-len(r.rest)])
	}
	if r.more(&left) {
		out.Partition = int(r.int32("partition"))
	}
	k.outputs[id] = append(k.outputs[id], out)
	input := slices.Index(k.app.order, loopName)
	if id != k.schema.loop || input < 0 {
		return
	}
	back := kitRecord{input, k.offsets[input], out.Timestamp, out.Key, out.Value, out.Headers}
	if back.timestamp == 0 {
		back.timestamp = k.Now
	}
	k.offsets[input]++
	k.sentBack = append(k.sentBack, back)
}
