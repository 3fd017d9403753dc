package millstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// An App is a stream processor's program: handlers for the inputs of its manifest, for timers, for windows that close,
// for rows of visits, and hooks. Register them with On, OnTimer, OnClose, OnVisit, then call Main or Run.
type App struct {
	handlers map[string]*handler // by input
	order    []string            // the inputs
	timers   map[timerID]*handler
	closings map[string]*handler  // by store
	merges   map[string]mergeFunc // by store
	visits   map[string]*visitHandlers
	hooks    hooks
}

// New makes an App without handlers.
func New() *App {
	return &App{handlers: map[string]*handler{}, timers: map[timerID]*handler{}, closings: map[string]*handler{},
		merges: map[string]mergeFunc{}, visits: map[string]*visitHandlers{}}
}

type handler struct {
	run func(ctx *Context) error
	// For TestKit.
	encodeKey, encodeValue func(value any) ([]byte, error)
}

// On makes a function the handler of an input of the manifest, one per input. Call it before Run.
//
// All records of one key of an input reach the handler in order; records of different tasks reach it at the same time
// from several goroutines. An error ends the batch at its record: what it wrote and emitted is dropped, the records
// before it count, and the sidecar retries, skips, dead-letters or stops as errors in the manifest says. A panic is an
// error like any other.
//
// On panics if the input has a handler already.
func On[K, V any](app *App, input string, key Codec[K], value Codec[V], handle func(ctx *Context, record Record[K, V]) error) {
	if app.handlers[input] != nil {
		panic(fmt.Sprintf("millstream: input %q already has a handler", input))
	}
	app.order = append(app.order, input)
	app.handlers[input] = &handler{
		run: func(ctx *Context) error {
			record, err := decodeRecord(ctx, key, value)
			if err != nil {
				return err
			}
			return handle(ctx, record)
		},
		encodeKey:   func(v any) ([]byte, error) { return encodeAny(key, v) },
		encodeValue: func(v any) ([]byte, error) { return encodeAny(value, v) },
	}
}

func encodeAny[T any](codec Codec[T], value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case T:
		return codec.Append([]byte{}, v)
	case []byte: // as they are, so that a test can feed what is not valid
		return append([]byte{}, v...), nil
	}
	return nil, fmt.Errorf("the %s codec does not take %T", codec.Name(), value)
}

// capabilities are those of HELLO.
func (a *App) capabilities() []string {
	names := a.hooks.capabilities()
	if len(a.closings) > 0 {
		names = append(names, sessionClosingsCapability)
	}
	if len(a.visits) > 0 {
		names = append(names, visitsCapability)
	}
	return names
}

// Inputs are the names of the inputs that have handlers, in the order of On.
func (a *App) Inputs() []string { return append([]string(nil), a.order...) }

// Options of Run and Main. The zero value is what most programs want.
type Options struct {
	// SocketPath is the sidecar's socket; default $MILLSTREAM_SOCKET, else /run/millstream/worker.sock.
	SocketPath string
	// Parallel is how many tasks one worker takes at the same time, each on a goroutine; default GOMAXPROCS, at least 2.
	Parallel int
	// Workers is how many connections the program opens; the sidecar spreads tasks over them. Default 1, which is enough:
	// one worker uses all cores when Parallel allows it.
	Workers int
	// StartTimeout bounds the wait for the first connection; default 60 s when a socket was named, else none.
	StartTimeout time.Duration
	// LostTimeout bounds the wait for a sidecar that went away; default 5 min.
	LostTimeout time.Duration
	// StopTimeout is how long a program told to stop serves until the sidecar's goodbye; default
	// $MILLSTREAM_STOP_TIMEOUT seconds, else 30 s.
	StopTimeout time.Duration
	// Logger; default slog.Default().
	Logger *slog.Logger
}

const (
	maxParallel = 256
	maxWorkers  = 256
)

func (o Options) completed() (Options, error) {
	named := o.SocketPath != "" || os.Getenv("MILLSTREAM_SOCKET") != ""
	if o.SocketPath == "" {
		o.SocketPath = os.Getenv("MILLSTREAM_SOCKET")
	}
	if o.SocketPath == "" {
		o.SocketPath = "/run/millstream/worker.sock"
	}
	if o.Parallel == 0 {
		o.Parallel = max(runtime.GOMAXPROCS(0), 2)
	}
	if o.Workers == 0 {
		o.Workers = 1
	}
	if o.Parallel < 1 || o.Parallel > maxParallel || o.Workers < 1 || o.Workers > maxWorkers {
		return o, &ConfigError{fmt.Sprintf("Options: Parallel is 1 to %d and Workers 1 to %d", maxParallel, maxWorkers)}
	}
	if o.StartTimeout == 0 && named {
		o.StartTimeout = time.Minute
	}
	if o.LostTimeout == 0 {
		o.LostTimeout = 5 * time.Minute
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = 30 * time.Second
		if seconds, err := strconv.ParseFloat(os.Getenv("MILLSTREAM_STOP_TIMEOUT"), 64); err == nil && seconds > 0 {
			o.StopTimeout = time.Duration(seconds * float64(time.Second))
		}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

// Run serves the sidecar until the context is cancelled and the sidecar has said goodbye, or the sidecar stays away for
// too long. Cancelling the context is being told to stop: Run goes on serving until the sidecar's goodbye, at most
// Options.StopTimeout, so that nothing has to be done again elsewhere.
//
// The error is a *ConfigError where program and manifest do not fit (starting again does not help), else says why there
// is no connection.
func (a *App) Run(ctx context.Context, options Options) error {
	if len(a.order) == 0 {
		return &ConfigError{"the program has no handler; add millstream.On(app, \"input-name\", ...)"}
	}
	options, err := options.completed()
	if err != nil {
		return err
	}
	// One that cannot go on ends the others.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	host, _ := os.Hostname()
	results := make([]error, options.Workers)
	var group sync.WaitGroup
	for n := range options.Workers {
		name := fmt.Sprintf("%s/%d", host, os.Getpid())
		if options.Workers > 1 {
			name += fmt.Sprintf("/%d", n)
		}
		group.Add(1)
		go func() {
			defer group.Done()
			w := worker{app: a, options: options, name: name}
			if results[n] = w.run(ctx); results[n] != nil {
				cancel()
			}
		}()
	}
	group.Wait()
	return errors.Join(results...)
}

// Main is Run for the main function: SIGTERM and SIGINT tell the program to stop, a second Ctrl-C ends it at once, and an
// error is printed and ends it with exit code 2 where program and manifest do not fit, else 1.
func (a *App) Main(options ...Options) {
	var chosen Options
	if len(options) > 0 {
		chosen = options[0]
	}
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		var interrupted time.Time
		for received := range signals {
			cancel()
			if received != syscall.SIGINT {
				continue
			}
			// Sooner than this it is the same Ctrl-C seen twice: the terminal signals the whole process group.
			if !interrupted.IsZero() && time.Since(interrupted) > 500*time.Millisecond {
				os.Exit(130)
			}
			interrupted = time.Now()
		}
	}()
	err := a.Run(ctx, chosen)
	cancel()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "millstream:", err)
	var config *ConfigError
	if errors.As(err, &config) {
		os.Exit(2)
	}
	os.Exit(1)
}
