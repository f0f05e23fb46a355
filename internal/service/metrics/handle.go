package metrics

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// handle counts one entry. An entry whose facts have another form is left out.
func (st *state) handle(r hub.Reader, e hub.Entry) error {
	var f facts
	if len(e.Facts) > 0 && json.Unmarshal(e.Facts, &f) != nil {
		return nil
	}
	observed := st.observe(e, f)
	if e.Action == actions.HandoffProposed {
		more, err := completeness(r, hub.HandoffID(e.Subject), f.to())
		if err != nil {
			return err
		}
		observed = append(observed, more...)
	}
	for _, o := range observed {
		if o.n == 0 {
			o.n = 1
		}
		o.scopes = named(o.scopes)
		if err := st.count(r, e.At, o); err != nil {
			return err
		}
	}
	return nil
}

// completeness counts the optional parts of a package's context. A package never
// changes, so a replay finds the same.
func completeness(r hub.Reader, id hub.HandoffID, to string) ([]observation, error) {
	h, err := r.Handoff(id)
	if err != nil {
		if hub.CodeOf(err) == hub.CodeNotFound {
			err = nil
		}
		return nil, err
	}
	var p struct {
		Context struct {
			Constraints []json.RawMessage `json:"constraints"`
			Assumptions []json.RawMessage `json:"assumptions"`
			Questions   []json.RawMessage `json:"open_questions"`
			Risks       []json.RawMessage `json:"known_risks"`
		} `json:"context"`
	}
	if json.Unmarshal(h.Package, &p) != nil {
		return nil, nil // a package of another form is not counted
	}
	var out []observation
	for _, list := range [][]json.RawMessage{p.Context.Constraints, p.Context.Assumptions, p.Context.Questions, p.Context.Risks} {
		word := "filled"
		if len(list) == 0 {
			word = "empty"
		}
		out = append(out, observation{key: "handoff_context_total|" + word, scopes: []string{to}})
	}
	return out, nil
}

// named returns the scopes that are not empty.
func named(scopes []string) (out []string) {
	for _, s := range scopes {
		if s != "" && s != teamScope("") {
			out = append(out, s)
		}
	}
	return out
}

// begin notes an open thing.
func (st *state) begin(id string, o open) {
	if _, known := st.Open[id]; known || len(st.Open) < maxOpen {
		o.Scopes = named(o.Scopes)
		st.Open[id] = o
	}
}

// end forgets an open thing. It returns the seconds since it began, or nil if it is not
// known.
func (st *state) end(id string, at hub.Time) (o open, seconds *float64) {
	o, ok := st.Open[id]
	if !ok {
		return o, nil
	}
	delete(st.Open, id)
	s := max(at.Sub(o.At.Time).Seconds(), 0)
	return o, &s
}

// timed returns an observation of a distribution, or none if the time is not known.
func timed(key string, seconds *float64, scopes []string) []observation {
	if seconds == nil {
		return nil
	}
	return []observation{{key: key, seconds: seconds, scopes: scopes}}
}

