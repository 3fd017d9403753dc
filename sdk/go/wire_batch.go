package millstream

import "github.com/tinylib/msgp/msgp"

// BATCH: the items, the state that came with them, and what WELCOME allows in it.

// A tableKind is what the keys of a table (a store, join or lookup) are.
type tableKind uint8

const (
	plainTable   tableKind = iota // keys
	windowTable                   // a key and the start of a window
	sessionTable                  // a key, the start and the end of a session
)

// A batchShape is what WELCOME allows in a BATCH.
type batchShape struct {
	inputs   int
	tables   []tableKind // by readable id
	closes   []bool      // by readable id: windows or sessions are told when they close
	timers   bool
	visits   int
	windowed bool // some table is not plain
}

type itemKind uint8

const (
	recordItem itemKind = iota
	timerItem
	closingItem
	visitItem // without a key: the end of the visit
	hookItem  // BEGIN or FINALIZE: an item of no batch
)

// A batchItem is a record, a timer that is due, a window that closes or a row that is visited.
type batchItem struct {
	kind      itemKind
	wallClock bool
	of        uint32 // the id of a record's input, of a window's store, of a visit
	keyIndex  int32  // -1: null
	attempt   uint32
	// The part of batchFrame.windows that are this item's.
	firstWindow, endWindow uint32
	offset                 int64 // of a record; the start of a window or session
	// What outputs get: a record's timestamp, a timer's time, the last millisecond of a window, the end of a session, the
	// start of a visit.
	timestamp int64
	value     []byte // nil: null; of a visit its data
	// Of a record its headers, MessagePack, decoded when asked for, nil for none; of a timer its name.
	detail []byte
}

// bounds are those of a window or a session.
type bounds struct{ start, end int64 }

// An openWindow is a window or session that takes an item.
type openWindow struct {
	bounds
	table              uint32
	firstPart, endPart uint32 // the part of batchFrame.parts that a session is made of
}

type stateKind uint8

const (
	stateAbsent stateKind = iota
	stateValue
	stateNotPrefetched
)

type prefetchedValue struct {
	kind  stateKind
	value []byte
}

// A windowRow is the state of a window or session of a key of the batch.
type windowRow struct {
	bounds
	keyIndex int32
	state    prefetchedValue
}

type batchFrame struct {
	seq          uint64
	task         int32
	flags        uint32
	keys         [][]byte
	items        []batchItem
	windows      []openWindow // of all items, one after the other
	parts        []bounds     // of all sessions, one after the other
	state        [][]prefetchedValue
	rows         [][]windowRow
	came         []bool // by readable id: whether its state came along, in `state` or, of windows and sessions, in `rows`
	watermark    int64
	hasWatermark bool
	hasTimers    bool
}

// windowsOf are the windows and sessions that take an item.
func (b *batchFrame) windowsOf(item *batchItem) []openWindow {
	return b.windows[item.firstWindow:item.endWindow]
}

// partsOf are the sessions that one is made of.
func (b *batchFrame) partsOf(session *openWindow) []bounds {
	return b.parts[session.firstPart:session.endPart]
}

// readBatch reads what follows the kind. Views of the frame are kept.
func readBatch(r *frameReader, fields int, shape *batchShape) batchFrame {
	var b batchFrame
	if fields < 6 {
		r.fail("BATCH has %d fields, at least 6 are needed", fields)
		return b
	}
	left := fields - 6
	b.seq = r.uint64("BATCH seq")
	b.task = r.int32("BATCH task")
	b.flags = r.uint32("BATCH flags")
	if count := r.list("BATCH keys"); count > 0 {
		b.keys = make([][]byte, count)
		for i := range b.keys {
			b.keys[i] = r.bytes("BATCH key")
		}
	}
	if count := r.list("BATCH items"); count > 0 {
		b.items = make([]batchItem, count)
		for i := range b.items {
			b.readItem(r, &b.items[i], shape)
			if r.err != nil {
				return b
			}
		}
	}
	b.readState(r, shape)
	if r.more(&left) {
		b.watermark, b.hasWatermark = r.int64("BATCH watermark"), true
	}
	r.skip(left)
	return b
}

