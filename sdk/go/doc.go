// Package millstream is what a Go program imports to be a stream processor run by Millstream: handlers per input, keyed
// state, windows, sessions, timers, visits, joins, lookups, outputs. It talks to the Millstream sidecar over a Unix socket and needs
// no Kafka client and no network.
//
//	var (
//		counts = millstream.NewStore("counts", millstream.String, millstream.Int64)
//		totals = millstream.NewOutput("word-counts", millstream.String, millstream.Int64)
//	)
//
//	func main() {
//		app := millstream.New()
//		millstream.On(app, "words", millstream.String, millstream.String,
//			func(ctx *millstream.Context, word millstream.Record[string, string]) error {
//				n, _, err := counts.Get(ctx)
//				if err != nil {
//					return err
//				}
//				if err := counts.Put(ctx, n+1); err != nil {
//					return err
//				}
//				return totals.Emit(ctx, word.Key, n+1)
//			})
//		app.Main()
//	}
//
// What a handler writes and emits is committed together with its record, exactly once, whatever crashes. A handler may be
// called more than once for a record; side effects of its own may repeat.
package millstream