// observers has what each action of the journal adds to the figures. Other actions add
// nothing.
var observers = map[actions.Action]func(*state, hub.Entry, facts) []observation{
	actions.HandoffProposed: func(st *state, e hub.Entry, f facts) []observation {
		st.begin("h/"+e.Subject, open{Kind: "handoff", At: e.At})
		return one("handoffs_total|proposed", f.to())
	},
	actions.HandoffAccepted: func(st *state, e hub.Entry, f facts) []observation {
		_, took := st.end("h/"+e.Subject, e.At)
		return append(one("handoffs_total|accepted", f.to()), timed("handoff_acceptance_seconds", took, []string{f.to()})...)
	},
	actions.HandoffRejected: func(st *state, e hub.Entry, f facts) []observation {
		st.end("h/"+e.Subject, e.At)
		return append(one("handoffs_total|rejected", f.to()), one("handoff_rejections_total|"+label(f.Reject), f.to())...)
	},
	actions.HandoffCompleted: func(_ *state, _ hub.Entry, f facts) []observation {
		return append(one("handoffs_total|completed", f.to()), one("handoff_proofs_total|"+label(string(f.Proof)), f.to())...)
	},
	actions.HandoffClosed: func(st *state, e hub.Entry, f facts) []observation {
		st.end("h/"+e.Subject, e.At)
		if f.Ending != hub.EndedWithdrawn {
			return nil
		}
		return one("handoffs_total|withdrawn", f.to())
	},
	actions.HandoffEscalated: func(_ *state, _ hub.Entry, f facts) []observation { return one("handoffs_total|late", f.to()) },

	actions.MessageHeld: func(st *state, e hub.Entry, _ facts) []observation {
		return st.held("m/"+e.Subject, e, string(e.Actor))
	},
	actions.MessageApproved: func(st *state, e hub.Entry, _ facts) []observation {
		return st.judged("m/"+e.Subject, e, "approved")
	},
	actions.MessageDenied: func(st *state, e hub.Entry, _ facts) []observation {
		return st.judged("m/"+e.Subject, e, "denied")
	},

	actions.TeamHeld: func(st *state, e hub.Entry, f facts) []observation {
		return st.held("t/"+f.ID, e, string(e.Actor), teamOf(e))
	},
	actions.TeamGate: func(st *state, e hub.Entry, f facts) []observation {
		return st.judged("t/"+f.ID, e, label(f.Verdict))
	},
	actions.TeamTask:     (*state).task,
	actions.TeamConflict: (*state).conflict,
	actions.TeamRole: func(_ *state, e hub.Entry, f facts) []observation {
		if f.Status != "changed" {
			return nil
		}
		return one("role_changes_total|"+label(f.Reason), f.Agent, teamOf(e))
	},

	actions.Refused: func(_ *state, e hub.Entry, f facts) []observation {
		return []observation{{key: "refusals_total|" + label(f.Code), n: f.Count, scopes: []string{string(e.Actor)}}}
	},
	actions.MessageDelivered: func(_ *state, e hub.Entry, _ facts) []observation {
		by := string(e.Actor)
		return append(one("deliveries_total|inbox|delivered", by), timed("delivery_seconds|inbox", sinceSent(e), []string{by})...)
	},
	actions.MessageRead: func(_ *state, e hub.Entry, _ facts) []observation {
		return one("deliveries_total|inbox|read", string(e.Actor))
	},
	actions.MessageExpired: func(_ *state, _ hub.Entry, f facts) []observation {
		if f.Missed == 0 {
			return nil
		}
		return []observation{{key: "deliveries_total|inbox|expired", n: f.Missed}}
	},
	actions.DeliveryMoved: (*state).moved,

	actions.RunDone: func(_ *state, _ hub.Entry, f facts) []observation {
		return one("runs_total|"+label(f.Verdict), f.Agent)
	},
	actions.RunFailed:      func(_ *state, _ hub.Entry, f facts) []observation { return one("runs_total|failed", f.Agent) },
	actions.RunInterrupted: func(_ *state, _ hub.Entry, f facts) []observation { return one("runs_total|interrupted", f.Agent) },
}

// one returns an observation that counts 1.
func one(key string, scopes ...string) []observation {
	return []observation{{key: key, scopes: scopes}}
}

// observe returns the observations of an entry, and moves the open things.
func (st *state) observe(e hub.Entry, f facts) []observation {
	if observer, ok := observers[e.Action]; ok {
		return observer(st, e, f)
	}
	return nil
}

