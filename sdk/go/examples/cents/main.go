package main

import (
	"math"

	"github.com/millstream/millstream/sdk/go"
)

type Order struct {
	Amount float64 `json:"amount"`
}

var cents = millstream.NewOutput("order-cents", millstream.String, millstream.JSON[int64]())

func newApp() *millstream.App {
	app := millstream.New()
	millstream.On(app, "orders", millstream.String, millstream.JSON[Order](),
		func(ctx *millstream.Context, order millstream.Record[string, Order]) error {
			if order.Value.Amount <= 0 {
				return nil
			}
			return cents.EmitWith(ctx, order.Key, int64(math.Round(order.Value.Amount*100)),
				millstream.EmitOptions{Headers: order.Headers()})
		})
	return app
}

func main() { newApp().Main() }
