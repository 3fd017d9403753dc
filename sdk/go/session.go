package millstream

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// The sidecar answers HELLO at once; a socket that somebody else listens on may not.
	handshakeTimeout = 30 * time.Second
	// EXTEND goes out at least so many times within a deadline while there is progress.
	beatsPerDeadline = 4
	longestBeat      = 5 * time.Second
	shortestBeat     = 20 * time.Millisecond
	readBuffer       = 256 << 10
	// A handler that does not look at its context keeps a session that has ended for so long.
	handlerGrace = 30 * time.Second
)

// A session is one connection: handshake, the reading goroutine (serve), keep-alive, answers to GET and SCAN, and the way
// out for results. Each batch runs on a goroutine of its own; the next one of its task waits for it.
type session struct {
	conn     net.Conn
	reader   *bufio.Reader
	frameCap int
	app      *App
	schema   *schema
	parallel int
	log      *slog.Logger

	ctx    context.Context // ends with the session
	cancel context.CancelFunc

	sendLock sync.Mutex // keeps frames whole; nothing follows an ERROR

	lock     sync.Mutex // guards what follows
	flights  map[uint64]*flight
	lastOf   map[int32]*flight // by task: what the next batch of it waits for
	answers  map[uint64]*question
	nextRID  uint64
	leaving  bool // GOODBYE was said by either side: disconnect once nothing is in flight
	ended    bool
	goodbye  bool   // by the sidecar
	reason   string // how it ended
	handlers sync.WaitGroup
	results  atomic.Int64
}

type flight struct {
	run      *batchRun
	cancel   context.CancelFunc
	after    *flight // of the same task, perhaps still at work though void
	finished chan struct{}
	extended int64 // `done` of the last EXTEND
}

type question struct {
	seq    uint64
	answer chan answer // of room for one
}

// An answer is VALUES or ROWS; void for a batch that no longer counts.
type answer struct {
	kind    uint64
	values  [][]byte
	rows    []rawRow
	cursor  []byte
	problem string
	void    bool
}

