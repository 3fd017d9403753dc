package millstream

import "math"

// WELCOME: what the manifest declares, and the limits.

// A welcomePort is an input, output, store, join or lookup of WELCOME.
type welcomePort struct {
	name, topic, kind string
	max               int64
	closes            bool // of a store of windows or sessions: each is told once, when it closes
}

type welcome struct {
	version                   int64
	session                   uint64
	processor                 string
	inputs, outputs, stores   []welcomePort
	joins, lookups            []welcomePort
	timers                    bool // the program may set some
	visits                    []welcomeVisit
	capabilities              []string // those of HELLO that the sidecar will use
	frameCap, deadline        int64
	minTimestamp, maxTimetamp int64
}

func readWelcome(r *frameReader) welcome {
	hasSession := false
	w := welcome{version: -1, frameCap: defaultFrameCap, deadline: 60_000, maxTimetamp: math.MaxInt64}
	for count := r.mapSize("WELCOME"); count > 0 && r.err == nil; count-- {
		switch field := r.text("WELCOME"); field {
		case "protocol":
			w.version = r.int64(field)
		case "session":
			w.session, hasSession = r.uint64(field), true
		case "processor":
			w.processor = r.text(field)
		case "inputs":
			w.inputs = readPorts(r, field)
		case "outputs":
			w.outputs = readPorts(r, field)
		case "stores":
			w.stores = readPorts(r, field)
		case "joins":
			w.joins = readPorts(r, field)
		case "lookups":
			w.lookups = readPorts(r, field)
		case "timers":
			w.timers = !r.isNil() && r.bool(field)
		case "visits":
			w.visits = readVisits(r)
		case "capabilities":
			for names := r.list(field); names > 0 && r.err == nil; names-- {
				w.capabilities = append(w.capabilities, r.text(field))
			}
		case "limits":
			for limits := r.mapSize(field); limits > 0 && r.err == nil; limits-- {
				switch limit := r.text(field); limit {
				case "frame":
					w.frameCap = r.int64(limit)
				case "deadline_ms":
					w.deadline = r.int64(limit)
				case "min_timestamp":
					w.minTimestamp = r.int64(limit)
				case "max_timestamp":
					w.maxTimetamp = r.int64(limit)
				default:
					r.skip(1)
				}
			}
		default:
			r.skip(1)
		}
	}
	if r.err == nil && (w.version < 0 || !hasSession) {
		r.fail("WELCOME has no protocol version or no session")
	}
	return w
}

func readPorts(r *frameReader, what string) []welcomePort {
	count := r.list(what)
	ports := make([]welcomePort, 0, count)
	for ; count > 0 && r.err == nil; count-- {
		port := welcomePort{kind: "KeyValue"}
		for fields := r.mapSize(what); fields > 0 && r.err == nil; fields-- {
			switch field := r.text(what); field {
			case "name":
				port.name = r.text(what)
			case "topic":
				port.topic = r.text(what)
			case "type":
				port.kind = r.text(what)
			case "max_bytes", "max_value_bytes":
				port.max = r.int64(what)
			case "window", "session":
				port.closes = readCloses(r)
			default:
				r.skip(1)
			}
		}
		if r.err == nil && port.name == "" {
			r.fail("WELCOME: one of the %s has no name", what)
		}
		ports = append(ports, port)
	}
	return ports
}

// A welcomeVisit is one of the manifest, with the id of the store it walks.
type welcomeVisit struct {
	name  string
	store uint32
}

func readVisits(r *frameReader) []welcomeVisit {
	if r.isNil() {
		return nil
	}
	count := r.list("visits")
	visits := make([]welcomeVisit, 0, count)
	for ; count > 0 && r.err == nil; count-- {
		var visit welcomeVisit
		for fields := r.mapSize("visits"); fields > 0 && r.err == nil; fields-- {
			switch r.text("visits") {
			case "name":
				visit.name = r.text("visit name")
			case "store":
				visit.store = r.uint32("visit store")
			default:
				r.skip(1)
			}
		}
		visits = append(visits, visit)
	}
	return visits
}

// readCloses reads of the settings of windows or sessions, which are the sidecar's business, the one that concerns a program.
func readCloses(r *frameReader) bool {
	if r.isNil() {
		return false
	}
	closes := false
	for count := r.mapSize("window"); count > 0 && r.err == nil; count-- {
		if r.text("window") == "final" {
			closes = r.bool("final")
		} else {
			r.skip(1)
		}
	}
	return closes
}
