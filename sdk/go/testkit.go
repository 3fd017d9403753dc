package millstream

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// A TestKit is one task of a processor in memory: feed records to an App, look at state and outputs. No sidecar needed.
//
//	kit, err := millstream.NewTestKit(app, millstream.TestSetup{Stores: []string{"counts"}, Outputs: []string{"word-counts"}})
//	err = kit.Feed("words", millstream.TestRecord{Key: "anna", Value: "hello"})
//	n, found, err := millstream.StateOf(kit, counts, "anna")
//
// Records go through the same code as in production, as frames of the worker protocol: codecs, limits, the prefix rule,
// reads of own writes. What it does not imitate: retries, partitions, and the log itself. Not safe for concurrent use.
type TestKit struct {
	// Task is the number that handlers see.
	Task int32
	// Now is the timestamp, in milliseconds since 1970, of records that are fed without one.
	Now int64
	// Failures are the records whose handlers failed.
	Failures []FailedRecord

	app     *App
	schema  *schema
	rows    []map[string][]byte
	outputs [][]TestOutput
	offsets []int64
	seq     uint64
	noState bool
}

// TestSetup names what a manifest would declare; inputs are those with handlers.
type TestSetup struct {
	Stores, Outputs []string
	// NoPrefetch makes every read of state a question to the sidecar, as for values too large to travel along.
	NoPrefetch bool
}

// A TestRecord to feed. Key and Value go through the input's codecs; nil is null, and []byte is taken as it is, so that
// a test can feed what is not valid.
type TestRecord struct {
	Key, Value any
	Headers    []Header
	Timestamp  int64 // 0: TestKit.Now
}

// A TestOutput is a record the program emitted; nil bytes are null.
type TestOutput struct {
	Key, Value []byte
	Headers    []Header
	Timestamp  int64
	Partition  int // -1: by key
}

// A FailedRecord tells what the sidecar would be told.
type FailedRecord struct {
	Input                    string
	Offset                   int64
	Class, ErrorName, Reason string
	Retriable                bool
}

func (f FailedRecord) Error() string {
	return fmt.Sprintf("%s failure of %q offset %d: %s", f.Class, f.Input, f.Offset, f.Reason)
}

const (
	testStart    = 1_700_000_000_000
	testMaxBytes = 1 << 20
	// Rows per page of a scan: few, so that tests meet paging.
	testPage = 3
)

// NewTestKit gives a *ConfigError if the app has no handler.
func NewTestKit(app *App, setup TestSetup) (*TestKit, error) {
	if len(app.order) == 0 {
		return nil, &ConfigError{"the program has no handler"}
	}
	ports := func(names []string) []welcomePort {
		var ports []welcomePort
		for _, name := range names {
			ports = append(ports, welcomePort{name: name, topic: name, kind: "KeyValue", max: testMaxBytes, prefetched: true})
		}
		return ports
	}
	s, err := newSchema(welcome{version: maxVersion, session: 1, processor: "test", inputs: ports(app.order),
		outputs: ports(setup.Outputs), stores: ports(setup.Stores), frameCap: defaultFrameCap, deadline: 60_000,
		maxTimetamp: math.MaxInt64}, app)
	if err != nil {
		return nil, err
	}
	kit := &TestKit{Now: testStart, app: app, schema: s, outputs: make([][]TestOutput, len(setup.Outputs)),
		offsets: make([]int64, len(s.inputs)), noState: setup.NoPrefetch}
	for range setup.Stores {
		kit.rows = append(kit.rows, map[string][]byte{})
	}
	return kit, nil
}

// Feed hands records to the handler of an input as one batch. A failing record ends it: the error is a FailedRecord, what
// came before it is kept, what comes after it was not handled.
func (k *TestKit) Feed(input string, records ...TestRecord) error {
	id := slices.IndexFunc(k.schema.inputs, func(port inputPort) bool { return port.name == input })
	if id < 0 {
		return &ConfigError{fmt.Sprintf("no input %q; inputs: %s", input, listed(k.app.order))}
	}
	for len(records) > 0 {
		payload, err := k.batch(id, records)
		if err != nil {
			return err
		}
		done, failed, err := k.run(payload)
		if err != nil {
			return err
		}
		k.offsets[id] += int64(done)
		if failed != nil {
			failed.Input, failed.Offset = input, k.offsets[id]
			k.offsets[id]++
			k.Failures = append(k.Failures, *failed)
			return *failed
		}
		records = records[done:] // all, or as many as fit one RESULT
	}
	return nil
}

