package millstream

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// What is Go's own about sessions; the protocol itself is tested by the conformance suite.

const testTimeout = time.Minute // on a machine that is busy or slow

type fakeSidecar struct {
	t        *testing.T
	listener net.Listener
	path     string
}

type fakeConnection struct {
	t    *testing.T
	conn net.Conn
}

func newFakeSidecar(t *testing.T) *fakeSidecar {
	t.Helper()
	folder, err := os.MkdirTemp("", "ms")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "w.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		listener.Close()
		os.RemoveAll(folder)
	})
	return &fakeSidecar{t, listener, path}
}

// accept does the handshake with inputs of the app, store "s", output "out".
func (f *fakeSidecar) accept(app *App) *fakeConnection {
	f.t.Helper()
	f.listener.(*net.UnixListener).SetDeadline(time.Now().Add(testTimeout))
	conn, err := f.listener.Accept()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	c := &fakeConnection{f.t, conn}
	c.expect(kindHello)
	b := msgp.AppendMapHeader(beginFrame(nil, kindWelcome, 1), 7)
	b = appendTexts(msgp.AppendString(b, "capabilities"), app.hooks.capabilities())
	b = appendInt(msgp.AppendString(b, "protocol"), 1)
	b = appendInt(msgp.AppendString(b, "session"), 7)
	b = msgp.AppendString(msgp.AppendString(b, "processor"), "test")
	for _, list := range []struct {
		what  string
		names []string
	}{{"inputs", app.order}, {"outputs", []string{"out"}}, {"stores", []string{"s"}}} {
		b = msgp.AppendArrayHeader(msgp.AppendString(b, list.what), uint32(len(list.names)))
		for _, name := range list.names {
			b = msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(b, 1), "name"), name)
		}
	}
	c.send(endFrame(b))
	return c
}

func (c *fakeConnection) send(frame []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(frame); err != nil {
		c.t.Fatal(err)
	}
}

// receive gives the kind and the reader behind it; kind 0 at the end of the connection.
func (c *fakeConnection) receive() (uint64, *frameReader) {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(testTimeout))
	var prefix [4]byte
	if _, err := io.ReadFull(c.conn, prefix[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		c.t.Fatal(err)
	}
	payload := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	if _, err := io.ReadFull(c.conn, payload); err != nil {
		c.t.Fatal(err)
	}
	r := &frameReader{rest: payload}
	kind, _ := readHead(r)
	return kind, r
}

func (c *fakeConnection) expect(kind uint64) *frameReader {
	c.t.Helper()
	got, r := c.receive()
	if got != kind {
		c.t.Fatalf("expected %s, got %s", kindName(kind), kindName(got))
	}
	return r
}

// batch sends records of one key with these values.
func (c *fakeConnection) batch(seq uint64, task int, values ...string) {
	c.t.Helper()
	b := msgp.AppendUint64(beginFrame(nil, kindBatch, 7), seq)
	b = appendInt(appendInt(b, int64(task)), 0)
	b = msgp.AppendBytes(msgp.AppendArrayHeader(b, 1), []byte("k"))
	b = msgp.AppendArrayHeader(b, uint32(len(values)))
	for n, value := range values {
		b = appendInt(appendInt(appendInt(msgp.AppendArrayHeader(b, 8), 0), 0), int64(n))
		b = msgp.AppendBytes(appendInt(appendInt(b, 1000), 0), []byte(value))
		b = appendInt(msgp.AppendNil(b), 1)
	}
	c.send(endFrame(msgp.AppendNil(msgp.AppendMapHeader(b, 0))))
}

// result waits for a RESULT and gives seq and done.
func (c *fakeConnection) result() (uint64, int64) {
	c.t.Helper()
	r := c.expect(kindResult)
	return r.uint64("seq"), r.int64("done")
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func start(t *testing.T, f *fakeSidecar, app *App, options Options) (stop context.CancelFunc, ended chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	options.SocketPath, options.Logger = f.path, quiet()
	if options.StopTimeout == 0 {
		options.StopTimeout = 50 * time.Millisecond
	}
	ended = make(chan error, 1)
	go func() { ended <- app.Run(ctx, options) }()
	t.Cleanup(cancel)
	return cancel, ended
}

func within[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(testTimeout):
		t.Fatal("it did not happen")
		panic("unreachable")
	}
}

func textApp(handle func(ctx *Context, r Record[string, string]) error) *App {
	app := New()
	On(app, "in", String, String, handle)
	return app
}

