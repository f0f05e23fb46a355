package handoff

import (
	"encoding/json"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Seal completes a package as Initiate does.
func Seal(raw json.RawMessage) (json.RawMessage, error) {
	s := New(nil, nil, &Options{Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	p, err := s.build("handoff.Seal", hub.Caller{ID: "planner"}, raw)
	if err != nil {
		return nil, err
	}
	sealed, _, err := p.seal([]hub.AgentID{"planner"})
	return sealed, err
}
