package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millstream/millstream/sdk/go"
)

// The commands of windows, sessions, timers and visits, and the handlers of what is due.

type (
	windowStore  = millstream.WindowStore[[]byte, []byte]
	sessionStore = millstream.SessionStore[[]byte, []byte]
	timer        = millstream.Timer[[]byte]
)

var (
	windows  = map[string]*windowStore{}
	sessions = map[string]*sessionStore{}
	timers   = map[string]*timer{} // by name and clock
	walk     = millstream.NewVisit("walk", counts, millstream.Bytes)
)

func init() {
	for _, name := range []string{"minutes", "hops", "final"} {
		windows[name] = millstream.NewWindowStore(name, millstream.Bytes, millstream.Bytes)
	}
	for _, name := range []string{"visits", "stays"} {
		sessions[name] = millstream.NewSessionStore(name, millstream.Bytes, millstream.Bytes)
	}
	for _, name := range []string{"tick", "other"} {
		timers[name+" event"] = millstream.NewTimer(name, millstream.Bytes)
		timers[name+" wall"] = millstream.NewWallClockTimer(name, millstream.Bytes)
	}
}

func boundsOf(window millstream.Window) string {
	return fmt.Sprintf("%d..%d", window.Start, window.End)
}

// registerTime adds what a manifest without such things would not allow.
func registerTime(app *millstream.App, needs []string) {
	if slices.Contains(needs, "sessions") {
		millstream.MergeSessions(app, sessions["visits"], func(older, newer []byte) []byte {
			return slices.Concat(older, []byte("+"), newer)
		})
	}
	if slices.Contains(needs, "closings") {
		millstream.OnClose(app, windows["final"], func(ctx *millstream.Context, closed millstream.Closed[[]byte, []byte]) error {
			text := boundsOf(closed.Window) + "=" + string(closed.Value)
			return due(ctx, closed.Key, text)
		})
	}
	if slices.Contains(needs, "sessionClosings") {
		millstream.OnCloseSession(app, sessions["stays"], func(ctx *millstream.Context, closed millstream.ClosedSession[[]byte, []byte]) error {
			text := boundsOf(closed.Window)
			if closed.HasValue {
				text += "=" + string(closed.Value)
			}
			return due(ctx, closed.Key, text)
		})
	}
	if slices.Contains(needs, "visits") {
		registerVisits(app)
	}
	if !slices.Contains(needs, "timers") {
		return
	}
	for clock, timer := range timers {
		millstream.OnTimer(app, timer, func(ctx *millstream.Context, d millstream.Due[[]byte]) error {
			return due(ctx, d.Key, fmt.Sprintf("%s %d %d", clock, d.Timestamp(), d.Attempt()))
		})
	}
}

func registerVisits(app *millstream.App) {
	facts := func(at int64, attempt int, data []byte, has bool) string {
		if !has {
			data = []byte("~")
		}
		return fmt.Sprintf("walk %d %d %s", at, attempt, data)
	}
	millstream.OnVisit(app, walk, func(ctx *millstream.Context, row millstream.Visited[[]byte, []byte, []byte]) error {
		text := facts(row.Timestamp(), row.Attempt(), row.Data, row.HasData)
		if err := emit(ctx, "out", row.Key, []byte(text), millstream.EmitOptions{}); err != nil {
			return err
		}
		if err := show(ctx, row.Key, row.Value, true); err != nil {
			return err
		}
		return runStored(ctx, row.Key)
	})
	millstream.OnVisitEnd(app, walk, func(ctx *millstream.Context, end millstream.VisitEnd[[]byte]) error {
		text := facts(end.Timestamp(), end.Attempt(), end.Data, end.HasData)
		return emit(ctx, "out", nil, []byte(text), millstream.EmitOptions{})
	})
}

// due tells what is due, then does the script of its key.
func due(ctx *millstream.Context, key []byte, text string) error {
	if err := emit(ctx, "out", key, []byte(text), millstream.EmitOptions{}); err != nil {
		return err
	}
	return runStored(ctx, key)
}

// runStored does the script of a key, if there is one.
func runStored(ctx *millstream.Context, key []byte) error {
	script, found, err := stores["scripts"].Get(ctx)
	if err != nil || !found {
		return err
	}
	return run(ctx, key, nil, script)
}

