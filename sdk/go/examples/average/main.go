package main

import (
	"strconv"

	"github.com/millstream/millstream/sdk/go"
)

type Reading struct {
	ID      int64   `json:"id"`
	Celsius float64 `json:"celsius"`
}

type Sum struct {
	N   int64   `json:"n"`
	Sum float64 `json:"sum"`
}

var (
	seen     = millstream.NewStore("seen", millstream.String, millstream.Int64)
	sums     = millstream.NewStore("sums", millstream.String, millstream.JSON[Sum]())
	averages = millstream.NewOutput("averages", millstream.String, millstream.JSON[float64]())
)

func average(ctx *millstream.Context, reading millstream.Record[string, Reading]) error {
	if quality, _ := reading.Header("quality"); string(quality) == "bad" {
		return nil
	}
	last, found, err := seen.Get(ctx)
	if err != nil || (found && last == reading.Value.ID) {
		return err
	}
	if err := seen.Put(ctx, reading.Value.ID); err != nil {
		return err
	}
	total, _, err := sums.Get(ctx)
	if err != nil {
		return err
	}
	total = Sum{total.N + 1, total.Sum + reading.Value.Celsius}
	if err := sums.Put(ctx, total); err != nil {
		return err
	}
	readings := millstream.Header{Name: "readings", Value: strconv.AppendInt(nil, total.N, 10)}
	return averages.EmitWith(ctx, reading.Key, total.Sum/float64(total.N),
		millstream.EmitOptions{Headers: []millstream.Header{readings}})
}

func newApp() *millstream.App {
	app := millstream.New()
	millstream.On(app, "readings", millstream.String, millstream.JSON[Reading](), average)
	return app
}

func main() { newApp().Main() }
