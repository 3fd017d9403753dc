package millstream

import "time"

// Keep-alive: EXTEND for batches that take long.

// keep sends EXTEND for batches that made progress.
func (s *session) keep() {
	beat := time.Duration(s.schema.deadline) * time.Millisecond / beatsPerDeadline
	ticker := time.NewTicker(min(max(beat, shortestBeat), longestBeat))
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
		for _, f := range s.progressed() {
			// Asked under the send lock: nothing may follow the RESULT.
			_, err := s.sendUnless(extendFrame(f.run.frame.seq, int(f.extended)), func() bool { return !s.inFlight(f) })
			if err != nil {
				return // the reader sees it and says better
			}
		}
	}
}

func (s *session) progressed() []*flight {
	s.lock.Lock()
	defer s.lock.Unlock()
	var found []*flight
	for _, f := range s.flights {
		// A traced batch says EXTEND itself, before each item.
		done := f.run.done.Load()
		if done > f.extended && f.run.frame.flags&flagTrace == 0 && !f.run.void.Load() {
			f.extended = done
			found = append(found, f)
		}
	}
	return found
}

func (s *session) inFlight(f *flight) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.flights[f.run.frame.seq] == f && !f.run.void.Load()
}
