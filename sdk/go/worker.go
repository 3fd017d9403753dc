package millstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	connectTimeout = 10 * time.Second
	firstBackoff   = 50 * time.Millisecond
	longestBackoff = 2 * time.Second
	// A session that lived so long, or returned a result, was a good one: the next one is tried without delay.
	goodSession = 5 * time.Second
	// After the bound for stopping the worker says GOODBYE and serves what is in flight for so long.
	leaveTimeout = 5 * time.Second
	// Told to stop while HELLO is unanswered: so long for a WELCOME that is on its way.
	helloGrace = time.Second
	maxPath    = 107
)

// A worker serves sessions one after the other on one connection at a time.
type worker struct {
	app     *App
	options Options
	name    string
	said    bool // that it waits for the sidecar
}

// run returns after an orderly end, or with the reason why there is no point in going on.
func (w *worker) run(ctx context.Context) error {
	if len(w.options.SocketPath) > maxPath {
		return &ConfigError{fmt.Sprintf("socket path %q is over %d bytes; set MILLSTREAM_SOCKET to a shorter one", w.options.SocketPath, maxPath)}
	}
	waitUntil := time.Now().Add(w.options.StartTimeout)
	backoff := firstBackoff
	connected := false
	for ctx.Err() == nil {
		began := time.Now()
		results, err := w.oneSession(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if err = w.giveUpOrLog(err, waitUntil, connected); err != nil {
				return err
			}
		} else {
			connected = true
			waitUntil = time.Now().Add(w.options.LostTimeout)
			if results > 0 || time.Since(began) > goodSession {
				backoff = firstBackoff
			}
		}
		select {
		case <-ctx.Done():
		// Jitter, so that the workers of a pod do not all knock at once.
		case <-time.After(backoff/2 + rand.N(backoff/2)):
		}
		backoff = min(2*backoff, longestBackoff)
	}
	return nil
}

// oneSession serves one connection to its end; the number of results it returned.
func (w *worker) oneSession(ctx context.Context) (int64, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	conn, err := dialer.DialContext(ctx, "unix", w.options.SocketPath)
	if err != nil {
		return 0, &net.OpError{Op: "dial", Net: "unix", Err: err}
	}
	// Told to stop while HELLO is unanswered: nothing is in flight, so it is not waited for, but for a WELCOME on its way.
	hurried := make(chan struct{})
	stopHurry := context.AfterFunc(ctx, func() {
		defer close(hurried)
		conn.SetReadDeadline(time.Now().Add(helloGrace))
	})
	s, err := openSession(conn, w.app, w.name, w.options.Parallel, w.options.Logger)
	if !stopHurry() {
		<-hurried
	}
	if err != nil {
		return 0, err
	}
	conn.SetReadDeadline(time.Time{})
	w.said = false
	log := w.options.Logger.With("processor", s.schema.processor, "session", s.schema.session)
	log.Info("connected to the sidecar", "socket", w.options.SocketPath)
	if len(s.schema.uncalled) > 0 {
		log.Warn("the sidecar does not call hooks of the program; use a later version of millstream", "hooks", s.schema.uncalled)
	}
	over := make(chan struct{})
	go w.stopLater(ctx, s, over)
	s.serve()
	close(over)
	if s.goodbye || ctx.Err() != nil {
		log.Info("session ended", "reason", s.reason)
	} else {
		log.Warn("session ended", "reason", s.reason)
	}
	return s.results.Load(), nil
}

// stopLater serves on when the program is told to stop, and leaves when no goodbye comes in time.
func (w *worker) stopLater(ctx context.Context, s *session, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	select {
	case <-over:
		return
	case <-time.After(w.options.StopTimeout):
	}
	s.leave("the worker was told to stop")
	select {
	case <-over:
	case <-time.After(leaveTimeout):
		s.end("told to stop")
	}
}

func (w *worker) giveUpOrLog(err error, waitUntil time.Time, connected bool) error {
	var refused *RefusedError
	var config *ConfigError
	var network *net.OpError
	switch {
	case errors.As(err, &config):
		return err
	case errors.As(err, &refused) && findErrorCode(refused.Code).final:
		return &ConfigError{"the sidecar refuses this program: " + refused.Error() + ". What to do: " + findErrorCode(refused.Code).remedy}
	case time.Now().Before(waitUntil):
		if !w.said {
			w.said = true
			w.options.Logger.Info("waiting for the sidecar", "reason", err.Error())
		}
		return nil
	case connected:
		return fmt.Errorf("the sidecar at %s went away and did not come back within %s: %w", w.options.SocketPath, w.options.LostTimeout, err)
	case errors.As(err, &network):
		return fmt.Errorf("no sidecar at %s (%w); run: millstream run -f processor.yaml -- %s", w.options.SocketPath, err, filepath.Base(os.Args[0]))
	}
	return err
}
