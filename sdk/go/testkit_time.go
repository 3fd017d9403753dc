package millstream

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// Time in a TestKit: stream time, windows, sessions and timers, as the sidecar has them.

// StreamTime is how far event time has come, in milliseconds since 1970; false before the first record.
func (k *TestKit) StreamTime() (int64, bool) { return k.time.clock.now, k.time.clock.known }

// A PendingTimer is one that is set and not due yet.
type PendingTimer struct {
	Name      string
	Key       []byte
	Time      int64 // milliseconds since 1970
	WallClock bool
}

// Timers are those that are set, the next one first.
func (k *TestKit) Timers() []PendingTimer {
	var pending []PendingTimer
	for timer, at := range k.time.timers {
		pending = append(pending, PendingTimer{timer.id.name, []byte(timer.key), at, timer.id.wallClock})
	}
	slices.SortFunc(pending, func(a, b PendingTimer) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), strings.Compare(a.Name, b.Name), bytes.Compare(a.Key, b.Key))
	})
	return pending
}

// A WindowedTable is a *WindowStore or *SessionStore.
type WindowedTable[K, V any] interface {
	Name() string
	windowed() *table[K, V]
}

func (s *WindowStore[K, V]) windowed() *table[K, V]  { return &s.table }
func (s *SessionStore[K, V]) windowed() *table[K, V] { return &s.table }

// A TestWindow is a window or session with its value; a session may have none.
type TestWindow[V any] struct {
	Window
	Value V
	Found bool
}

// WindowsOf are the windows or sessions of a key that are kept, in the order of time.
func WindowsOf[K, V any](kit *TestKit, of WindowedTable[K, V], key K) ([]TestWindow[V], error) {
	table := of.windowed()
	id, err := idIn(kit, table)
	if err != nil {
		return nil, err
	}
	raw, err := table.key.Append(nil, key)
	if err != nil {
		return nil, err
	}
	var found []TestWindow[V]
	for _, row := range kit.time.rowsOf(id, raw) {
		window := TestWindow[V]{Window: Window{row.start, row.end}}
		if table.kind == windowTable || len(row.value) > 0 {
			window.Found = true
			if window.Value, err = table.value.Decode(row.value); err != nil {
				return nil, err
			}
		}
		found = append(found, window)
	}
	return found, nil
}

// A timeRule is what time makes of a store.
type timeRule struct {
	name            string
	kind            tableKind
	length, advance int64 // the size of a window; the gap of a session
	grace           int64
	retention       int64
	ttl             int64 // of a plain store; 0: none
	final           bool
}

func (r *timeRule) kindName() string {
	return map[tableKind]string{plainTable: "KeyValue", windowTable: "Window", sessionTable: "Session"}[r.kind]
}

// closes is the stream time from which on it takes no record.
func (r *timeRule) closes(of bounds) int64 {
	if r.kind == sessionTable {
		return of.end + r.grace + r.length + 1
	}
	return of.end + r.grace
}

// expires is the stream time from which on it is gone.
func (r *timeRule) expires(of bounds) int64 {
	if r.kind == sessionTable {
		return of.end + r.retention + 1
	}
	return of.start + r.retention
}

func (s *TestSetup) rules() ([]timeRule, error) {
	var rules []timeRule
	for _, name := range s.Stores {
		ttl := s.TTL[name].Milliseconds()
		if ttl < 0 {
			return nil, &ConfigError{fmt.Sprintf("store %q has a TTL below 0", name)}
		}
		rules = append(rules, timeRule{name: name, ttl: ttl})
	}
	for _, w := range s.Windows {
		size, advance, grace := w.Size.Milliseconds(), w.Advance.Milliseconds(), w.Grace.Milliseconds()
		if advance == 0 {
			advance = size
		}
		if size <= 0 || advance <= 0 || advance > size || grace < 0 {
			return nil, &ConfigError{fmt.Sprintf("windows %q need a Size above 0, an Advance of at most that, and no negative times", w.Name)}
		}
		retention := max(w.Retention.Milliseconds(), size+grace)
		rules = append(rules, timeRule{w.Name, windowTable, size, advance, grace, retention, 0, w.Final})
	}
	for _, w := range s.Sessions {
		gap, grace := w.Gap.Milliseconds(), w.Grace.Milliseconds()
		if gap <= 0 || grace < 0 {
			return nil, &ConfigError{fmt.Sprintf("sessions %q need a Gap above 0 and no negative times", w.Name)}
		}
		rules = append(rules, timeRule{w.Name, sessionTable, gap, 0, grace, max(w.Retention.Milliseconds(), gap+grace), 0, w.Final})
	}
	return rules, nil
}

// A streamClock is stream time: of an input the highest timestamp without its lateness, of the task the lowest of them. An
// input that was never fed is taken as idle.
type streamClock struct {
	now     int64
	known   bool
	highest map[int]int64 // by input, its lateness taken off; copied on write
	late    []int64       // by input
}