// doTime does a command of windows, sessions, timers or visits; false if it is none.
func doTime(ctx *millstream.Context, own []byte, words []string) (bool, error) {
	switch words[0] {
	case "windows", "count_windows", "set_windows", "delete_windows":
		return true, eachWindow(ctx, own, words)
	case "window", "set_window":
		return true, oneWindow(ctx, own, words)
	case "session":
		return true, showSession(ctx, own, sessions[words[1]])
	case "set_session":
		return true, sessions[words[1]].Put(ctx, word(words[2]))
	case "count_session":
		return true, countSession(ctx, own, sessions[words[1]])
	case "timer", "cancel":
		return true, setTimer(ctx, words)
	case "visit":
		return true, changeVisit(ctx, words)
	case "visit_size":
		return true, walk.Start(ctx, []byte(strings.Repeat("x", number(words[2]))))
	case "watermark":
		var text []byte
		if watermark, known := ctx.Watermark(); known {
			text = strconv.AppendInt(nil, watermark, 10)
		}
		return true, emit(ctx, "out", nil, text, millstream.EmitOptions{})
	}
	return false, nil
}

// oneWindow does `window STORE START` and `set_window STORE START VALUE`.
func oneWindow(ctx *millstream.Context, own []byte, words []string) error {
	start, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return err
	}
	store, window := windows[words[1]], millstream.Window{Start: start}
	if words[0] == "set_window" {
		return store.Put(ctx, window, word(words[3]))
	}
	value, found, err := store.Get(ctx, window)
	if err != nil {
		return err
	}
	return show(ctx, own, value, found)
}

func eachWindow(ctx *millstream.Context, own []byte, words []string) error {
	store := windows[words[1]]
	for _, window := range store.Windows(ctx) {
		var err error
		switch words[0] {
		case "set_windows":
			err = store.Put(ctx, window, word(words[2]))
		case "delete_windows":
			err = store.Delete(ctx, window)
		case "count_windows":
			err = countWindow(ctx, own, store, window)
		default:
			err = showWindow(ctx, own, store, window)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func showWindow(ctx *millstream.Context, own []byte, store *windowStore, window millstream.Window) error {
	value, found, err := store.Get(ctx, window)
	if err != nil {
		return err
	}
	text := boundsOf(window)
	if found {
		text += "=" + string(value)
	}
	return show(ctx, own, []byte(text), true)
}

func countWindow(ctx *millstream.Context, own []byte, store *windowStore, window millstream.Window) error {
	value, found, err := store.Get(ctx, window)
	if err != nil {
		return err
	}
	value = oneMore(value, found)
	if err := store.Put(ctx, window, value); err != nil {
		return err
	}
	return emit(ctx, "out", own, []byte(boundsOf(window)+"="+string(value)), millstream.EmitOptions{})
}

func showSession(ctx *millstream.Context, own []byte, store *sessionStore) error {
	session, found := store.Session(ctx)
	if !found {
		return show(ctx, own, nil, false)
	}
	values, err := store.Values(ctx)
	if err != nil {
		return err
	}
	text := boundsOf(session)
	for n, value := range values {
		text += map[bool]string{true: "=", false: ","}[n == 0] + string(value)
	}
	return show(ctx, own, []byte(text), true)
}

func countSession(ctx *millstream.Context, own []byte, store *sessionStore) error {
	session, _ := store.Session(ctx)
	values, err := store.Values(ctx)
	if err != nil {
		return err
	}
	sum := 1
	for _, value := range values {
		sum += number(string(value))
	}
	if err := store.Put(ctx, strconv.AppendInt(nil, int64(sum), 10)); err != nil {
		return err
	}
	return emit(ctx, "out", own, fmt.Appendf(nil, "%s=%d", boundsOf(session), sum), millstream.EmitOptions{})
}

// changeVisit does `visit NAME start [DATA]`, `visit NAME stop|pause|resume`.
func changeVisit(ctx *millstream.Context, words []string) error {
	visit := walk
	if words[1] != walk.Name() {
		visit = millstream.NewVisit(words[1], counts, millstream.Bytes)
	}
	switch words[2] {
	case "stop":
		return visit.Stop(ctx)
	case "pause":
		return visit.Pause(ctx)
	case "resume":
		return visit.Resume(ctx)
	}
	if len(words) > 3 {
		return visit.Start(ctx, word(words[3]))
	}
	return visit.StartPlain(ctx)
}

// setTimer does `timer NAME TIME [CLOCK [KEY]]` and `cancel NAME [CLOCK [KEY]]`.
func setTimer(ctx *millstream.Context, words []string) error {
	rest := words[2:]
	var at time.Time
	if words[0] == "timer" {
		ms, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return err
		}
		at, rest = time.UnixMilli(ms), words[3:]
	}
	clock := "event"
	if len(rest) > 0 {
		clock = rest[0]
	}
	timer := timers[words[1]+" "+clock]
	switch {
	case len(rest) > 1 && words[0] == "timer":
		return timer.SetKey(ctx, word(rest[1]), at)
	case len(rest) > 1:
		return timer.CancelKey(ctx, word(rest[1]))
	case words[0] == "timer":
		return timer.Set(ctx, at)
	}
	return timer.Cancel(ctx)
}