func (b *batchFrame) readItem(r *frameReader, item *batchItem, shape *batchShape) {
	count := r.fields("BATCH item", 1)
	kind := r.int64("BATCH item")
	least := 7
	if kind == 1 || kind == 3 {
		least = 6
	}
	if r.err != nil {
		return
	}
	if kind < 0 || kind > 3 {
		r.fail("BATCH has an item of kind %d", kind)
		return
	}
	if count < least {
		r.fail("BATCH has an item with %d fields, at least %d are needed", count, least)
		return
	}
	left := count - least
	switch kind {
	case 0:
		b.readRecord(r, item, &left, shape)
	case 1:
		b.readTimer(r, item, shape)
	case 3:
		readVisited(r, item, shape)
	default:
		b.readClosing(r, item, shape)
	}
	r.skip(left)
	if r.err == nil && int(item.keyIndex) >= len(b.keys) {
		r.fail("BATCH names key %d, it has %d", item.keyIndex, len(b.keys))
	}
}

func (b *batchFrame) readRecord(r *frameReader, item *batchItem, left *int, shape *batchShape) {
	item.of = r.uint32("record input")
	item.offset = r.int64("record offset")
	item.timestamp = r.int64("record timestamp")
	item.keyIndex = -1
	if !r.isNil() {
		item.keyIndex = r.int32("record key index")
	}
	item.value = r.maybeBytes("record value")
	before := r.rest
	if !r.isNil() {
		skipHeaders(r)
		if r.err == nil {
			item.detail = before[:len(before)-len(r.rest)]
		}
	}
	item.attempt = 1
	if r.more(left) {
		item.attempt = r.uint32("record attempt")
	}
	// Whatever it is where no store is windowed: a later version's.
	if shape.windowed && r.more(left) {
		item.firstWindow = uint32(len(b.windows))
		b.readWindows(r, shape)
		item.endWindow = uint32(len(b.windows))
	}
	switch {
	case r.err != nil:
	case int(item.of) >= shape.inputs:
		r.fail("BATCH names input %d, there are %d", item.of, shape.inputs)
	case item.offset < 0:
		r.fail("BATCH has a record with offset %d", item.offset)
	}
}

// readWindows reads [[store, start, end, [[start, end]]?]].
func (b *batchFrame) readWindows(r *frameReader, shape *batchShape) {
	for count := r.list("record windows"); count > 0 && r.err == nil; count-- {
		more := r.fields("window", 3) - 3
		var window openWindow
		window.table = r.uint32("window store")
		window.bounds = bounds{r.int64("window start"), r.int64("window end")}
		window.firstPart = uint32(len(b.parts))
		if r.err != nil {
			return
		}
		kind := plainTable
		if int(window.table) < len(shape.tables) {
			kind = shape.tables[window.table]
		}
		switch {
		case kind == sessionTable && more > 0:
			more--
			for parts := r.list("session parts"); parts > 0 && r.err == nil; parts-- {
				further := r.fields("session part", 2) - 2
				b.parts = append(b.parts, bounds{r.int64("part start"), r.int64("part end")})
				r.skip(further)
			}
		case kind != windowTable:
			r.fail("BATCH has a window of store %d, which has none such", window.table)
		}
		r.skip(more)
		window.endPart = uint32(len(b.parts))
		b.windows = append(b.windows, window)
	}
}

func (b *batchFrame) readTimer(r *frameReader, item *batchItem, shape *batchShape) {
	if !shape.timers {
		r.fail("BATCH has a timer, which WELCOME did not announce")
	}
	b.hasTimers = true
	item.kind = timerItem
	item.keyIndex = r.int32("timer key index")
	clock := r.uint32("timer clock")
	if clock > 1 {
		r.fail("BATCH has a timer of clock %d", clock)
	}
	item.wallClock = clock == 1
	item.detail = r.bytes("timer name")
	item.timestamp = r.int64("timer time")
	item.attempt = r.uint32("timer attempt")
}

func readVisited(r *frameReader, item *batchItem, shape *batchShape) {
	item.kind = visitItem
	item.of = r.uint32("visit")
	if r.err == nil && int(item.of) >= shape.visits {
		r.fail("BATCH has a row of visit %d, there are %d", item.of, shape.visits)
	}
	item.keyIndex = -1
	if !r.isNil() {
		item.keyIndex = r.int32("visit key index")
	}
	item.timestamp = r.int64("visit time")
	item.value = r.maybeBytes("visit data")
	item.attempt = r.uint32("visit attempt")
}