func TestCancelEndsTheContextAndTheNextBatchOfTheTaskWaits(t *testing.T) {
	f := newFakeSidecar(t)
	var running atomic.Int32
	started, letGo := make(chan string, 4), make(chan struct{})
	app := textApp(func(ctx *Context, r Record[string, string]) error {
		if running.Add(1) > 1 {
			t.Error("two handlers of one task at the same time")
		}
		defer running.Add(-1)
		started <- r.Value
		if r.Value == "1" {
			<-ctx.Done()
			<-letGo
		}
		return ctx.Err()
	})
	start(t, f, app, Options{})
	c := f.accept(app)
	c.batch(1, 0, "1", "lost")
	within(t, started)
	c.send(numberFrame(kindCancel, 1))
	c.batch(2, 0, "2")
	c.send(numberFrame(kindPing, 5))
	c.expect(kindPong) // so both were read
	close(letGo)
	if seq, done := c.result(); seq != 1 || done != 0 {
		t.Fatal(seq, done)
	}
	if seq, done := c.result(); seq != 2 || done != 1 {
		t.Fatal(seq, done)
	}
	if value := within(t, started); value != "2" {
		t.Fatal(value)
	}
}

func TestTasksRunAtTheSameTime(t *testing.T) {
	f := newFakeSidecar(t)
	meet := make(chan struct{})
	app := textApp(func(*Context, Record[string, string]) error {
		select { // one gives, the other takes
		case meet <- struct{}{}:
		case <-meet:
		}
		return nil
	})
	start(t, f, app, Options{Parallel: 2})
	c := f.accept(app)
	c.batch(1, 0, "a")
	c.batch(2, 1, "b")
	c.result()
	c.result()
}

func TestAPanicFailsItsRecordWithItsPlace(t *testing.T) {
	f := newFakeSidecar(t)
	app := textApp(func(*Context, Record[string, string]) error {
		var broken map[string]int
		broken["x"] = 1
		return nil
	})
	start(t, f, app, Options{})
	c := f.accept(app)
	c.batch(1, 0, "a")
	r := c.expect(kindResult)
	r.uint64("seq")
	r.int64("done")
	text := string(r.rest)
	if !strings.Contains(text, "nil map") || !strings.Contains(text, "session_test.go") || strings.Contains(text, "batch.go") {
		t.Fatal(text)
	}
	c.batch(2, 0)
	c.result() // it lives
}

func TestAStoppedWorkerServesUntilGoodbye(t *testing.T) {
	f := newFakeSidecar(t)
	app := textApp(func(*Context, Record[string, string]) error { return nil })
	stop, ended := start(t, f, app, Options{StopTimeout: time.Minute})
	c := f.accept(app)
	stop()
	c.batch(1, 0, "a")
	c.result()
	c.send(textFrame(kindGoodbye, "drained"))
	if kind, _ := c.receive(); kind != 0 {
		t.Fatal(kindName(kind))
	}
	if err := within(t, ended); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutGoodbyeAStoppedWorkerLeavesAfterItsBound(t *testing.T) {
	f := newFakeSidecar(t)
	app := textApp(func(*Context, Record[string, string]) error { return nil })
	stop, ended := start(t, f, app, Options{})
	c := f.accept(app)
	stop()
	c.expect(kindGoodbye)
	if kind, _ := c.receive(); kind != 0 {
		t.Fatal(kindName(kind))
	}
	if err := within(t, ended); err != nil {
		t.Fatal(err)
	}
}

func TestStoppedBeforeTheSidecarAnswers(t *testing.T) {
	f := newFakeSidecar(t)
	app := textApp(func(*Context, Record[string, string]) error { return nil })
	stop, ended := start(t, f, app, Options{})
	conn, err := f.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	(&fakeConnection{t, conn}).expect(kindHello)
	stop()
	if err := within(t, ended); err != nil {
		t.Fatal(err)
	}
}

func TestSeveralWorkers(t *testing.T) {
	f := newFakeSidecar(t)
	app := textApp(func(*Context, Record[string, string]) error { return nil })
	start(t, f, app, Options{Workers: 2})
	first, second := f.accept(app), f.accept(app)
	first.batch(1, 0, "a")
	second.batch(1, 1, "a")
	first.result()
	second.result()
}

func TestARefusalForGoodIsAConfigError(t *testing.T) {
	f := newFakeSidecar(t)
	app := textApp(func(*Context, Record[string, string]) error { return nil })
	_, ended := start(t, f, app, Options{})
	conn, err := f.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &fakeConnection{t, conn}
	c.expect(kindHello)
	c.send(textFrame(kindError, "Refused", "no such input"))
	var config *ConfigError
	if err := within(t, ended); !errors.As(err, &config) || !strings.Contains(err.Error(), "no such input") {
		t.Fatal(err)
	}
}

func TestNobodyListens(t *testing.T) {
	app := textApp(func(*Context, Record[string, string]) error { return nil })
	err := app.Run(context.Background(), Options{SocketPath: "/nonexistent/w.sock", StartTimeout: time.Millisecond, Logger: quiet()})
	if err == nil || !strings.Contains(err.Error(), "millstream run -f processor.yaml") {
		t.Fatal(err)
	}
	if err := New().Run(context.Background(), Options{}); err == nil || !strings.Contains(err.Error(), "no handler") {
		t.Fatal(err)
	}
}
