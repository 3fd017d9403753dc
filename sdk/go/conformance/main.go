// The conformance worker of the Go SDK: does what docs/reference/conformance.md says.
//
//	go build -o worker ./conformance && millstream conform --profile conformance/profile.yaml -- ./worker
package main

import (
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millstream/millstream/sdk/go"
)

type (
	store  = millstream.Store[[]byte, []byte]
	output = millstream.Output[[]byte, []byte]
	record = millstream.Record[[]byte, []byte]
	row    = millstream.Row[[]byte, []byte]
	span   = millstream.Range[[]byte]
)

// What get and scan need of a store, join or lookup.
type table interface {
	Scan(ctx *millstream.Context, over span) iter.Seq2[row, error]
}

var (
	counts   = millstream.NewStore("counts", millstream.Bytes, millstream.Bytes)
	stores   = map[string]*store{"counts": counts}
	outputs  = map[string]*output{}
	people   = millstream.NewJoin("people", millstream.Bytes, millstream.Bytes)
	rates    = millstream.NewLookup("rates", millstream.Bytes, millstream.Bytes)
	gathered = millstream.NewGathered(func() []string { return nil })
)

func init() {
	for _, name := range []string{"archive", "scripts", "nowhere"} {
		stores[name] = millstream.NewStore(name, millstream.Bytes, millstream.Bytes)
	}
	for _, name := range []string{"out", "reads", "loop", "nowhere"} {
		outputs[name] = millstream.NewOutput(name, millstream.Bytes, millstream.Bytes)
	}
}