// openSession does the handshake. Errors: *RefusedError, *ConfigError (told to the sidecar), *ProtocolError (likewise),
// or that of the connection. It owns the connection, and closes it on error.
func openSession(conn net.Conn, app *App, name string, parallel int, log *slog.Logger) (*session, error) {
	s := &session{
		conn: conn, reader: bufio.NewReaderSize(conn, readBuffer), frameCap: defaultFrameCap, app: app, parallel: parallel, log: log,
		flights: map[uint64]*flight{}, lastOf: map[int32]*flight{}, answers: map[uint64]*question{}, nextRID: 1,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.handshake(name); err != nil {
		var config *ConfigError
		var protocol *ProtocolError
		if errors.As(err, &config) || errors.As(err, &protocol) {
			s.tell(err)
		}
		s.cancel()
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *session) handshake(name string) error {
	s.conn.SetDeadline(time.Now().Add(handshakeTimeout))
	if err := s.send(helloFrame(s.app.order, s.parallel, name)); err != nil {
		return err
	}
	payload, err := s.receive()
	if err != nil {
		return err
	}
	r := &frameReader{rest: payload}
	kind, fields := readHead(r)
	switch {
	case r.err != nil:
		return r.err
	case kind == kindError:
		code, message := r.text("code"), r.text("message")
		if r.err != nil {
			return r.err
		}
		return &RefusedError{code, message}
	case kind == kindGoodbye:
		return errors.New("the sidecar is going away")
	case kind != kindWelcome || fields < 1:
		return badFrame("expected WELCOME, got %s", kindName(kind))
	}
	w := readWelcome(r)
	r.skip(fields - 1)
	if err := r.end(); err != nil {
		return err
	}
	if s.schema, err = newSchema(w, s.app); err != nil {
		return err
	}
	s.frameCap = s.schema.frameCap
	return s.conn.SetDeadline(time.Time{})
}

// serve reads until the connection ends; then all batches are void, and their handlers have ended or been given up.
func (s *session) serve() {
	go s.keep()
	for {
		payload, err := s.receive()
		if err == nil {
			err = s.dispatch(payload)
		}
		if err == nil {
			continue
		}
		var protocol *ProtocolError
		if errors.As(err, &protocol) {
			s.tell(err)
		}
		s.end(err.Error())
		break
	}
	done := make(chan struct{})
	go func() { s.handlers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(handlerGrace):
		s.log.Warn("a handler goes on though its batch is void; it should end when its context does")
	}
}

// end closes the connection and voids everything. The first reason is kept. From any goroutine.
func (s *session) end(reason string) {
	s.lock.Lock()
	if s.reason == "" {
		s.reason = reason
	}
	s.ended = true
	for seq := range s.flights {
		s.void(seq)
	}
	s.lock.Unlock()
	s.cancel()
	s.conn.Close()
}

// leave asks for nothing more: what is in flight is served, then the connection ends.
func (s *session) leave(reason string) {
	if err := s.send(textFrame(kindGoodbye, reason)); err != nil {
		return // the reader sees it too
	}
	s.lock.Lock()
	s.leaving = true
	s.lock.Unlock()
	s.endIfLeft()
}

func (s *session) endIfLeft() {
	s.lock.Lock()
	left := s.leaving && len(s.flights) == 0
	s.lock.Unlock()
	if left {
		s.end("nothing is in flight after goodbye")
	}
}

// tell sends ERROR; the sidecar keeps the first one and shows it.
func (s *session) tell(err error) {
	code := codeWorkerFailed
	var protocol *ProtocolError
	if errors.As(err, &protocol) {
		code = protocol.Code
	}
	s.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_ = s.send(textFrame(kindError, code, cutText(err.Error(), 4096))) // the connection is over anyhow
}

func (s *session) send(frame []byte) error {
	_, err := s.sendUnless(frame, nil)
	return err
}

// sendUnless sends a frame, unless `dropped`, asked under the lock, says that it no longer should be.
func (s *session) sendUnless(frame []byte, dropped func() bool) (bool, error) {
	s.sendLock.Lock()
	defer s.sendLock.Unlock()
	if dropped != nil && dropped() {
		return false, nil
	}
	if len(frame)-lengthBytes > s.frameCap {
		return false, &OutputError{Message: fmt.Sprintf("a frame of %d bytes is over the cap of %d", len(frame)-lengthBytes, s.frameCap)}
	}
	if _, err := s.conn.Write(frame); err != nil {
		return false, fmt.Errorf("sending to the sidecar: %w", err)
	}
	return true, nil
}

// receive gives the next frame without its length, in memory of its own: what is read from it is kept as it is.
func (s *session) receive() ([]byte, error) {
	var prefix [lengthBytes]byte
	if _, err := io.ReadFull(s.reader, prefix[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the sidecar closed the connection")
		}
		return nil, fmt.Errorf("reading from the sidecar: %w", err)
	}
	length := binary.BigEndian.Uint32(prefix[:])
	if int64(length) > int64(s.frameCap) {
		return nil, &ProtocolError{codeFrameTooLarge, fmt.Sprintf("a frame of %d bytes is over the cap of %d", length, s.frameCap)}
	}
	if length == 0 {
		return nil, badFrame("an empty frame")
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(s.reader, payload); err != nil {
		return nil, fmt.Errorf("the connection ended in the middle of a frame: %w", err)
	}
	return payload, nil
}

// dispatch deals with one frame. An error ends the session.
func (s *session) dispatch(payload []byte) error {
	r := &frameReader{rest: payload}
	kind, fields := readHead(r)
	if r.err != nil {
		return r.err
	}
	one := func(field string) uint64 {
		if fields < 1 {
			r.fail("%s has no fields", kindName(kind))
			return 0
		}
		number := r.uint64(field)
		r.skip(fields - 1)
		r.end()
		return number
	}
	switch kind {
	case kindBatch:
		frame := readBatch(r, fields, len(s.schema.stores), len(s.schema.inputs))
		if err := r.end(); err != nil {
			return err
		}
		return s.take(frame)
	case kindValues, kindRows:
		return s.takeAnswer(r, kind, fields)
	case kindCancel:
		seq := one("CANCEL seq")
		s.lock.Lock()
		s.void(seq)
		s.lock.Unlock()
	case kindOpen:
		one("OPEN task")
	case kindClose:
		s.voidTask(int32(one("CLOSE task")))
	case kindPing:
		if nonce := one("PING nonce"); r.err == nil {
			return s.send(numberFrame(kindPong, nonce))
		}
	case kindPong:
		one("PONG nonce")
	case kindError:
		if fields < 2 {
			return badFrame("ERROR has %d fields", fields)
		}
		code, message := r.text("code"), r.text("message")
		if r.err == nil {
			return fmt.Errorf("the sidecar ended the session: %s (%s). What to do: %s", message, code, findErrorCode(code).remedy)
		}
	case kindGoodbye:
		if fields < 1 {
			return badFrame("GOODBYE has no reason")
		}
		reason := r.text("reason")
		s.lock.Lock()
		s.goodbye, s.leaving, s.reason = true, true, "the sidecar said goodbye: "+reason
		s.lock.Unlock()
		s.endIfLeft()
	default:
		return badFrame("unexpected %s", kindName(kind))
	}
	return r.err
}

// take starts a batch that agrees with what is in flight.
func (s *session) take(frame batchFrame) error {
	ctx, cancel := context.WithCancel(s.ctx)
	f := &flight{run: newBatchRun(ctx, s.schema, s, s.log, frame), cancel: cancel, finished: make(chan struct{})}
	s.lock.Lock()
	defer s.lock.Unlock()
	valid := 0
	for seq, other := range s.flights {
		if seq == frame.seq {
			cancel()
			return badFrame("batch %d came twice", seq)
		}
		if other.run.void.Load() { // no longer counts: the sidecar sends the next one at once
			continue
		}
		if other.run.frame.task == frame.task {
			cancel()
			return badFrame("batch %d: one of task %d is still in flight", frame.seq, frame.task)
		}
		valid++
	}
	if valid >= s.parallel {
		cancel()
		return badFrame("batch %d is more than the %d this worker takes at once", frame.seq, s.parallel)
	}
	f.after = s.lastOf[frame.task]
	s.flights[frame.seq], s.lastOf[frame.task] = f, f
	s.handlers.Add(1)
	go s.work(f)
	return nil
}

// work runs one batch on its goroutine.
func (s *session) work(f *flight) {
	defer s.handlers.Done()
	defer close(f.finished)
	defer f.cancel()
	if f.after != nil {
		<-f.after.finished
		f.after = nil
	}
	frame, err := f.run.run()
	if err == nil {
		var sent bool
		sent, err = s.sendUnless(frame, func() bool {
			if f.run.void.Load() {
				return true
			}
			// Over before the frame leaves: the next batch of the task may come before Write returns.
			s.forget(f)
			return false
		})
		if sent {
			s.results.Add(1)
		}
		if err != nil {
			s.end(err.Error())
			return
		}
	}
	if f.run.void.Load() {
		// A void batch is ended by an empty RESULT, which the sidecar drops.
		if s.forget(f) {
			_ = s.send(voidResult(f.run.frame.seq)) // the reader sees a broken connection too
		}
	} else if err != nil {
		s.end(err.Error()) // a traced batch whose EXTEND could not be sent
	}
	s.endIfLeft()
}

func voidResult(seq uint64) []byte {
	return (&batchRun{frame: batchFrame{seq: seq}}).result(0, nil)
}

// forget takes a batch off the list; false if it was not there or the session has ended.
func (s *session) forget(f *flight) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	known := s.flights[f.run.frame.seq] == f
	delete(s.flights, f.run.frame.seq)
	if s.lastOf[f.run.frame.task] == f && !f.run.void.Load() {
		delete(s.lastOf, f.run.frame.task)
	}
	return known && !s.ended
}

// void marks a batch as one that no longer counts and wakes what waits for it. Under the lock.
func (s *session) void(seq uint64) {
	f := s.flights[seq]
	if f == nil {
		return
	}
	f.run.void.Store(true)
	f.cancel()
	for rid, q := range s.answers {
		if q.seq == seq {
			delete(s.answers, rid)
			q.answer <- answer{void: true}
		}
	}
}

func (s *session) voidTask(task int32) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for seq, f := range s.flights {
		if f.run.frame.task == task {
			s.void(seq)
		}
	}
}

// -- link

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
