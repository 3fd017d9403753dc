// Second of three: counts and sums per route, sent on under the airport of arrival.
package main

import (
	"strings"

	"github.com/millstream/millstream/sdk/go"
)

type leg struct {
	Late  int64 `json:"late"`
	Miles int64 `json:"miles"`
}

type route struct {
	Flights int64 `json:"flights"`
	Late    int64 `json:"late"`
	Miles   int64 `json:"miles"`
}

type arrivals struct {
	From string `json:"from"`
	route
}

var (
	routes  = millstream.NewStore("routes", millstream.String, millstream.JSON[route]())
	updates = millstream.NewOutput("routes", millstream.String, millstream.JSON[arrivals]())
)

func newApp() *millstream.App {
	app := millstream.New()
	millstream.On(app, "legs", millstream.String, millstream.JSON[leg](),
		func(ctx *millstream.Context, record millstream.Record[string, leg]) error {
			from, to, _ := strings.Cut(record.Key, "-")
			total, _, err := routes.Get(ctx)
			if err != nil {
				return err
			}
			total = route{total.Flights + 1, total.Late + record.Value.Late, total.Miles + record.Value.Miles}
			if err := routes.Put(ctx, total); err != nil {
				return err
			}
			return updates.Emit(ctx, to, arrivals{from, total})
		})
	return app
}

func main() { newApp().Main() }
