package usage

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// The handoff of these tests: ben works on a task that ada handed over.
const (
	parser     hub.HandoffID = "01a1f400-48e0-742d-a122-7d021295b07d"
	parserName               = handoffPrefix + string(parser)
)

// staff makes a team of ada, of which ben was a member, and a handoff from ada to ben.
func (l *till) staff() {
	l.t.Helper()
	l.update(func(tx hub.Tx) error {
		teams := tx.WriteTeamspaces()
		if err := teams.PutTeam(hub.Team{ID: "core", Name: "core", Objective: "x", Lifecycle: hub.TeamActive, CreatedBy: "ada", CreatedAt: at(0), UpdatedAt: at(0)}); err != nil {
			return err
		}
		for _, name := range []hub.AgentID{"ada", "ben"} {
			if err := teams.PutMember(hub.Member{Team: "core", Agent: name, Role: hub.RoleExecutor, Since: at(0), By: hub.Operator, Reason: "joined"}); err != nil {
				return err
			}
		}
		members, err := tx.Teamspaces().Members(hub.MemberQuery{Team: "core", Agent: "ben", Limit: 1})
		if err != nil {
			return err
		}
		members[0].Until = at(10)
		members[0].Ending = "left"
		if err := teams.PutMember(members[0]); err != nil {
			return err
		}

		h := hub.Handoff{
			ID: parser, ThreadID: string(parser), TaskID: "T-1", Title: "the parser", From: "ada", To: "ben", Reason: "requested", InitiatedAt: at(1), Status: hub.HandoffDraft,
			Package: json.RawMessage(`{"task":{"task_id":"T-1"},"provenance":{},"verification":{}}`), Hash: "sha256:" + strings.Repeat("0", 64),
		}
		if err := tx.PutHandoff(h, "", &hub.HandoffStep{State: h.Status, At: at(1), Actor: "ada"}); err != nil {
			return err
		}
		return l.moveHandoff(tx, hub.HandoffProposed, hub.HandoffValidating, hub.HandoffAccepted, hub.HandoffActivated)
	})
}

// moveHandoff moves the handoff through some states.
func (l *till) moveHandoff(tx hub.Tx, states ...hub.HandoffState) error {
	for _, next := range states {
		h, err := tx.Handoff(parser)
		if err != nil {
			return err
		}
		was := h.Status
		if h, err = h.Advance(next, at(2)); err != nil {
			return err
		}
		if next.Ended() {
			h.Ending = hub.EndedDone
		}
		if err := tx.PutHandoff(h, was, &hub.HandoffStep{State: next, At: at(2), Actor: h.To}); err != nil {
			return err
		}
	}
	return nil
}

