// __NAME__: counts the records of every key and emits the new count each time.
package main

import "github.com/millstream/millstream/sdk/go"

type count struct {
	Count int64 `json:"count"`
}

var (
	counts = millstream.NewStore("counts", millstream.String, millstream.JSON[int64]())
	totals = millstream.NewOutput("word-counts", millstream.String, millstream.JSON[count]())
)

func newApp() *millstream.App {
	app := millstream.New()
	millstream.On(app, "words", millstream.String, millstream.Bytes,
		func(ctx *millstream.Context, word millstream.Record[string, []byte]) error {
			n, _, err := counts.Get(ctx)
			if err != nil {
				return err
			}
			if err := counts.Put(ctx, n+1); err != nil {
				return err
			}
			return totals.Emit(ctx, word.Key, count{n + 1})
		})
	return app
}

func main() { newApp().Main() }
