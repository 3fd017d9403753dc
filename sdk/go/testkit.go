package millstream

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A TestKit is one task of a processor in memory: feed records to an App, look at state and outputs. No sidecar needed.
//
//	kit, err := millstream.NewTestKit(app, millstream.TestSetup{Stores: []string{"counts"}, Outputs: []string{"word-counts"}})
//	err = kit.Feed("words", millstream.TestRecord{Key: "anna", Value: "hello"})
//	n, found, err := millstream.StateOf(kit, counts, "anna")
//
// Records go through the same code as in production, as frames of the worker protocol: codecs, limits, the prefix rule,
// reads of own writes. Event time is that of the records that are fed; the wall clock stands still but for Advance. Windows
// that close and timers that are due follow the records that made them so, what is sent to the loop comes back, and a visit that
// is started runs to its end.
//
// What it does not imitate: retries, partitions, and the log itself. Not safe for concurrent use.
type TestKit struct {
	// Task is the number that handlers see.
	Task int32
	// Now is the wall clock in milliseconds since 1970, and the timestamp of records that are fed without one.
	Now int64
	// Failures are the records, timers, windows, rows of visits and hooks whose handlers failed.
	Failures []FailedRecord
	// Late counts records that were late for all windows and sessions.
	Late int

	app      *App
	schema   *schema
	rows     []map[string][]byte // by readable id
	outputs  [][]TestOutput
	offsets  []int64
	seq      uint64
	noState  bool
	time     kitTime
	memory   *taskMemory
	visits   map[uint32]*kitRun // by id: started and not ended
	sentBack []kitRecord        // sent to the loop and not handled yet
}

// TestSetup names what a manifest would declare; inputs are those with handlers.
type TestSetup struct {
	Stores, Outputs []string
	Joins, Lookups  []string
	Windows         []TestWindows
	Sessions        []TestSessions
	// TTL by store: keys are forgotten so long after their last write, by event time.
	TTL    map[string]time.Duration
	Visits []TestVisit
	// Timers is `timers: {}`.
	Timers bool
	// Lateness by input: how far event time stays behind its records.
	Lateness map[string]time.Duration
	// ProcessLate is `latePolicy: Process`: records that are late for all windows reach their handler. Otherwise they are
	// counted (TestKit.Late) and dropped.
	ProcessLate bool
	// NoPrefetch makes every read of state a question to the sidecar, as for values too large to travel along.
	NoPrefetch bool
}

// TestWindows is a store of type Window.
type TestWindows struct {
	Name          string
	Size, Advance time.Duration // Advance is Size where it is 0
	Grace         time.Duration
	Retention     time.Duration // from a window's start; Size and Grace where it is 0
	Final         bool          // emit: Final
}

// TestSessions is a store of type Session.
type TestSessions struct {
	Name      string
	Gap       time.Duration
	Grace     time.Duration
	Retention time.Duration // from a session's end; Gap and Grace where it is 0
	Final     bool          // emit: Final
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
	Timestamp  int64 // 0 where it has none: the time at which it is written
	Partition  int   // -1: by key
}

// A FailedRecord tells what the sidecar would be told.
type FailedRecord struct {
	Input                    string // of a record; else the name of the timer, of the store of the window, of the visit, of the hook
	Offset                   int64  // of a record; else -1
	Class, ErrorName, Reason string
	Retriable                bool
}

func (f FailedRecord) Error() string {
	if f.Offset < 0 {
		return fmt.Sprintf("%s failure of %q: %s", f.Class, f.Input, f.Reason)
	}
	return fmt.Sprintf("%s failure of %q offset %d: %s", f.Class, f.Input, f.Offset, f.Reason)
}

const (
	testStart    = 1_700_000_000_000
	testMaxBytes = 1 << 20
	// Rows per page of a scan: few, so that tests meet paging.
	testPage = 3
	// Records that come back through the loop, and timers that make timers due, come to an end by then.
	testMaxRounds = 1000
)

