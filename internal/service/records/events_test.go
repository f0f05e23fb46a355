package records_test

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/service/schedule"
)

// A plainVault keeps secrets as they are.
type plainVault struct{}

func (plainVault) Seal(secret, _ string) string { return secret }

func (plainVault) Open(sealed, _ string) (string, error) { return sealed, nil }

// fromOutside adds a source of events and a schedule.
func (s *story) fromOutside(ctx context.Context) {
	s.t.Helper()
	e := event.New(s.store, s.mail, plainVault{}, &event.Options{Clock: s.clock})
	s.must(e.Add(ctx, operator, event.Setting{Name: "hooks", Vendor: hub.VendorGitHub, Secret: "0123456789abcdef", To: "bob"}))
	c := schedule.New(s.store, s.mail, &schedule.Options{Clock: s.clock})
	s.must(c.Add(ctx, operator, schedule.Setting{Every: "1h", Zone: "UTC", To: "bob", Text: "plan the day"}))
}