// spend records calls of an agent, of ten tokens each, that the hub itself has read.
func (l *till) spend(agent hub.AgentID, team hub.TeamID, handoff hub.HandoffID, calls int) {
	l.t.Helper()
	l.update(func(tx hub.Tx) error {
		last, err := tx.Usage().LastRecord()
		if err != nil {
			return err
		}
		for n := range calls {
			u := hub.Usage{
				ModelCall: hub.ModelCall{ID: fmt.Sprint(agent, last, n), At: at(40), Tokens: hub.Tokens{Input: 10}},
				Record:    last + int64(n) + 1, Source: hub.UsageACP, Agent: agent, CLI: "acp", Team: team, Handoff: handoff, Known: true,
			}
			if _, err := tx.WriteUsage().Add(u); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestBoundedAgents has a row for each kind of budget: which agents a spent one stops, and who sees it.
func TestBoundedAgents(t *testing.T) {
	for _, c := range []struct {
		of      string
		before  func(tx hub.Tx, l *till) error
		stopped []hub.AgentID
		seenBy  []hub.AgentID
	}{
		{"hub", nil, agents, agents},
		{"ada", nil, []hub.AgentID{"ada"}, []hub.AgentID{"ada"}},
		{"team:core", nil, []hub.AgentID{"ada"}, nil}, // ben is no member any more
		{parserName, nil, []hub.AgentID{"ben"}, nil},  // ada only asked for it
		{parserName, func(tx hub.Tx, l *till) error {
			return l.moveHandoff(tx, hub.HandoffCompleted)
		}, nil, nil}, // the work has ended
	} {
		t.Run(c.of, func(t *testing.T) {
			l := openTill(t)
			l.staff()
			if _, err := l.set(Limit{Of: c.of, Tokens: 20, Per: hub.PerTotal}); err != nil {
				t.Fatal(err)
			}
			l.spend("ada", "core", "", 2)
			l.spend("ben", "", parser, 2)
			if c.before != nil {
				l.update(func(tx hub.Tx) error { return c.before(tx, l) })
			}

			var stopped, seenBy []hub.AgentID
			for _, name := range agents {
				if l.blocked(name) != "" {
					stopped = append(stopped, name)
				}
				list, err := l.Budgets(t.Context(), hub.Caller{Kind: hub.CallerAgent, ID: name})
				if err != nil {
					t.Fatal(err)
				}
				if len(list.Budgets) > 0 {
					seenBy = append(seenBy, name)
				}
			}
			if !slices.Equal(stopped, c.stopped) {
				t.Errorf("it stops %v, want %v", stopped, c.stopped)
			}
			if !slices.Equal(seenBy, c.seenBy) {
				t.Errorf("%v see it, want %v", seenBy, c.seenBy)
			}
			if list, err := l.Budgets(t.Context(), hub.Caller{ID: hub.Operator, Auditor: true}); err != nil || len(list.Budgets) != 1 || list.Budgets[0].Used < 20 {
				t.Errorf("the operator sees %+v, %v", list, err)
			}
		})
	}
}

// TestRaisedBudget holds that a limit that is raised lets turns begin again, with the same use, and that
// one that is removed does so, too.
func TestRaisedBudget(t *testing.T) {
	l := openTill(t)
	if _, err := l.set(Limit{Of: "ada", Tokens: 20, Per: hub.PerTotal}); err != nil {
		t.Fatal(err)
	}
	l.spend("ada", "", "", 2)
	if l.blocked("ada") == "" {
		t.Fatal("a turn begins after the last one")
	}
	row, err := l.set(Limit{Of: "ada", Tokens: 30, Per: hub.PerTotal})
	if err != nil || row.Used != 20 || row.ID != "b1" || l.blocked("ada") != "" {
		t.Errorf("after the limit was raised: %+v, %v, blocked %q", row, err, l.blocked("ada"))
	}
	l.spend("ada", "", "", 1)
	if l.blocked("ada") == "" {
		t.Error("a turn begins after the raised limit")
	}

	if err := l.RemoveBudget(t.Context(), hub.Caller{ID: "ada"}, "b1"); hub.CodeOf(err) != hub.CodeDenied {
		t.Errorf("an agent removes its own budget: %v", err)
	}
	if err := l.RemoveBudget(t.Context(), hub.Caller{ID: hub.Operator}, "b9"); hub.CodeOf(err) != hub.CodeNotFound {
		t.Errorf("a budget that does not exist: %v", err)
	}
	if err := l.RemoveBudget(t.Context(), hub.Caller{ID: hub.Operator}, "b1"); err != nil || l.blocked("ada") != "" {
		t.Errorf("after the budget was removed: %v, blocked %q", err, l.blocked("ada"))
	}
}

// TestBadBudgets has what is refused, with nothing stored.
func TestBadBudgets(t *testing.T) {
	l := openTill(t)
	for name, c := range map[string]struct {
		by    hub.Caller
		limit Limit
		want  hub.Code
	}{
		"an agent sets one":                {hub.Caller{ID: "ada"}, Limit{Of: "ada", Turns: 1, Per: hub.PerDay}, hub.CodeDenied},
		"an agent that does not exist":     {hub.Caller{ID: hub.Operator}, Limit{Of: "zoe", Turns: 1, Per: hub.PerDay}, hub.CodeNotFound},
		"a team that does not exist":       {hub.Caller{ID: hub.Operator}, Limit{Of: "team:none", Turns: 1, Per: hub.PerDay}, hub.CodeNotFound},
		"two units":                        {hub.Caller{ID: hub.Operator}, Limit{Of: "ada", Turns: 1, Tokens: 1, Per: hub.PerDay}, hub.CodeInvalid},
		"no unit":                          {hub.Caller{ID: hub.Operator}, Limit{Of: "ada", Per: hub.PerDay}, hub.CodeInvalid},
		"a negative limit":                 {hub.Caller{ID: hub.Operator}, Limit{Of: "ada", Turns: -1, Per: hub.PerDay}, hub.CodeInvalid},
		"a period that is not known":       {hub.Caller{ID: hub.Operator}, Limit{Of: "ada", Turns: 1, Per: "week"}, hub.CodeInvalid},
		"another word for unpriced models": {hub.Caller{ID: hub.Operator}, Limit{Of: "ada", Money: 1, Per: hub.PerDay, Unpriced: "yes"}, hub.CodeInvalid},
	} {
		if _, err := l.SetBudget(t.Context(), c.by, c.limit); hub.CodeOf(err) != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	if list, err := l.Budgets(t.Context(), hub.Caller{ID: hub.Operator, Auditor: true}); err != nil || len(list.Budgets) != 0 {
		t.Errorf("refused budgets are stored: %+v, %v", list, err)
	}
}