// NewTestKit gives a *ConfigError if the setup does not fit the app, or is none.
func NewTestKit(app *App, setup TestSetup) (*TestKit, error) {
	if len(app.order) == 0 {
		return nil, &ConfigError{"the program has no handler"}
	}
	if slices.Contains(app.order, loopName) && !slices.Contains(setup.Outputs, loopName) {
		setup.Outputs = append(slices.Clone(setup.Outputs), loopName)
	}
	rules, err := setup.rules()
	if err != nil {
		return nil, err
	}
	stores := make([]welcomePort, len(rules))
	for i, rule := range rules {
		stores[i] = testPort(rule.name)
		stores[i].kind, stores[i].closes = rule.kindName(), rule.final
	}
	visits, err := setup.visits()
	if err != nil {
		return nil, err
	}
	s, err := newSchema(welcome{version: maxVersion, session: 1, processor: "test", inputs: testPorts(app.order),
		outputs: testPorts(setup.Outputs), stores: stores, joins: testPorts(setup.Joins), lookups: testPorts(setup.Lookups),
		timers: setup.Timers, visits: visits, capabilities: app.capabilities(), frameCap: defaultFrameCap, deadline: 60_000,
		maxTimetamp: math.MaxInt64}, app)
	if err != nil {
		return nil, err
	}
	kit := &TestKit{Now: testStart, app: app, schema: s, outputs: make([][]TestOutput, len(setup.Outputs)),
		offsets: make([]int64, len(s.inputs)), noState: setup.NoPrefetch, memory: &taskMemory{},
		visits: map[uint32]*kitRun{}}
	for range s.tables {
		kit.rows = append(kit.rows, map[string][]byte{})
	}
	kit.time.init(kit, rules, setup)
	return kit, nil
}

// visits with the ids of their stores.
func (s *TestSetup) visits() ([]welcomeVisit, error) {
	var visits []welcomeVisit
	for _, visit := range s.Visits {
		store := slices.Index(s.Stores, visit.Store)
		if store < 0 {
			return nil, &ConfigError{fmt.Sprintf("visit %q walks store %q; Stores: %s", visit.Name, visit.Store, listed(s.Stores))}
		}
		visits = append(visits, welcomeVisit{visit.Name, uint32(store)})
	}
	return visits, nil
}

func testPort(name string) welcomePort {
	return welcomePort{name: name, topic: name, kind: "KeyValue", max: testMaxBytes}
}

func testPorts(names []string) []welcomePort {
	ports := make([]welcomePort, len(names))
	for i, name := range names {
		ports[i] = testPort(name)
	}
	return ports
}

// Feed hands records to the handler of an input as one batch, with the hooks of a transaction around it; then come the
// timers and windows that it made due, the rows of visits that it started, and what it sent to the loop. A failing record ends it: the error is a FailedRecord,
// what came before it is kept, what comes after it was not handled.
func (k *TestKit) Feed(input string, records ...TestRecord) error {
	id := slices.IndexFunc(k.schema.inputs, func(port inputPort) bool { return port.name == input })
	if id < 0 {
		return &ConfigError{fmt.Sprintf("no input %q; inputs: %s", input, listed(k.app.order))}
	}
	encoded := make([]kitRecord, len(records))
	for n, record := range records {
		var err error
		if encoded[n], err = k.encode(id, record); err != nil {
			return err
		}
	}
	if err := k.transaction(encoded); err != nil {
		return err
	}
	for range testMaxRounds {
		if len(k.sentBack) == 0 {
			return nil
		}
		back := k.sentBack
		k.sentBack = nil
		if err := k.transaction(back); err != nil {
			return err
		}
	}
	return fmt.Errorf("records came back through the loop %d times: the loop does not end", testMaxRounds)
}

// Advance moves the wall clock, and handles the timers that it makes due. Event time only moves with records.
func (k *TestKit) Advance(by time.Duration) error {
	k.Now += by.Milliseconds()
	return k.handleDue()
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

// A Table is a *Store, *Join or *Lookup.
type Table[K, V any] interface {
	Name() string
	plain() *table[K, V]
}

func (s *Store[K, V]) plain() *table[K, V]  { return &s.table }
func (j *Join[K, V]) plain() *table[K, V]   { return &j.table }
func (l *Lookup[K, V]) plain() *table[K, V] { return &l.table }

// StateOf is the committed value of a key of a store; or what a join or lookup has for it.
func StateOf[K, V any](kit *TestKit, of Table[K, V], key K) (value V, found bool, err error) {
	table := of.plain()
	id, err := idIn(kit, table)
	if err != nil {
		return value, false, err
	}
	raw, err := table.key.Append(nil, key)
	if err != nil {
		return value, false, err
	}
	data, found := kit.rows[id][string(raw)]
	if !found {
		return value, false, nil
	}
	value, err = table.value.Decode(data)
	return value, err == nil, err
}

// SetState prepares a test: the value of a key of a store; or what the topic of a join or lookup says of it.
func SetState[K, V any](kit *TestKit, of Table[K, V], key K, value V) error {
	table := of.plain()
	id, err := idIn(kit, table)
	if err != nil {
		return err
	}
	raw, err := table.key.Append(nil, key)
	if err != nil {
		return err
	}
	data, err := table.value.Append([]byte{}, value)
	if err == nil {
		kit.rows[id][string(raw)] = data
	}
	return err
}

func idIn[K, V any](kit *TestKit, t *table[K, V]) (int, error) {
	id, declared := kit.schema.find(t.word, t.kind, t.name)
	if id < 0 {
		return 0, &UndeclaredError{string(t.word), t.name, declared}
	}
	return id, nil
}
