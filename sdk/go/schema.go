package millstream

import (
	"fmt"
	"slices"
)

// A schema is what WELCOME declares joined with the program's handlers. Read-only, shared by all batches of a session.
type schema struct {
	processor string
	session   uint64
	inputs    []inputPort
	outputs   []welcomePort
	outputIDs map[string]int
	// What can be read, by id: stores, then joins from firstJoin on, then lookups from firstLookup on.
	tables                     []welcomePort
	firstJoin, firstLookup     int
	shape                      batchShape
	closings                   []*handler  // by the id of a store; nil where there is none
	merges                     []mergeFunc // by the id of a store; nil where there is none
	timers                     map[timerID]*handler
	visits                     []welcomeVisit
	visitHandlers              []*visitHandlers // by the id of a visit
	hooks                      hooks            // those that the sidecar calls
	uncalled                   []string         // hooks of the program that this sidecar does not know
	loop                       int              // id of the output `loop`, -1 if there is none
	frameCap                   int
	deadline                   int64 // milliseconds
	minTimestamp, maxTimestamp int64
}

type inputPort struct {
	name, topic string
	handler     *handler
}

// A timerID is what timers of all keys are known by.
type timerID struct {
	name      string
	wallClock bool
}

// What program and manifest call the records that come back.
const loopName = "loop"

// tableWord names what a handle is on.
type tableWord string

const (
	wordStore  tableWord = "store"
	wordJoin   tableWord = "join"
	wordLookup tableWord = "lookup"
)

func portNames(ports []welcomePort) []string {
	names := make([]string, len(ports))
	for i := range ports {
		names[i] = ports[i].name
	}
	return names
}

func (s *schema) outputNames() []string { return portNames(s.outputs) }

// newSchema gives a *ConfigError where program and manifest do not fit, a *ProtocolError for a WELCOME that is none.
func newSchema(w welcome, app *App) (*schema, error) {
	if w.version < minVersion || w.version > maxVersion {
		return nil, &ConfigError{fmt.Sprintf("the sidecar chose worker protocol %d, this SDK speaks %d to %d; use a matching "+
			"version of the module", w.version, minVersion, maxVersion)}
	}
	s := &schema{
		processor: w.processor, session: w.session, outputs: w.outputs, deadline: max(w.deadline, 1),
		frameCap:     int(min(max(w.frameCap, helloFrameCap), maxFrameCap)),
		minTimestamp: w.minTimestamp, maxTimestamp: w.maxTimetamp,
		outputIDs: map[string]int{}, timers: app.timers, loop: -1,
		tables:    slices.Concat(w.stores, w.joins, w.lookups),
		firstJoin: len(w.stores), firstLookup: len(w.stores) + len(w.joins),
	}
	if err := s.setInputs(w.inputs, app); err != nil {
		return nil, err
	}
	if err := s.setTables(w, app); err != nil {
		return nil, err
	}
	if err := s.setVisits(w.visits, app); err != nil {
		return nil, err
	}
	s.hooks, s.uncalled = app.hooks.only(w.capabilities)
	for id := range s.outputs {
		port := &s.outputs[id]
		if port.max <= 0 {
			port.max = int64(s.frameCap)
		}
		s.outputIDs[port.name] = id
		if port.name == loopName {
			s.loop = id
		}
	}
	return s, nil
}

func (s *schema) setInputs(ports []welcomePort, app *App) error {
	names := portNames(ports)
	for _, name := range app.order {
		if !slices.Contains(names, name) {
			return &ConfigError{fmt.Sprintf("the program handles input %q, which the manifest does not declare; inputs: %s",
				name, listed(names))}
		}
	}
	for _, port := range ports {
		found := app.handlers[port.name]
		if found == nil {
			return &ConfigError{fmt.Sprintf("the manifest declares input %q, for which the program has no handler; add "+
				"millstream.On(app, %q, ...). Handlers exist for: %s", port.name, port.name, listed(app.order))}
		}
		s.inputs = append(s.inputs, inputPort{port.name, port.topic, found})
	}
	s.shape.inputs = len(s.inputs)
	return nil
}