// A word of a script: ~ is null (nil), % alone is empty, %ff a byte.
func word(text string) []byte {
	switch text {
	case "~":
		return nil
	case "%":
		return []byte{}
	}
	unescaped, err := url.PathUnescape(text)
	if err != nil {
		panic(err)
	}
	return []byte(unescaped)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// emit makes null of nil.
func emit(ctx *millstream.Context, name string, key, value []byte, options millstream.EmitOptions) error {
	options.NullKey, options.NullValue = key == nil, value == nil
	return outputs[name].EmitWith(ctx, key, value, options)
}

func show(ctx *millstream.Context, key, value []byte, found bool) error {
	if !found {
		value = nil
	}
	return emit(ctx, "reads", key, value, millstream.EmitOptions{})
}

func emitWords(ctx *millstream.Context, words []string) error {
	var options millstream.EmitOptions
	if len(words) > 4 && words[4] != "~" {
		options.Time = time.UnixMilli(int64(number(words[4])))
	}
	if len(words) > 5 && words[5] != "~" {
		options.Partition = millstream.Partition(number(words[5]))
	}
	for at := 6; at < len(words); at++ {
		name, value, _ := strings.Cut(words[at], "=")
		options.Headers = append(options.Headers, millstream.Header{Name: name, Value: word(value)})
	}
	return emit(ctx, words[1], word(words[2]), word(words[3]), options)
}

func get(ctx *millstream.Context, own []byte, words []string) error {
	var value []byte
	var found bool
	var err error
	key := own
	if len(words) > 2 {
		key = word(words[2])
	}
	switch {
	case words[0] == "lookup":
		value, found, err = rates.Get(ctx, key)
	case words[0] == "join" && len(words) > 2:
		value, found, err = people.GetKey(ctx, key)
	case words[0] == "join":
		value, found, err = people.Get(ctx)
	case len(words) > 2:
		value, found, err = stores[words[1]].GetKey(ctx, key)
	default:
		value, found, err = stores[words[1]].Get(ctx)
	}
	if err != nil {
		return err
	}
	return show(ctx, key, value, found)
}

func getMany(ctx *millstream.Context, from *store, words []string) error {
	var keys [][]byte
	for _, text := range words[2:] {
		keys = append(keys, word(text))
	}
	found, err := from.GetMany(ctx, keys...)
	if err != nil {
		return err
	}
	for i := range found {
		if err := show(ctx, keys[i], found[i].Value, found[i].Found); err != nil {
			return err
		}
	}
	return nil
}

func scan(ctx *millstream.Context, from table, words []string) error {
	over := span{Limit: number(words[4]), Reverse: words[5] == "reverse"}
	if first := word(words[2]); first != nil {
		over.From = &first
	}
	if last := word(words[3]); last != nil {
		over.To = &last
	}
	for row, err := range from.Scan(ctx, over) {
		if err != nil {
			return err
		}
		if err := show(ctx, row.Key, row.Value, true); err != nil {
			return err
		}
	}
	return nil
}

func oneMore(value []byte, found bool) []byte {
	n := 0
	if found {
		n = number(string(value))
	}
	return strconv.AppendInt(nil, int64(n)+1, 10)
}

func count(ctx *millstream.Context, own []byte, in *store) error {
	value, found, err := in.Get(ctx)
	if err != nil {
		return err
	}
	value = oneMore(value, found)
	if err := in.Put(ctx, value); err != nil {
		return err
	}
	return emit(ctx, "out", own, value, millstream.EmitOptions{})
}

// finalize sends what was gathered.
func finalize(ctx *millstream.Context) error {
	for _, text := range gathered.Take(ctx) {
		key, counts := strings.CutPrefix(text, "count:")
		switch {
		case text == "fail":
			return errors.New(text)
		case counts:
			value, found, err := stores["counts"].GetKey(ctx, []byte(key))
			if err != nil {
				return err
			}
			if err := stores["counts"].PutKey(ctx, []byte(key), oneMore(value, found)); err != nil {
				return err
			}
		default:
			if err := emit(ctx, "out", nil, []byte(text), millstream.EmitOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// run does the commands of a script; `own` is the key of the record, timer or window.
func run(ctx *millstream.Context, own []byte, r *record, script []byte) error {
	for _, line := range strings.Split(string(script), "\n") {
		words := strings.Split(line, " ")
		known, err := doTime(ctx, own, words)
		if !known {
			err = do(ctx, own, r, words)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// do does a command; `r` is nil where it is not a record that says so.
func do(ctx *millstream.Context, own []byte, r *record, words []string) error {
	var with *store
	if len(words) > 1 {
		with = stores[words[1]]
	}
	switch words[0] {
	case "get", "join", "lookup":
		return get(ctx, own, words)
	case "get_many":
		return getMany(ctx, with, words)
	case "scan":
		return scan(ctx, with, words)
	case "scan_table":
		return scan(ctx, rates, words)
	case "count":
		return count(ctx, own, with)
	case "gather":
		gathered.Change(ctx, func(texts *[]string) { *texts = append(*texts, string(word(words[1]))) })
		return nil
	case "set":
		if len(words) > 3 {
			return with.PutKey(ctx, word(words[3]), word(words[2]))
		}
		return with.Put(ctx, word(words[2]))
	case "set_size":
		return with.Put(ctx, []byte(strings.Repeat("x", number(words[2]))))
	case "delete":
		if len(words) > 2 {
			return with.DeleteKey(ctx, word(words[2]))
		}
		return with.Delete(ctx)
	case "emit":
		return emitWords(ctx, words)
	case "emit_size":
		return emit(ctx, words[1], own, []byte(strings.Repeat("x", number(words[2]))), millstream.EmitOptions{})
	case "info":
		facts := fmt.Sprintf("%s %d %d %d %d", r.Input(), r.Task(), r.Offset(), r.Timestamp(), r.Attempt())
		return emit(ctx, "out", nil, []byte(facts), millstream.EmitOptions{})
	case "fail":
		return errors.New(string(word(words[1])))
	case "fail_size":
		return errors.New(strings.Repeat("x", number(words[1])))
	case "reject":
		return millstream.Reject(errors.New(string(word(words[1]))))
	case "sleep":
		time.Sleep(time.Duration(number(words[1])) * time.Millisecond)
		return nil
	case "crash":
		os.Exit(3)
	}
	return fmt.Errorf("no command %q", words[0])
}

func main() {
	app := millstream.New()
	millstream.On(app, "script", millstream.Bytes, millstream.Bytes, func(ctx *millstream.Context, r record) error {
		return run(ctx, r.RawKey(), &r, r.Value)
	})
	millstream.On(app, "echo", millstream.Bytes, millstream.Bytes, func(ctx *millstream.Context, r record) error {
		return emit(ctx, "out", r.RawKey(), r.RawValue(), millstream.EmitOptions{Headers: r.Headers()})
	})
	millstream.On(app, "ints", millstream.Bytes, millstream.Int64, func(ctx *millstream.Context, r millstream.Record[[]byte, int64]) error {
		return emit(ctx, "out", r.RawKey(), strconv.AppendInt(nil, r.Value, 10), millstream.EmitOptions{})
	})
	needs := strings.Split(os.Getenv("CONFORMANCE_NEEDS"), ",")
	if slices.Contains(needs, "hooks") {
		app.OnBegin(func(*millstream.Context) error { return nil })
		app.OnFinalize(finalize)
		app.OnCommitted(func(int32) {})
	}
	registerTime(app, needs)
	app.Main()
}