// batch encodes what a sidecar would send.
func (k *TestKit) batch(input int, records []TestRecord) ([]byte, error) {
	handler := k.schema.inputs[input].handler
	var keys [][]byte
	var items []byte
	for n, record := range records {
		key, err := handler.encodeKey(record.Key)
		if err != nil {
			return nil, err
		}
		value, err := handler.encodeValue(record.Value)
		if err != nil {
			return nil, err
		}
		timestamp := record.Timestamp
		if timestamp == 0 {
			timestamp = k.Now
		}
		items = appendInt(appendInt(msgp.AppendArrayHeader(items, 8), 0), int64(input))
		items = appendInt(appendInt(items, k.offsets[input]+int64(n)), timestamp)
		if key == nil {
			items = msgp.AppendNil(items)
		} else {
			place := slices.IndexFunc(keys, func(known []byte) bool { return bytes.Equal(known, key) })
			if place < 0 {
				place = len(keys)
				keys = append(keys, key)
			}
			items = appendInt(items, int64(place))
		}
		items = appendInt(appendHeaders(appendMaybeBytes(items, value), record.Headers), 1)
	}
	k.seq++
	b := msgp.AppendUint64(msgp.AppendArrayHeader(nil, 8), kindBatch)
	b = appendInt(appendInt(msgp.AppendUint64(b, k.seq), int64(k.Task)), 0)
	b = msgp.AppendArrayHeader(b, uint32(len(keys)))
	for _, key := range keys {
		b = msgp.AppendBytes(b, key)
	}
	b = append(msgp.AppendArrayHeader(b, uint32(len(records))), items...)
	if k.noState {
		return msgp.AppendNil(msgp.AppendMapHeader(b, 0)), nil
	}
	b = msgp.AppendMapHeader(b, uint32(len(k.rows)))
	for store, rows := range k.rows {
		b = msgp.AppendArrayHeader(appendInt(b, int64(store)), uint32(len(keys)))
		for _, key := range keys {
			b = appendMaybeBytes(b, rows[string(key)])
		}
	}
	return msgp.AppendNil(b), nil
}

func (k *TestKit) run(payload []byte) (int, *FailedRecord, error) {
	r := &frameReader{rest: payload}
	_, fields := readHead(r)
	frame := readBatch(r, fields, len(k.rows), len(k.schema.inputs))
	if err := r.end(); err != nil {
		return 0, nil, err
	}
	told := &kitLink{kit: k, scratch: make([]map[string][]byte, len(k.rows))}
	result, err := newBatchRun(context.Background(), k.schema, told, slog.Default(), frame).run()
	if err != nil {
		return 0, nil, err
	}
	return k.apply(result[lengthBytes:])
}

// apply reads a RESULT as a sidecar would.
func (k *TestKit) apply(payload []byte) (int, *FailedRecord, error) {
	r := &frameReader{rest: payload}
	readHead(r)
	r.uint64("seq")
	done := int(r.int64("done"))
	var failed *FailedRecord
	if !r.isNil() {
		failed = &FailedRecord{}
		for count := r.mapSize("failure"); count > 0; count-- {
			switch r.text("failure") {
			case "class":
				failed.Class = r.text("class")
			case "error":
				failed.ErrorName = r.text("error")
			case "message":
				failed.Reason = r.text("message")
			case "retriable":
				retriable, rest, err := msgp.ReadBoolBytes(r.rest)
				r.wrap("retriable", rest, err)
				failed.Retriable = retriable
			}
		}
	}
	for stores := r.mapSize("ops"); stores > 0; stores-- {
		rows := k.rows[r.uint32("store")]
		for ops := r.list("ops"); ops > 0; ops-- {
			r.fields("op", 2)
			key := r.text("key")
			if value := r.maybeBytes("value"); value == nil {
				delete(rows, key)
			} else {
				rows[key] = value
			}
		}
	}
	for count := r.list("outputs"); count > 0; count-- {
		left := r.fields("output", 4) - 4
		id := r.uint32("output")
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
	}
	return done, failed, r.end()
}

