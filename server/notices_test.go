//go:build unix

package server_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/testing/pgtest"
)

// Hubs on one database tell a target once, also when one of them ends.
func TestNoticesOfHubsOnOneDatabase(t *testing.T) {
	t.Parallel()
	told := newReceiver(t)
	o := quiet()
	o.Store = pgtest.Address(t)
	told.tell(&o)
	a := start(t, o)
	b := furtherHub(t, a, o)
	ada := a.add(t, "ada", "bob")[0]
	hold := func(r *running, text string) hub.EnvelopeID {
		t.Helper()
		return mustCall(t, r.as(ada), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: text, Policy: json.RawMessage(`{"human_gate":"required"}`)}).ID
	}
	once := func(ids ...hub.EnvelopeID) {
		t.Helper()
		for _, id := range ids {
			part := `"kind":"held","id":"` + string(id)
			eventually(t, "people are told of "+string(id), func() bool { return told.count(part) > 0 })
		}
		for _, id := range ids { // the last was told after all others
			if n := told.count(`{"kind":"held","id":"` + string(id)); n != 1 {
				t.Errorf("people were told of %s %d times, want once", id, n)
			}
		}
	}
	var ids []hub.EnvelopeID
	for i := range 6 {
		ids = append(ids, hold([]*running{a, b}[i%2], fmt.Sprint("may I ", i)))
	}
	once(ids...)
	// A notice whose outcome is not stored when its hub ends is sent again, under its id.
	eventually(t, "the outcome is stored", func() bool {
		return mustCall(t, b.as(b.operator), api.ListTargets, api.None{}).Targets[0].Waiting == 0
	})
	a.stop()
	once(append(ids, hold(b, "and now"))...)
}
