package continuation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A crew says how agents are, and notes to which of them tasks are forwarded.
type crew struct {
	Agents
	Handoffs
	kept      Kept // builder
	blocked   hub.AgentID
	off       hub.AgentID
	begun     []hub.AgentID // stand-ins
	forwarded []string
}

func (c *crew) Kept(_ context.Context, agent hub.AgentID) (Kept, bool, error) {
	if agent == "builder" {
		return c.kept, true, nil
	}
	return Kept{}, false, nil
}
func (c *crew) StandInName(_ context.Context, of hub.AgentID, cli string) (hub.AgentID, error) {
	return of + "-" + hub.AgentID(cli), nil
}
func (c *crew) StandIn(_ context.Context, of hub.AgentID, p Program) error {
	c.begun = append(c.begun, of+"-"+hub.AgentID(p.CLI))
	return nil
}
func (c *crew) Dismiss(_ context.Context, agent hub.AgentID) error {
	c.begun = slices.DeleteFunc(c.begun, func(a hub.AgentID) bool { return a == agent })
	return nil
}
func (c *crew) Blocked(_ context.Context, agent hub.AgentID) string {
	if agent == c.blocked {
		return "its budget is spent"
	}
	return ""
}
func (c *crew) Off(_ context.Context, agent hub.AgentID) string {
	if agent == c.off {
		return "it is paused"
	}
	return ""
}
func (c *crew) Forward(_ context.Context, _ hub.Caller, h hub.Handoff, to hub.AgentID, why string) error {
	c.forwarded = append(c.forwarded, fmt.Sprintf("%s to %s: %s", h.TaskID, to, why))
	return nil
}

// A task that an agent was offered goes to its first successor that may have it, when the agent stops and
// while it rests.
func TestForward(t *testing.T) {
	now := hub.At(time.Date(2026, 11, 19, 9, 0, 0, 0, time.UTC))
	later := now.Add(3 * time.Hour)
	const why = ": builder is out of quota until 2026-11-19T12:00:00.000Z; the task is offered to "
	for name, tt := range map[string]struct {
		kept   Kept
		crew   crew
		offer  func(h *hub.Handoff)
		want   string
		atRest string // if it differs
	}{
		"the first successor gets it":                                   {kept: Kept{Or: []string{"next", "tester"}, Reason: hub.ContinueQuota, Until: later}, want: "T-2 to builder-next" + why + "builder-next"},
		"an agent of the hub gets it":                                   {kept: Kept{Or: []string{"tester"}, Reason: hub.ContinueQuota, Until: later}, want: "T-2 to tester" + why + "tester"},
		"a successor without budget is passed over":                     {kept: Kept{Or: []string{"next", "tester"}, Reason: hub.ContinueQuota, Until: later}, crew: crew{blocked: "builder-next"}, want: "T-2 to tester" + why + "tester"},
		"a paused successor is passed over":                             {kept: Kept{Or: []string{"tester", "next"}, Reason: hub.ContinueQuota, Until: later}, crew: crew{off: "tester"}, want: "T-2 to builder-next" + why + "builder-next"},
		"its sender does not get it back":                               {kept: Kept{Or: []string{"planner", "tester"}, Reason: hub.ContinueQuota, Until: later}, want: "T-2 to tester" + why + "tester"},
		"an agent that still is out of quota is no successor of itself": {kept: Kept{Or: []string{Self, "tester"}, Reason: hub.ContinueQuota, Until: later}, want: "T-2 to tester" + why + "tester"},

		"an agent that goes on by itself answers itself, unless it rests": {kept: Kept{Or: []string{Self, "tester"}, Reason: hub.ContinueContext}, atRest: "T-2 to tester: builder has a full context; the task is offered to tester"},
		"an agent whose quota is full soon answers itself":                {kept: Kept{Or: []string{"tester"}, Reason: hub.ContinueQuota, Until: now.Add(time.Minute)}},
		"an agent that a person closed answers itself":                    {kept: Kept{Or: []string{"tester"}, Reason: hub.ContinueClosed}},
		"an agent without successors keeps its offers":                    {kept: Kept{Reason: hub.ContinueQuota, Until: later}},
		"a restricted task needs the operator":                            {kept: Kept{Or: []string{"tester"}, Reason: hub.ContinueQuota, Until: later}, offer: func(h *hub.Handoff) { h.Restricted = true }},
		"a task that waits for an approval waits":                         {kept: Kept{Or: []string{"tester"}, Reason: hub.ContinueQuota, Until: later}, offer: func(h *hub.Handoff) { h.NeedsHuman = true }},
		"a successor that cannot be the next one gets no folder":          {kept: Kept{Or: []string{"next"}, Reason: hub.ContinueQuota, Until: later}, crew: crew{blocked: "builder-next"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := storetest.Open(t, t.TempDir())
			h := hub.Handoff{
				ID: "01a1f400-48e0-742d-a122-7d021295b07d", ThreadID: "01a1f400-48e0-742d-a122-7d021295b07d", TaskID: "T-2", Title: "test the parser", From: "planner", To: "builder",
				Reason: "requested", Package: json.RawMessage(`{"task":{"task_id":"T-2"},"provenance":{},"verification":{}}`), Hash: "sha256:" + strings.Repeat("0", 64), Status: hub.HandoffDraft, InitiatedAt: now,
			}
			if tt.offer != nil {
				tt.offer(&h)
			}
			err := store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
				for _, agent := range []hub.AgentID{"planner", "builder", "tester"} {
					if err := tx.PutAgent(hub.Agent{ID: agent, Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: now}, ""); err != nil {
						return err
					}
				}
				if err := tx.PutHandoff(h, "", &hub.HandoffStep{State: h.Status, At: now, Actor: h.From}); err != nil {
					return err
				}
				h.Status = hub.HandoffProposed
				return tx.PutHandoff(h, hub.HandoffDraft, &hub.HandoffStep{State: h.Status, At: now, Actor: h.From})
			})
			if err != nil {
				t.Fatal(err)
			}

			for _, when := range []string{"it stops", "it rests"} {
				c := tt.crew
				c.kept = tt.kept
				s := New(store, Parts{Handoffs: &c, Agents: &c}, &Options{Clock: func() time.Time { return now.Time }})
				if when == "it stops" {
					if _, err := s.Stop(t.Context(), Cause{Agent: "builder", Reason: tt.kept.Reason, Until: tt.kept.Until}); err != nil {
						t.Fatal(err)
					}
				} else {
					c.kept.Rests = true
					s.forwardRest(t.Context())
				}
				got := ""
				if len(c.forwarded) > 0 {
					got = c.forwarded[0]
				}
				want := tt.want
				if when == "it rests" && tt.atRest != "" {
					want = tt.atRest
				}
				if got != want || len(c.forwarded) > 1 {
					t.Errorf("when %s: got %q, want %q", when, c.forwarded, want)
				}
				if c.blocked != "" && slices.Contains(c.begun, c.blocked) {
					t.Errorf("when %s: %q began to work", when, c.begun)
				}
			}
		})
	}
	t.Run("an agent that does not rest answers itself", func(t *testing.T) {
		c := crew{kept: Kept{Or: []string{"tester"}}}
		s := New(storetest.Open(t, t.TempDir()), Parts{Handoffs: &c, Agents: &c}, nil)
		s.forwardRest(t.Context())
		if len(c.forwarded) > 0 {
			t.Errorf("got %q", c.forwarded)
		}
	})
}