// Outputs are what was emitted to an output so far, in order. It panics if the setup does not name the output.
func (k *TestKit) Outputs(output string) []TestOutput {
	id, known := k.schema.outputIDs[output]
	if !known {
		panic(fmt.Sprintf("no output %q; outputs: %s", output, listed(k.schema.outputNames())))
	}
	return k.outputs[id]
}

// Emitted decodes what was emitted so far by the output's codecs; null keys and values are the zero value.
func Emitted[K, V any](kit *TestKit, output *Output[K, V]) ([]Row[K, V], error) {
	var rows []Row[K, V]
	for _, out := range kit.Outputs(output.name) {
		var row Row[K, V]
		var err error
		if out.Key != nil {
			if row.Key, err = output.key.Decode(out.Key); err != nil {
				return rows, err
			}
		}
		if out.Value != nil {
			if row.Value, err = output.value.Decode(out.Value); err != nil {
				return rows, err
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// StateOf is the committed value of a key.
func StateOf[K, V any](kit *TestKit, store *Store[K, V], key K) (value V, found bool, err error) {
	rows, err := kit.store(store.name)
	if err != nil {
		return value, false, err
	}
	raw, err := store.key.Append(nil, key)
	if err != nil {
		return value, false, err
	}
	data, found := rows[string(raw)]
	if !found {
		return value, false, nil
	}
	value, err = store.value.Decode(data)
	return value, err == nil, err
}

// SetState prepares a test.
func SetState[K, V any](kit *TestKit, store *Store[K, V], key K, value V) error {
	rows, err := kit.store(store.name)
	if err != nil {
		return err
	}
	raw, err := store.key.Append(nil, key)
	if err != nil {
		return err
	}
	data, err := store.value.Append([]byte{}, value)
	if err == nil {
		rows[string(raw)] = data
	}
	return err
}

func (k *TestKit) store(name string) (map[string][]byte, error) {
	id, known := k.schema.storeIDs[name]
	if !known {
		return nil, &UndeclaredError{"store", name, k.schema.storeNames()}
	}
	return k.rows[id], nil
}

// kitLink answers from committed state and the batch's own writes.
type kitLink struct {
	kit     *TestKit
	scratch []map[string][]byte
}

func (l *kitLink) get(_ *batchRun, store int, keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		values[i] = l.kit.rows[store][string(key)]
	}
	return values, nil
}

func (l *kitLink) scan(_ *batchRun, request *scanRequest) ([]rawRow, []byte, error) {
	for _, op := range request.newOps {
		if l.scratch[op.store] == nil {
			l.scratch[op.store] = map[string][]byte{}
		}
		l.scratch[op.store][string(op.key)] = op.value
	}
	merged := map[string][]byte{}
	for _, layer := range []map[string][]byte{l.kit.rows[request.store], l.scratch[request.store]} {
		for key, value := range layer {
			merged[key] = value
		}
	}
	var rows []rawRow
	for key, value := range merged {
		inside := value != nil && (request.from == nil || key >= string(request.from)) && (request.to == nil || key < string(request.to))
		if request.cursor != nil {
			inside = inside && (key > string(request.cursor)) != request.reverse && key != string(request.cursor)
		}
		if inside {
			rows = append(rows, rawRow{[]byte(key), value})
		}
	}
	slices.SortFunc(rows, func(a, b rawRow) int {
		order := strings.Compare(string(a.key), string(b.key))
		if request.reverse {
			return -order
		}
		return order
	})
	page := testPage
	if request.limit > 0 {
		page = min(page, request.limit)
	}
	if len(rows) <= page {
		return rows, nil, nil
	}
	return rows[:page], rows[page-1].key, nil
}

func (l *kitLink) extend(*batchRun, int) error { return nil }
