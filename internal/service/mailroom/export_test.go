package mailroom

import (
	"context"

	"github.com/parley-agents/parley/hub"
)

// Second does the work that Run does in every second, without the files.
func (m *Mailroom) Second(ctx context.Context) error {
	for more := true; more; {
		err := hub.Alone(ctx, m.store, "mailroom.delivery", leaseTime, func(store hub.Store) (err error) {
			more, err = m.work(ctx, store)
			return err
		})
		if err != nil {
			return err
		}
	}
	return m.Sweep(ctx)
}

// LateLine is the line of a notice in the list of those that came too fast.
var LateLine = lateLine
