package main

import (
	"strconv"

	"github.com/millstream/millstream/sdk/go"
)

type Reading struct {
	Celsius float64 `json:"celsius"`
}

type Sum struct {
	N   int64   `json:"n"`
	Sum float64 `json:"sum"`
}

var (
	hours    = millstream.NewWindowStore("hours", millstream.String, millstream.JSON[Sum]())
	averages = millstream.NewOutput("averages", millstream.String, millstream.JSON[float64]())
)

func add(ctx *millstream.Context, reading millstream.Record[string, Reading]) error {
	if quality, _ := reading.Header("quality"); string(quality) == "bad" {
		return nil
	}
	for _, hour := range hours.Windows(ctx) {
		sum, _, err := hours.Get(ctx, hour)
		if err != nil {
			return err
		}
		if err := hours.Put(ctx, hour, Sum{sum.N + 1, sum.Sum + reading.Value.Celsius}); err != nil {
			return err
		}
	}
	return nil
}

func average(ctx *millstream.Context, hour millstream.Closed[string, Sum]) error {
	readings := millstream.Header{Name: "readings", Value: strconv.AppendInt(nil, hour.Value.N, 10)}
	return averages.EmitWith(ctx, hour.Key, hour.Value.Sum/float64(hour.Value.N),
		millstream.EmitOptions{Headers: []millstream.Header{readings}, Time: hour.StartTime()})
}

func newApp() *millstream.App {
	app := millstream.New()
	millstream.On(app, "readings", millstream.String, millstream.JSON[Reading](), add)
	millstream.OnClose(app, hours, average)
	return app
}

func main() { newApp().Main() }
