package millstream

import (
	"fmt"
	"slices"
)

// A schema is what WELCOME declares joined with the program's handlers. Read-only, shared by all batches of a session.
type schema struct {
	processor                  string
	session                    uint64
	inputs                     []inputPort
	outputs, stores            []welcomePort
	outputIDs, storeIDs        map[string]int
	frameCap                   int
	deadline                   int64 // milliseconds
	minTimestamp, maxTimestamp int64
}

type inputPort struct {
	name, topic string
	handler     *handler
}

func (s *schema) storeNames() []string  { return portNames(s.stores) }
func (s *schema) outputNames() []string { return portNames(s.outputs) }

func portNames(ports []welcomePort) []string {
	names := make([]string, len(ports))
	for i := range ports {
		names[i] = ports[i].name
	}
	return names
}

// newSchema gives a *ConfigError where program and manifest do not fit, a *ProtocolError for a WELCOME that is none.
func newSchema(w welcome, app *App) (*schema, error) {
	if w.version < minVersion || w.version > maxVersion {
		return nil, &ConfigError{fmt.Sprintf("the sidecar chose worker protocol %d, this SDK speaks %d to %d; use a matching "+
			"version of the module", w.version, minVersion, maxVersion)}
	}
	for what, ports := range map[string][]welcomePort{"joins": w.joins, "lookups": w.lookups} {
		if len(ports) > 0 {
			return nil, &ConfigError{fmt.Sprintf("the manifest declares %s (%s): not supported yet by the Go SDK", what,
				listed(portNames(ports)))}
		}
	}
	s := &schema{
		processor: w.processor, session: w.session, outputs: w.outputs, stores: w.stores, deadline: max(w.deadline, 1),
		frameCap:     int(min(max(w.frameCap, helloFrameCap), maxFrameCap)),
		minTimestamp: w.minTimestamp, maxTimestamp: w.maxTimetamp,
		outputIDs: map[string]int{}, storeIDs: map[string]int{},
	}
	inputs := portNames(w.inputs)
	for _, name := range app.order {
		if !slices.Contains(inputs, name) {
			return nil, &ConfigError{fmt.Sprintf("the program handles input %q, which the manifest does not declare; inputs: %s",
				name, listed(inputs))}
		}
	}
	for _, port := range w.inputs {
		found := app.handlers[port.name]
		if found == nil {
			return nil, &ConfigError{fmt.Sprintf("the manifest declares input %q, for which the program has no handler; add "+
				"millstream.On(app, %q, ...). Handlers exist for: %s", port.name, port.name, listed(app.order))}
		}
		s.inputs = append(s.inputs, inputPort{port.name, port.topic, found})
	}
	for id := range s.stores {
		port := &s.stores[id]
		if port.kind != "KeyValue" {
			return nil, &ConfigError{fmt.Sprintf("store %q has type %s: not supported yet by the Go SDK", port.name, port.kind)}
		}
		if port.max <= 0 {
			port.max = int64(s.frameCap)
		}
		s.storeIDs[port.name] = id
	}
	for id := range s.outputs {
		port := &s.outputs[id]
		if port.max <= 0 {
			port.max = int64(s.frameCap)
		}
		s.outputIDs[port.name] = id
	}
	return s, nil
}
