package millstream

import (
	"errors"
	"fmt"
)

// How a batch asks the sidecar, and gets its answers: GET and VALUES, SCAN and ROWS.

func (s *session) get(b *batchRun, store int, keys [][]byte) ([][]byte, error) {
	got, err := s.ask(b, func(rid uint64) []byte { return getFrame(b.frame.seq, rid, store, keys) })
	if err != nil {
		return nil, err
	}
	if got.kind != kindValues || len(got.values) != len(keys) {
		return nil, s.wrongAnswer(fmt.Sprintf("GET of %d keys was answered with %s of %d", len(keys), kindName(got.kind), len(got.values)))
	}
	return got.values, nil
}

func (s *session) scan(b *batchRun, request *scanRequest) ([]rawRow, []byte, error) {
	got, err := s.ask(b, func(rid uint64) []byte { return scanFrame(b.frame.seq, rid, request) })
	if err != nil {
		return nil, nil, err
	}
	if got.kind != kindRows {
		return nil, nil, s.wrongAnswer("SCAN was answered with VALUES")
	}
	return got.rows, got.cursor, nil
}

func (s *session) extend(b *batchRun, done int) error {
	sent, err := s.sendUnless(extendFrame(b.frame.seq, done), b.void.Load)
	if err == nil && !sent {
		err = ErrVoid
	}
	return err
}

func (s *session) wrongAnswer(problem string) error {
	err := badFrame("%s", problem)
	s.tell(err)
	s.end(problem)
	return ErrVoid
}

func (s *session) ask(b *batchRun, frame func(rid uint64) []byte) (answer, error) {
	q := &question{b.frame.seq, make(chan answer, 1)}
	s.lock.Lock()
	if b.void.Load() || s.ended {
		s.lock.Unlock()
		return answer{}, ErrVoid
	}
	rid := s.nextRID
	s.nextRID++
	s.answers[rid] = q
	s.lock.Unlock()
	sent, err := s.sendUnless(frame(rid), b.void.Load)
	if err != nil || !sent {
		s.lock.Lock()
		delete(s.answers, rid)
		s.lock.Unlock()
		var output *OutputError
		if errors.As(err, &output) {
			return answer{}, err
		}
		return answer{}, ErrVoid
	}
	got := <-q.answer // by takeAnswer, or by void, which the end of the session is as well
	switch {
	case got.void || got.problem == "cancelled":
		return got, ErrVoid
	case got.problem != "":
		return got, fmt.Errorf("the sidecar could not read the state: %s", got.problem)
	}
	return got, nil
}

func (s *session) takeAnswer(r *frameReader, kind uint64, fields int) error {
	least := 3
	if kind == kindRows {
		least = 4
	}
	if fields < least {
		return badFrame("%s has %d fields", kindName(kind), fields)
	}
	left := fields - least
	seq, rid := r.uint64("seq"), r.uint64("rid")
	got := answer{kind: kind}
	if kind == kindValues {
		got.values = make([][]byte, r.list("VALUES"))
		for i := range got.values {
			got.values[i] = r.maybeBytes("value")
		}
	} else {
		got.rows = make([]rawRow, r.list("ROWS"))
		for i := range got.rows {
			more := r.fields("row", 2) - 2
			got.rows[i] = rawRow{r.bytes("key"), r.bytes("value")}
			r.skip(more)
		}
		got.cursor = r.maybeBytes("cursor")
	}
	if r.more(&left) {
		got.problem = r.text("error")
	}
	r.skip(left)
	if err := r.end(); err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	// Else its batch was cancelled meanwhile.
	if q := s.answers[rid]; q != nil && q.seq == seq {
		delete(s.answers, rid)
		q.answer <- got
	}
	return nil
}