// conflict observes a conflict of versions. An entry that does not change its state, such as
// a merge that waits for its signature, counts nothing.
func (st *state) conflict(e hub.Entry, f facts) []observation {
	id := fmt.Sprintf("c/%s/%s/%d", e.Subject, f.Artifact, f.Version)
	was, known := st.Open[id]
	if !known {
		was = open{Kind: "conflict", At: e.At}
	}
	if was.State == f.State {
		return nil
	}
	was.State = f.State
	st.begin(id, was)

	out := one("conflicts_total|"+label(f.State), teamOf(e))
	switch hub.MergeState(f.State) {
	case hub.MergeResolved:
		_, took := st.end(id, e.At)
		out = append(out, timed("conflict_resolution_seconds", took, []string{teamOf(e)})...)
	case hub.MergeAbandoned:
		st.end(id, e.At)
	}
	return out
}

// label returns a word as the value of a label.
func label(word string) string {
	if word == "" {
		return "none"
	}
	return strings.ReplaceAll(word, "|", "/")
}

func (st *state) held(id string, e hub.Entry, scopes ...string) []observation {
	st.begin(id, open{Kind: "gate", At: e.At, Scopes: scopes})
	return []observation{{key: "gated_total|held", scopes: scopes}}
}

func (st *state) judged(id string, e hub.Entry, verdict string) []observation {
	o, waited := st.end(id, e.At)
	return append([]observation{{key: "gated_total|" + verdict, scopes: o.Scopes}}, timed("gate_wait_seconds", waited, o.Scopes)...)
}

// teamOf returns the scope of the team that an entry is about.
func teamOf(e hub.Entry) string {
	_, id, _ := strings.Cut(e.Subject, "/")
	return teamScope(hub.TeamID(id))
}

// task counts a task that was stored. It begins when it is first in progress.
func (st *state) task(e hub.Entry, f facts) []observation {
	id := "task/" + f.TaskID
	was, known := st.Open[id]
	now := open{Kind: "task", At: was.At, State: f.State, Scopes: []string{f.Owner, teamOf(e)}}
	if now.At.IsZero() && hub.TaskState(f.State) == hub.TaskInProgress {
		now.At = e.At
	}
	if hub.TaskState(f.State) == hub.TaskBlocked {
		now.Reason, now.Blocked = label(f.Reason), e.At
		if was.State == f.State {
			now.Blocked = was.Blocked
		}
	}
	var out []observation
	if !known || was.State != f.State {
		out = []observation{{key: "task_moves_total|" + label(f.State), scopes: now.Scopes}}
	}
	if !hub.TaskState(f.State).Over() {
		st.begin(id, now)
		return out
	}
	_, took := st.end(id, e.At)
	if was.At.IsZero() || hub.TaskState(f.State) != hub.TaskDone {
		took = nil // it was dropped, or never in progress
	}
	return append(out, timed("task_cycle_seconds|"+label(f.Class), took, now.Scopes)...)
}

// sinceSent returns the seconds since the message of an entry was sent.
func sinceSent(e hub.Entry) *float64 {
	id := hub.EnvelopeID(e.Subject)
	if !id.Valid() {
		return nil
	}
	s := max(e.At.Sub(id.Time().Time).Seconds(), 0)
	return &s
}

// moved counts a step of a delivery over another channel than the inbox. The messages of
// one attempt move together; the attempt counts once.
func (st *state) moved(e hub.Entry, f facts) []observation {
	to := []string{f.Recipient}
	out := []observation{{key: "deliveries_total|" + label(f.Channel) + "|" + label(f.State), scopes: to}}
	switch f.State {
	case "offered", "accepted", "turn_started":
		out = append(out, timed("delivery_seconds|"+label(f.Channel), sinceSent(e), to)...)
	}
	if attempt := f.Wake + " " + f.State; f.Wake != "" && attempt != st.Wake {
		st.Wake = attempt
		out = append(out, observation{key: "wakes_total|" + label(f.Mechanism) + "|" + label(f.State), scopes: to})
		if f.State == "turn_started" {
			out = append(out, observation{key: "turns_total", scopes: to})
		}
	}
	return out
}
