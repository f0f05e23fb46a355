package continuation

import (
	"slices"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

// TestTable compares the table of the service with the state machine of continuations.
func TestTable(t *testing.T) {
	states := []hub.ContinuationState{waiting, offered, taken, refused}
	now := hub.At(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	may := func(from, to hub.ContinuationState) bool {
		_, err := hub.Continuation{State: from}.Advance(to, now)
		return err == nil
	}
	t.Run("each act leads to states that the machine allows", func(t *testing.T) {
		for _, r := range rows {
			for _, next := range r.next {
				isNew := r.state == none && next == waiting
				if !isNew && next != r.state && !may(r.state, next) {
					t.Errorf("%s, %s: %s is no move", r.state, r.on, next)
				}
			}
		}
	})
	t.Run("each move of the machine has an occasion", func(t *testing.T) {
		// A continuation of a person that goes on at once is offered or taken by Continue itself.
		for _, from := range states {
			for _, to := range states {
				isUnused := from == waiting && to == refused // kept for stores of before
				if from == to || !may(from, to) || isUnused {
					continue
				}
				if !slices.ContainsFunc(rows, func(r row) bool { return r.state == from && slices.Contains(r.next, to) }) {
					t.Errorf("nothing moves a continuation from %s to %s", from, to)
				}
			}
		}
	})
	t.Run("a state has one act on an occasion", func(t *testing.T) {
		seen := map[string]bool{}
		for _, r := range rows {
			key := string(r.state) + " " + string(r.on)
			if seen[key] {
				t.Errorf("two rows for %s", key)
			}
			seen[key] = true
		}
	})
	t.Run("a task that was taken is never moved again, and an offered one only by its handoff", func(t *testing.T) {
		for _, r := range rows {
			isMove := slices.ContainsFunc(r.next, func(next hub.ContinuationState) bool { return next != r.state })
			isByHandoff := r.on == isAccepted || r.on == isRejected
			if isMove && (r.state == taken || (r.state == offered && !isByHandoff)) {
				t.Errorf("%s moves on %q", r.state, r.on)
			}
		}
	})
	t.Run("an occasion without a row does nothing", func(t *testing.T) {
		for _, c := range []struct {
			state hub.ContinuationState
			on    occasion
		}{{offered, agentStops}, {offered, personAsks}, {taken, timeComes}, {waiting, isAccepted}, {refused, isRejected}, {taken, goesOn}, {refused, agentReturns}} {
			if got := actOn(c.state, c.on); got != "" {
				t.Errorf("%s, %s: got %s", c.state, c.on, got)
			}
		}
	})
}
