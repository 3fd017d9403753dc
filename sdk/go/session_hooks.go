package millstream

import "fmt"

// BEGIN, FINALIZE and COMMITTED, and what a task gathered.

// takeHook starts BEGIN or FINALIZE: [seq, task].
func (s *session) takeHook(r *frameReader, kind uint64, fields int) error {
	hook := s.schema.hooks.begin
	if kind == kindFinalize {
		hook = s.schema.hooks.finalize
	}
	if hook == nil {
		return badFrame("unexpected %s: the worker did not ask for it", kindName(kind))
	}
	if fields < 2 {
		return badFrame("%s has %d fields, at least 2 are needed", kindName(kind), fields)
	}
	frame := hookFrame(&s.schema.shape)
	frame.seq, frame.task = r.uint64("seq"), r.int32("task")
	r.skip(fields - 2)
	if err := r.end(); err != nil {
		return err
	}
	return s.take(frame, hook)
}

// hookFrame is what a hook has in place of a BATCH.
func hookFrame(shape *batchShape) batchFrame {
	tables := len(shape.tables)
	return batchFrame{items: []batchItem{{kind: hookItem, keyIndex: -1}}, state: make([][]prefetchedValue, tables),
		rows: make([][]windowRow, tables), came: make([]bool, tables)}
}

// takeCommitted has the hook called for each task of [[task, seq]], behind what the task has in flight.
func (s *session) takeCommitted(r *frameReader, fields int) error {
	if s.schema.hooks.committed == nil {
		return badFrame("unexpected COMMITTED: the worker did not ask for it")
	}
	if fields < 1 {
		return badFrame("COMMITTED has no tasks")
	}
	var tasks []int32
	for count := r.list("COMMITTED tasks"); count > 0 && r.err == nil; count-- {
		more := r.fields("committed task", 2) - 2
		tasks = append(tasks, r.int32("task"))
		r.uint64("seq")
		r.skip(more)
	}
	r.skip(fields - 1)
	if err := r.end(); err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, task := range tasks {
		turn := s.queue(task)
		s.handlers.Add(1)
		go func() {
			defer s.handlers.Done()
			defer s.endTurn(task, turn)
			turn.wait()
			s.callCommitted(task)
		}()
	}
	return nil
}

func (s *session) callCommitted(task int32) {
	defer func() {
		if panicked := recover(); panicked != nil {
			s.log.Error("the hook for committed transactions failed; it is not called again for this one", "task", task,
				"error", fmt.Sprint(panicked))
		}
	}()
	s.schema.hooks.committed(task)
}

// forgetTask drops what was gathered for a task: it counts no more. A handler that still runs keeps its own.
func (s *session) forgetTask(task int32) {
	s.lock.Lock()
	defer s.lock.Unlock()
	delete(s.memories, task)
}