// setTables takes stores, joins and lookups, with the handlers of what time makes of them.
func (s *schema) setTables(w welcome, app *App) error {
	count := len(s.tables)
	s.shape.tables, s.shape.closes, s.shape.timers = make([]tableKind, count), make([]bool, count), w.timers
	s.closings, s.merges = make([]*handler, count), make([]mergeFunc, count)
	var closing []string
	for id := range s.tables {
		port := &s.tables[id]
		if port.max <= 0 {
			port.max = int64(s.frameCap)
		}
		if id >= s.firstJoin {
			continue
		}
		switch port.kind {
		case "KeyValue":
		case "Window":
			s.shape.tables[id], s.shape.closes[id], s.shape.windowed = windowTable, port.closes, true
		case "Session":
			s.shape.tables[id], s.shape.closes[id], s.shape.windowed = sessionTable, port.closes, true
		default:
			return &ConfigError{fmt.Sprintf("store %q has type %s: not supported by this version of the Go SDK; use a later one",
				port.name, port.kind)}
		}
		s.closings[id], s.merges[id] = app.closings[port.name], app.merges[port.name]
		if s.shape.closes[id] {
			closing = append(closing, port.name)
			if s.closings[id] == nil {
				return &ConfigError{fmt.Sprintf("store %q has emit: Final in the manifest, and the program has no handler for what "+
					"closes; add millstream.%s", port.name, map[string]string{"Window": "OnClose", "Session": "OnCloseSession"}[port.kind])}
			}
		}
	}
	for name := range app.closings {
		if !slices.Contains(closing, name) {
			return &ConfigError{fmt.Sprintf("the program handles closing windows or sessions of %q; stores with emit: Final in the manifest: %s",
				name, listed(closing))}
		}
	}
	for name := range app.merges {
		if id, declared := s.find(wordStore, sessionTable, name); id < 0 {
			return &ConfigError{fmt.Sprintf("the program merges sessions of store %q, which the manifest does not declare as such; "+
				"stores: %s", name, listed(declared))}
		}
	}
	for id := range app.timers {
		if !w.timers {
			return &ConfigError{fmt.Sprintf("the program handles %s, and the manifest has no timers; add \"timers: {}\" under spec", id)}
		}
	}
	return nil
}

func (s *schema) setVisits(visits []welcomeVisit, app *App) error {
	s.visits, s.shape.visits = visits, len(visits)
	for _, visit := range visits {
		if int(visit.store) >= s.firstJoin {
			return badFrame("visit %q is of store %d, there are %d", visit.name, visit.store, s.firstJoin)
		}
		found, store := app.visits[visit.name], s.tables[visit.store].name
		if found == nil || found.rows == nil {
			return &ConfigError{fmt.Sprintf("the manifest declares visit %q, for which the program has no handler; add "+
				"millstream.OnVisit", visit.name)}
		}
		if found.store != store {
			return &ConfigError{fmt.Sprintf("visit %q walks store %q in the manifest, and %q in the program", visit.name, store, found.store)}
		}
		s.visitHandlers = append(s.visitHandlers, found)
	}
	for name, found := range app.visits {
		if s.findVisit(name) < 0 {
			return &ConfigError{fmt.Sprintf("the program handles visit %q, which the manifest does not declare; add {name: %s, store: %s} "+
				"to spec.visits. Visits: %s", name, name, found.store, listed(s.visitNames()))}
		}
	}
	return nil
}

// findVisit gives the id of a visit, -1 if there is none.
func (s *schema) findVisit(name string) int {
	return slices.IndexFunc(s.visits, func(visit welcomeVisit) bool { return visit.name == name })
}

func (s *schema) visitNames() []string {
	var names []string
	for _, visit := range s.visits {
		names = append(names, visit.name)
	}
	return names
}

// find gives the id of a store, join or lookup; a store has to be of the kind. The names of those that there are else.
func (s *schema) find(word tableWord, kind tableKind, name string) (id int, declared []string) {
	from, to := 0, s.firstJoin
	switch word {
	case wordJoin:
		from, to = s.firstJoin, s.firstLookup
	case wordLookup:
		from, to = s.firstLookup, len(s.tables)
	}
	for id := from; id < to; id++ {
		fits := s.shape.tables[id] == kind
		if fits && s.tables[id].name == name {
			return id, nil
		}
		shown := s.tables[id].name
		if !fits {
			shown += " (" + s.tables[id].kind + ")"
		}
		declared = append(declared, shown)
	}
	return -1, declared
}

// due handles a timer, a closing window or a row of a visit; nil: the program does not want to know.
func (s *schema) due(item *batchItem) (func(ctx *Context) error, error) {
	switch {
	case item.kind == closingItem:
		return s.closings[item.of].run, nil // there is one for every store that closes
	case item.kind == visitItem && item.keyIndex < 0:
		return s.visitHandlers[item.of].end, nil
	case item.kind == visitItem:
		return s.visitHandlers[item.of].rows, nil
	}
	id := timerID{string(item.detail), item.wallClock}
	if found := s.timers[id]; found != nil {
		return found.run, nil
	}
	var known []string
	for other := range s.timers {
		known = append(known, other.String())
	}
	slices.Sort(known)
	return nil, Reject(fmt.Errorf("no handler for %s; add millstream.OnTimer. Handlers exist for: %s", id, listed(known)))
}

func (id timerID) String() string {
	if id.wallClock {
		return fmt.Sprintf("wall clock timer %q", id.name)
	}
	return fmt.Sprintf("timer %q", id.name)
}