func (c *streamClock) advance(input int, timestamp int64) {
	if reached, known := c.highest[input]; !known || timestamp-c.late[input] > reached {
		c.highest = maps.Clone(c.highest)
		if c.highest == nil {
			c.highest = map[int]int64{}
		}
		c.highest[input] = timestamp - c.late[input]
	}
	lowest := int64(math.MaxInt64)
	for _, reached := range c.highest {
		lowest = min(lowest, reached)
	}
	if !c.known || lowest > c.now {
		c.now, c.known = lowest, true
	}
}

// A kitTime is the time of the one task of a kit, and what depends on it.
type kitTime struct {
	kit         *TestKit
	rules       []timeRule // by the id of a store
	processLate bool
	forgets     bool // a store has a TTL
	clock       streamClock
	timers      map[keyedTimer]int64
	told        []map[string]bool  // by the id of a store: windows and sessions that were told at their end
	written     []map[string]int64 // by the id of a store: the time of the last write of each key
}

func (t *kitTime) init(kit *TestKit, rules []timeRule, setup TestSetup) {
	*t = kitTime{kit: kit, rules: rules, processLate: setup.ProcessLate, timers: map[keyedTimer]int64{}}
	for _, input := range kit.schema.inputs {
		t.clock.late = append(t.clock.late, setup.Lateness[input.name].Milliseconds())
	}
	for _, rule := range rules {
		t.forgets = t.forgets || rule.ttl > 0
		t.told = append(t.told, map[string]bool{})
		t.written = append(t.written, map[string]int64{})
	}
}

// A kitRow is a row of windows or sessions.
type kitRow struct {
	bounds
	key   string // of the row
	value []byte
}

// rowsOf are those of a key, in the order of time.
func (t *kitTime) rowsOf(table int, key []byte) []kitRow {
	var rows []kitRow
	for row, value := range t.kit.rows[table] {
		if of, known := t.split(table, row); known == string(key) {
			rows = append(rows, kitRow{of, row, value})
		}
	}
	slices.SortFunc(rows, func(a, b kitRow) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	return rows
}

// split takes a row apart.
func (t *kitTime) split(table int, row string) (of bounds, key string) {
	tail := func(back int) uint64 { return binary.BigEndian.Uint64([]byte(row[len(row)-back:])) }
	if t.rules[table].kind == sessionTable {
		return bounds{int64(tail(16) ^ 1<<63), int64(tail(8) ^ 1<<63)}, row[:len(row)-16]
	}
	start := int64(tail(8))
	return bounds{start, start + t.rules[table].length}, row[:len(row)-8]
}

// A kitWindow is a window or session of a record.
type kitWindow struct {
	bounds
	table   int
	session bool
	parts   []bounds
}

func appendKitWindows(out []byte, open []kitWindow) []byte {
	out = msgp.AppendArrayHeader(out, uint32(len(open)))
	for _, window := range open {
		fields := uint32(3)
		if window.session {
			fields = 4
		}
		out = appendInt(msgp.AppendArrayHeader(out, fields), int64(window.table))
		out = appendInt(appendInt(out, window.start), window.end)
		if window.session {
			out = msgp.AppendArrayHeader(out, uint32(len(window.parts)))
			for _, part := range window.parts {
				out = appendInt(appendInt(msgp.AppendArrayHeader(out, 2), part.start), part.end)
			}
		}
	}
	return out
}

// A kitView finds windows and sessions in the order of the records of a batch: it knows of sessions what earlier ones make of
// them.
type kitView struct {
	time     *kitTime
	sessions map[string][]bounds // by table and key
}

func (t *kitTime) view() *kitView { return &kitView{t, map[string][]bounds{}} }

// open are the windows and sessions that take a record; late for all of them is late.
func (v *kitView) open(key []byte, timestamp int64) (open []kitWindow, late bool) {
	if key == nil || !v.time.kit.schema.shape.windowed {
		return nil, false
	}
	now := v.time.clock.now
	for table := range v.time.rules {
		rule := &v.time.rules[table]
		switch rule.kind {
		case windowTable:
			first := floorDiv(timestamp-rule.length, rule.advance)*rule.advance + rule.advance
			for start := first; start <= timestamp; start += rule.advance {
				of := bounds{start, start + rule.length}
				if rule.closes(of) > now {
					open = append(open, kitWindow{bounds: of, table: table})
				}
			}
		case sessionTable:
			if session, ok := v.session(table, key, timestamp); ok {
				open = append(open, session)
			}
		}
	}
	return open, len(open) == 0
}

// session is what a record makes of the sessions of its key; false where it is late.
func (v *kitView) session(table int, key []byte, timestamp int64) (kitWindow, bool) {
	rule := &v.time.rules[table]
	place := fmt.Sprint(table, "/", string(key))
	known, seen := v.sessions[place]
	if !seen {
		for _, row := range v.time.rowsOf(table, key) {
			known = append(known, row.bounds)
		}
	}
	session := kitWindow{bounds: bounds{timestamp, timestamp}, table: table, session: true}
	var others []bounds
	over := false
	for _, of := range known {
		switch {
		case rule.expires(of) <= v.time.clock.now:
		case of.start <= timestamp+rule.length && of.end >= timestamp-rule.length:
			session.parts = append(session.parts, of)
			session.start, session.end = min(session.start, of.start), max(session.end, of.end)
			over = over || (rule.final && rule.closes(of) <= v.time.clock.now) // one that was given stays as it is
		default:
			others = append(others, of)
		}
	}
	if over || rule.closes(session.bounds) <= v.time.clock.now {
		return session, false
	}
	known = append(others, session.bounds)
	slices.SortFunc(known, func(a, b bounds) int { return cmp.Compare(a.start, b.start) })
	v.sessions[place] = known
	return session, true
}

func floorDiv(a, b int64) int64 {
	quotient := a / b
	if a%b < 0 {
		quotient--
	}
	return quotient
}

// settle is what becomes of sessions once their record was handled: what was merged goes, what is left has at least an empty
// value.
func (t *kitTime) settle(key []byte, open []kitWindow) {
	for _, window := range open {
		if !window.session {
			continue
		}
		rows := t.kit.rows[window.table]
		row := func(of bounds) string {
			var arena []byte
			return string(appendRowKey(&arena, sessionTable, key, of))
		}
		for _, part := range window.parts {
			if part != window.bounds {
				delete(rows, row(part))
			}
		}
		if own := row(window.bounds); rows[own] == nil {
			rows[own] = []byte{}
		}
	}
}

// A kitDue is a timer that is due, a window or session that closes, or a row of a visit.
type kitDue struct {
	at      int64
	key     []byte
	timer   timerID
	closing bool
	visit   *kitRun // its key nil: the end
	table   int     // the id of the store that closes; of the visit
	bounds  bounds
	row     string
	value   []byte
}

func (d *kitDue) name(s *schema) string {
	switch {
	case d.closing:
		return s.tables[d.table].name
	case d.visit != nil:
		return s.visits[d.table].name
	}
	return d.timer.name
}

// handleDue handles timers and closing windows until none is due, and visits to their end.
func (k *TestKit) handleDue() error {
	for range testMaxRounds {
		k.time.sweep()
		due := k.time.due()
		if len(due) == 0 {
			due = k.visited()
		}
		if len(due) == 0 {
			return nil
		}
		b := kitBatch{}
		for _, item := range due {
			b.addDue(item, !k.noState)
		}
		done, failed, err := k.runBatch(&b, due, k.writeTime)
		if err != nil {
			return err
		}
		if failed != nil {
			k.handled(due[done]) // it is given up, as a record would be
			return k.failed(failed, due[done].name(k.schema), -1)
		}
	}
	return fmt.Errorf("timers make timers due, or visits start visits, without end: %d rounds", testMaxRounds)
}

// due is all that is due, the earliest first.
func (t *kitTime) due() []kitDue {
	var found []kitDue
	for timer, at := range t.timers {
		now, known := t.clock.now, t.clock.known
		if timer.id.wallClock {
			now, known = t.kit.Now, true
		}
		if known && at <= now {
			found = append(found, kitDue{at: at, key: []byte(timer.key), timer: timer.id})
		}
	}
	for table := range t.rules {
		rule := &t.rules[table]
		for row, value := range t.kit.rows[table] {
			if !rule.final || !t.clock.known || t.told[table][row] {
				continue
			}
			if of, key := t.split(table, row); rule.closes(of) <= t.clock.now {
				found = append(found, kitDue{at: rule.closes(of), key: []byte(key), closing: true, table: table, bounds: of, row: row, value: value})
			}
		}
	}
	slices.SortFunc(found, func(a, b kitDue) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.row, b.row), strings.Compare(a.timer.name, b.timer.name),
			bytes.Compare(a.key, b.key))
	})
	return found
}

