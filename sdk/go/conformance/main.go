// The conformance worker of the Go SDK: does what docs/reference/conformance.md says.
//
//	go build -o worker ./conformance && millstream conform --profile conformance/profile.yaml -- ./worker
package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/millstream/millstream/sdk/go"
)

type (
	store  = millstream.Store[[]byte, []byte]
	output = millstream.Output[[]byte, []byte]
	record = millstream.Record[[]byte, []byte]
)

var (
	stores  = map[string]*store{}
	outputs = map[string]*output{}
)

func init() {
	for _, name := range []string{"counts", "archive", "nowhere"} {
		stores[name] = millstream.NewStore(name, millstream.Bytes, millstream.Bytes)
	}
	for _, name := range []string{"out", "reads", "nowhere"} {
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

func get(ctx *millstream.Context, r record, from *store, words []string) error {
	key := r.RawKey()
	var value []byte
	var found bool
	var err error
	if len(words) > 2 {
		key = word(words[2])
		value, found, err = from.GetKey(ctx, key)
	} else {
		value, found, err = from.Get(ctx)
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

func scan(ctx *millstream.Context, from *store, words []string) error {
	over := millstream.Range[[]byte]{Limit: number(words[4]), Reverse: words[5] == "reverse"}
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

func count(ctx *millstream.Context, r record, in *store) error {
	value, found, err := in.Get(ctx)
	if err != nil {
		return err
	}
	n := 0
	if found {
		n = number(string(value))
	}
	value = strconv.AppendInt(nil, int64(n)+1, 10)
	if err := in.Put(ctx, value); err != nil {
		return err
	}
	return emit(ctx, "out", r.RawKey(), value, millstream.EmitOptions{})
}

func do(ctx *millstream.Context, r record, words []string) error {
	var with *store
	if len(words) > 1 {
		with = stores[words[1]]
	}
	switch words[0] {
	case "get":
		return get(ctx, r, with, words)
	case "get_many":
		return getMany(ctx, with, words)
	case "scan":
		return scan(ctx, with, words)
	case "count":
		return count(ctx, r, with)
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
		return emit(ctx, words[1], r.RawKey(), []byte(strings.Repeat("x", number(words[2]))), millstream.EmitOptions{})
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
		for _, line := range strings.Split(string(r.Value), "\n") {
			if err := do(ctx, r, strings.Split(line, " ")); err != nil {
				return err
			}
		}
		return nil
	})
	millstream.On(app, "echo", millstream.Bytes, millstream.Bytes, func(ctx *millstream.Context, r record) error {
		return emit(ctx, "out", r.RawKey(), r.RawValue(), millstream.EmitOptions{Headers: r.Headers()})
	})
	millstream.On(app, "ints", millstream.Bytes, millstream.Int64, func(ctx *millstream.Context, r millstream.Record[[]byte, int64]) error {
		return emit(ctx, "out", r.RawKey(), strconv.AppendInt(nil, r.Value, 10), millstream.EmitOptions{})
	})
	app.Main()
}