func (b *batchFrame) readClosing(r *frameReader, item *batchItem, shape *batchShape) {
	item.kind = closingItem
	item.of = r.uint32("closing store")
	if r.err == nil && (int(item.of) >= len(shape.closes) || !shape.closes[item.of]) {
		r.fail("BATCH closes a window of store %d, which WELCOME did not announce", item.of)
	}
	item.keyIndex = r.int32("closing key index")
	item.offset = r.int64("closing start")
	end := r.int64("closing end")
	session := r.err == nil && shape.tables[item.of] == sessionTable
	// A session ends with its last record, a window before its end.
	if item.timestamp = end; !session {
		item.timestamp--
	}
	item.value = readPrefetched(r, "closing value").value // one that was not sent is asked for
	item.attempt = r.uint32("closing attempt")
	item.firstWindow = uint32(len(b.windows))
	closing := openWindow{bounds: bounds{item.offset, end}, table: item.of}
	if closing.firstPart = uint32(len(b.parts)); session { // made of itself
		b.parts = append(b.parts, closing.bounds)
	}
	closing.endPart = uint32(len(b.parts))
	b.windows = append(b.windows, closing)
	item.endWindow = uint32(len(b.windows))
}

func (b *batchFrame) readState(r *frameReader, shape *batchShape) {
	tables := len(shape.tables)
	b.state, b.came = make([][]prefetchedValue, tables), make([]bool, tables)
	if shape.windowed {
		b.rows = make([][]windowRow, tables)
	}
	for count := r.mapSize("BATCH state"); count > 0 && r.err == nil; count-- {
		table := r.uint32("BATCH state")
		if r.err == nil && int(table) >= tables {
			r.fail("BATCH has state of store %d, there are %d", table, tables)
		}
		values := r.list("BATCH state")
		if r.err != nil {
			return
		}
		if values != len(b.keys) || b.came[table] {
			r.fail("BATCH: the state of store %d is not aligned with its keys", table)
			return
		}
		b.came[table] = true
		if shape.tables[table] != plainTable {
			b.rows[table] = readRows(r, values)
			continue
		}
		column := make([]prefetchedValue, values)
		for i := range column {
			column[i] = readPrefetched(r, "BATCH state")
		}
		b.state[table] = column
	}
}

// readRows reads [[start, end, value]] for each key.
func readRows(r *frameReader, keys int) []windowRow {
	rows := make([]windowRow, 0, keys)
	for key := 0; key < keys && r.err == nil; key++ {
		for count := r.list("BATCH state rows"); count > 0 && r.err == nil; count-- {
			more := r.fields("row", 3) - 3
			of := bounds{r.int64("row start"), r.int64("row end")}
			rows = append(rows, windowRow{of, int32(key), readPrefetched(r, "BATCH state")})
			r.skip(more)
		}
	}
	return rows
}

// skipHeaders goes over [[name, value]], checking it.
func skipHeaders(r *frameReader) {
	for count := r.list("record headers"); count > 0 && r.err == nil; count-- {
		fields := r.fields("record header", 2)
		r.bytes("header name")
		r.maybeBytes("header value")
		r.skip(fields - 2)
	}
}

// readHeaders reads what skipHeaders has checked.
func readHeaders(encoded []byte) []Header {
	if encoded == nil {
		return nil
	}
	r := frameReader{rest: encoded}
	headers := make([]Header, r.list("headers"))
	for i := range headers {
		fields := r.fields("header", 2)
		headers[i] = Header{r.text("name"), r.maybeBytes("value")}
		r.skip(fields - 2)
	}
	return headers
}

// The extension of a value that was not sent along: type 1.
const notPrefetchedExt = 1

func readPrefetched(r *frameReader, field string) prefetchedValue {
	if r.err != nil || r.isNil() {
		return prefetchedValue{}
	}
	if msgp.NextType(r.rest) == msgp.ExtensionType {
		rest, err := msgp.Skip(r.rest)
		before := r.rest
		if !r.wrap(field, rest, err) {
			return prefetchedValue{}
		}
		// fixext has its type second; ext 8, 16 and 32 after a length of 1, 2 and 4 bytes.
		at := 1
		switch before[0] {
		case 0xc7:
			at = 2
		case 0xc8:
			at = 3
		case 0xc9:
			at = 5
		}
		if int8(before[at]) != notPrefetchedExt {
			r.fail("%s has an extension of type %d", field, int8(before[at]))
		}
		return prefetchedValue{kind: stateNotPrefetched}
	}
	return prefetchedValue{stateValue, r.bytes(field)}
}