// handled notes that something due is done with.
func (k *TestKit) handled(due kitDue) {
	if due.visit != nil {
		k.visitedDone(due)
	} else {
		k.time.handled(due)
	}
}

func (t *kitTime) handled(due kitDue) {
	if due.closing {
		t.told[due.table][due.row] = true
	} else {
		delete(t.timers, keyedTimer{due.timer, string(due.key)})
	}
}

// setTimer reads [key, clock, name, time or nil].
func (t *kitTime) setTimer(r *frameReader) {
	r.fields("timer", 4)
	key, clock := r.text("key"), r.uint32("clock")
	timer := keyedTimer{timerID{r.text("name"), clock == 1}, key}
	if r.isNil() {
		delete(t.timers, timer)
	} else {
		t.timers[timer] = r.int64("time")
	}
}

// sweep deletes what has outlived its retention, or the TTL of its store.
func (t *kitTime) sweep() {
	for table := range t.rules {
		for row := range t.kit.rows[table] {
			if t.clock.known && t.isOver(table, row) {
				delete(t.kit.rows[table], row)
				delete(t.told[table], row)
				delete(t.written[table], row)
			}
		}
	}
}

func (t *kitTime) isOver(table int, row string) bool {
	rule := &t.rules[table]
	if rule.kind == plainTable {
		at, known := t.written[table][row]
		return rule.ttl > 0 && known && at+rule.ttl <= t.clock.now
	}
	of, _ := t.split(table, row)
	return rule.expires(of) <= t.clock.now && (!rule.final || t.told[table][row])
}
