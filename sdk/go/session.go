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

	sendLock sync.Mutex // keeps frames whole
	told     bool       // ERROR was sent, and nothing follows it; guarded by sendLock

	lock     sync.Mutex // guards what follows
	flights  map[uint64]*flight
	lastOf   map[int32]chan struct{} // by task: closed when the last of its batches and hooks has ended, which the next one waits for
	memories map[int32]*taskMemory   // by task, from OPEN to CLOSE
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
	turn     turn
	extended int64 // `done` of the last EXTEND
}

// A turn is a place in the queue of a task.
type turn struct {
	after    <-chan struct{} // nil: nobody is before
	finished chan struct{}
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
	}
	s.init()
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

func (s *session) init() {
	s.flights, s.lastOf, s.memories = map[uint64]*flight{}, map[int32]chan struct{}{}, map[int32]*taskMemory{}
	s.answers, s.nextRID = map[uint64]*question{}, 1
	s.ctx, s.cancel = context.WithCancel(context.Background())
}

func (s *session) handshake(name string) error {
	s.conn.SetDeadline(time.Now().Add(handshakeTimeout))
	if err := s.send(helloFrame(s.app.order, s.app.capabilities(), s.parallel, name)); err != nil {
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
	s.sendLock.Lock()
	defer s.sendLock.Unlock()
	if !s.told {
		s.told = true
		_, _ = s.conn.Write(textFrame(kindError, code, cutText(err.Error(), 4096))) // the connection is over anyhow
	}
}

func (s *session) send(frame []byte) error {
	_, err := s.sendUnless(frame, nil)
	return err
}

// sendUnless sends a frame, unless `dropped`, asked under the lock, says that it no longer should be.
func (s *session) sendUnless(frame []byte, dropped func() bool) (bool, error) {
	s.sendLock.Lock()
	defer s.sendLock.Unlock()
	if s.told || dropped != nil && dropped() {
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
		frame := readBatch(r, fields, &s.schema.shape)
		if err := r.end(); err != nil {
			return err
		}
		return s.take(frame, nil)
	case kindBegin, kindFinalize:
		return s.takeHook(r, kind, fields)
	case kindCommitted:
		return s.takeCommitted(r, fields)
	case kindValues, kindRows:
		return s.takeAnswer(r, kind, fields)
	case kindCancel:
		seq := one("CANCEL seq")
		s.lock.Lock()
		s.void(seq)
		s.lock.Unlock()
	case kindOpen:
		s.forgetTask(int32(one("OPEN task")))
	case kindClose:
		task := int32(one("CLOSE task"))
		s.voidTask(task)
		s.forgetTask(task)
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

// take starts a batch, or a hook, that agrees with what is in flight.
func (s *session) take(frame batchFrame, hook func(ctx *Context) error) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	valid := 0
	for seq, other := range s.flights {
		if seq == frame.seq {
			return badFrame("batch %d came twice", seq)
		}
		if other.run.void.Load() { // no longer counts: the sidecar sends the next one at once
			continue
		}
		if other.run.frame.task == frame.task {
			return badFrame("batch %d: one of task %d is still in flight", frame.seq, frame.task)
		}
		if other.run.hook == nil {
			valid++
		}
	}
	if valid >= s.parallel && hook == nil {
		return badFrame("batch %d is more than the %d this worker takes at once", frame.seq, s.parallel)
	}
	memory := s.memories[frame.task]
	if memory == nil {
		memory = &taskMemory{}
		s.memories[frame.task] = memory
	}
	ctx, cancel := context.WithCancel(s.ctx)
	f := &flight{run: newBatchRun(ctx, s.schema, s, s.log, frame, memory), cancel: cancel, turn: s.queue(frame.task)}
	f.run.hook = hook
	s.flights[frame.seq] = f
	s.handlers.Add(1)
	go s.work(f)
	return nil
}

// queue takes the next turn of a task, which has to be ended. Under the lock.
func (s *session) queue(task int32) turn {
	t := turn{s.lastOf[task], make(chan struct{})}
	s.lastOf[task] = t.finished
	return t
}

func (t turn) wait() {
	if t.after != nil {
		<-t.after
	}
}

func (s *session) endTurn(task int32, t turn) {
	s.lock.Lock()
	if s.lastOf[task] == t.finished {
		delete(s.lastOf, task)
	}
	s.lock.Unlock()
	close(t.finished)
}

// work runs one batch on its goroutine.
func (s *session) work(f *flight) {
	defer s.handlers.Done()
	defer s.endTurn(f.run.frame.task, f.turn)
	defer f.cancel()
	f.turn.wait()
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
			// Without it what counts would not be whole: the sidecar takes the transaction back and sends it again.
			if err := f.run.runDeferred(); err != nil {
				s.tell(err)
				s.end(err.Error())
				return
			}
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
