package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// An Ending is the end of a run, on the wire, too: its state, its report and the result
// of the check.
type Ending struct {
	State          hub.RunState        `json:"state"` // done, failed or interrupted
	StopReason     string              `json:"stop_reason,omitempty"`
	Reason         string              `json:"reason,omitempty"`
	Report         json.RawMessage     `json:"report,omitempty"` // null or nil if there is none
	Verdict        hub.RunVerdict      `json:"verdict"`
	Contradictions []hub.Contradiction `json:"contradictions,omitempty"`
	Evidence       json.RawMessage     `json:"evidence,omitempty"` // null or nil if nothing was compared
}

// Finish records the end of a run, withdraws the key that it lent, and sends the
// message about its end. The actor is the author of the verdict, see [hub.Run.Judged].
// Finishing again changes nothing.
func (s *Service) Finish(ctx context.Context, actor hub.Caller, id hub.RunID, e Ending) (hub.Run, error) {
	const op = "run.Finish"
	if err := e.check(op); err != nil {
		return hub.Run{}, err
	}
	return s.finishIn(ctx, s.store, op, actor, id, e)
}

// finishIn is Finish in a store, which may be one for the holder of a lease.
func (s *Service) finishIn(ctx context.Context, store hub.Store, op string, actor hub.Caller, id hub.RunID, e Ending) (hub.Run, error) {
	var r hub.Run
	var msg hub.Message
	again := false
	err := store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if r, err = writable(tx, op, actor, id); err != nil {
			return err
		}
		if again = r.State.Over(); again {
			return nil
		}
		r, msg, err = s.finish(tx, actor, r, e)
		return err
	})
	if err != nil {
		return hub.Run{}, fmt.Errorf("run: finish: %w", err)
	}
	if !again {
		s.keys.Changed()
		s.sender.Announce(msg)
	}
	return r, nil
}

func (e Ending) check(op string) error {
	switch {
	case !e.State.Over():
		return hub.Errorf(hub.CodeInvalid, op, "state must be done, failed or interrupted, got %q", e.State)
	case !e.Verdict.Known():
		return hub.Errorf(hub.CodeInvalid, op, "verdict must be confirmed, contradicted or unverified, got %q", e.Verdict)
	case len(e.Report) > maxReport || len(e.Evidence) > maxEvidence:
		return hub.Errorf(hub.CodeTooLarge, op, "report must be at most %d bytes, evidence at most %d; got %d and %d", maxReport, maxEvidence, len(e.Report), len(e.Evidence))
	case len(e.StopReason) > maxText || len(e.Reason) > maxText:
		return hub.Errorf(hub.CodeTooLarge, op, "stop_reason and reason must be at most %d bytes each", maxText)
	case len(e.Contradictions) > maxClaims:
		return hub.Errorf(hub.CodeTooLarge, op, "too many contradictions: %d, at most %d are allowed", len(e.Contradictions), maxClaims)
	case e.State == hub.RunDone && isNull(e.Report):
		return hub.Errorf(hub.CodeInvalid, op, "report is required when the state is done")
	case e.Verdict == hub.RunContradicted && len(e.Contradictions) == 0:
		return hub.Errorf(hub.CodeInvalid, op, "verdict contradicted needs at least one contradiction")
	}
	return nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// finish ends a run inside tx. The run passes through the states between its own
// and the last one, each with its journal entry.
func (s *Service) finish(tx hub.Tx, actor hub.Caller, r hub.Run, e Ending) (hub.Run, hub.Message, error) {
	was, now := r.State, s.clock.Now()
	for !r.State.CanBecome(e.State) {
		next := hub.RunRunning
		if r.State == hub.RunRunning {
			next = hub.RunChecking
		}
		moved, err := r.Advance(next, now)
		if err != nil {
			return r, hub.Message{}, err
		}
		if err := tx.PutRun(moved, was); err != nil {
			return r, hub.Message{}, err
		}
		r, was = moved, next
		if err := record(tx, actor, now, r); err != nil {
			return r, hub.Message{}, err
		}
	}

	r, err := r.Advance(e.State, now)
	if err != nil {
		return r, hub.Message{}, err
	}
	refused, err := refusedCompletions(tx, r, e)
	if err != nil {
		return r, hub.Message{}, err
	}
	if len(refused) > 0 {
		e.Verdict = hub.RunContradicted
		e.Contradictions = append(slices.Clip(e.Contradictions), refused...)
	}
	r = r.Judged(e.Verdict, actor.ID)
	r.StopReason, r.Reason = e.StopReason, e.Reason
	r.Contradictions = e.Contradictions
	if r.Report, r.Evidence = e.Report, e.Evidence; isNull(r.Report) {
		r.Report = nil
	}
	if isNull(r.Evidence) {
		r.Evidence = nil
	}

	// The key that the run was lent ends with it.
	if err := s.keys.Withdraw(tx, actor, r.Agent, label(r.ID)); err != nil {
		return r, hub.Message{}, err
	}
	msg, err := s.announce(tx, actor, r)
	if err != nil {
		return r, hub.Message{}, err
	}

	r.Message = msg.ID
	if err := tx.PutRun(r, was); err != nil {
		return r, hub.Message{}, err
	}
	return r, msg, record(tx, actor, now, r)
}

// refusedCompletion is the kind of a contradiction about a task that the agent could not complete.
const refusedCompletion = "refused_completion"

// maxTasks is the most active tasks of an agent that the end of its run looks at.
const maxTasks = 50

// refusedCompletions returns a contradiction for each task whose completion the hub refused during
// the run, if the report says that the work is done.
func refusedCompletions(r hub.Reader, of hub.Run, e Ending) (found []hub.Contradiction, err error) {
	var c claim
	if json.Unmarshal(e.Report, &c) != nil || messageFor[c.Status] != hub.TypeStatusComplete {
		return nil, nil
	}
	tasks, err := r.Handoffs(hub.HandoffQuery{To: of.Agent, States: []hub.HandoffState{hub.HandoffActivated}, Limit: maxTasks})
	for _, h := range tasks {
		if err != nil {
			return nil, err
		}
		p, err := r.Checks().Progress(string(h.ID))
		if err != nil {
			return nil, err
		}
		if p.RefusedAt.IsZero() || p.RefusedAt.Before(of.StartedAt.Time) {
			continue
		}
		short, err := r.ShortID(string(h.ID))
		if err != nil {
			return nil, err
		}
		reason := p.Reason
		if h.Restricted {
			reason = hub.RestrictedText
		}
		found = append(found, hub.Contradiction{
			Kind: refusedCompletion, Claim: "status: " + c.Status, Found: fmt.Sprintf("the hub refused the completion of %s: %s", cmp.Or(short, hub.ShortID(h.ID)), reason),
		})
	}
	return found, err
}

// A claim is the part of a report that the hub reads.
type claim struct {
	Status string `json:"status"`
	Error  string `json:"error"`
}

// messageFor is the type of the message for each status of a report. Any other
// status makes a status.update.
var messageFor = map[string]hub.MessageType{
	"ok":             hub.TypeStatusComplete,
	"no_changes":     hub.TypeStatusComplete,
	"fail":           hub.TypeStatusBlocked,
	"rejected":       hub.TypeStatusBlocked,
	"fixture_gap":    hub.TypeStatusBlocked,
	"needs_decision": hub.TypeStatusBlocked,
}

// announce writes the message about the end of a run, to the agent that began the
// run and to the sender of its handoff. The message is from the hub, unless the
// agent of the run ends the run itself: only an agent speaks for itself.
func (s *Service) announce(tx hub.Tx, actor hub.Caller, r hub.Run) (hub.Message, error) {
	var c claim
	if r.Report != nil {
		if err := json.Unmarshal(r.Report, &c); err != nil {
			return hub.Message{}, hub.Errorf(hub.CodeInvalid, "run.Finish", "report is not a JSON object: %v", err)
		}
	}

	t := cmp.Or(messageFor[c.Status], hub.TypeStatusUpdate)
	if r.Report == nil {
		t = hub.TypeStatusBlocked
	}
	policy := hub.DefaultPolicy
	if c.Status == "needs_decision" {
		policy.HumanGate = hub.GateRequired
	}

	// The agent that began the run hears of its end; if it is the agent of the run, the operator
	// does.
	to := []hub.AgentID{r.By}
	if r.By == r.Agent {
		to[0] = hub.Operator
	}

	if r.Handoff != "" {
		h, err := tx.Handoff(r.Handoff)
		if err != nil {
			return hub.Message{}, err
		}
		if h.From != to[0] && h.From != r.Agent {
			to = append(to, h.From)
		}
		// The text of a restricted handoff stays out of the message.
		if h.Restricted {
			policy.Sensitivity = hub.SensitivityHigh
			r, c.Error = r.Withheld(), ""
		}
	}

	from := hub.Caller{ID: hub.Self}
	if actor.ID == r.Agent {
		from.ID = r.Agent
	}
	return s.sender.Post(tx, from, hub.Envelope{
		To: to, Type: t, ThreadID: r.ThreadID, Priority: hub.PriorityNormal, Payload: payload(t, r, c), Policy: policy,
	}, false)
}

// payload describes the end of a run, with as much of the evidence as a message
// holds. Every text is shortened to a number of bytes that leaves room for the rest.
func payload(t hub.MessageType, r hub.Run, c claim) json.RawMessage {
	status := cmp.Or(c.Status, r.Reason, string(r.State))
	p := map[string]any{
		"summary": shorten.Line(fmt.Sprintf("%s, %s: %s", status, r.VerdictText(), r.Task), 270),
		"run_id":  r.ID, "agent": r.Agent, "state": r.State, "verdict": r.Verdict, "verdict_by": r.VerdictBy, "stop_reason": shorten.Text(r.StopReason, 200),
	}

	if r.VerdictNote != "" {
		p["verdict_note"] = r.VerdictNote
	}
	if r.Handoff != "" {
		p["handoff_id"] = r.Handoff
	}

	if t == hub.TypeStatusBlocked {
		p["reason"] = cmp.Or(shorten.Line(c.Error, 600), shorten.Line(r.Reason, 600), status)
	} else if c.Error != "" {
		p["detail"] = shorten.Text(c.Error, 600)
	}
	if c.Status == "decomposed" {
		p["detail"] = strings.TrimSpace("the agent split the task; the run's report lists the parts, which the hub offers to no agent. " + shorten.Text(c.Error, 400))
	}

	if n := len(r.Contradictions); n > 0 {
		p["contradictions"] = r.Contradictions[:min(n, 3)]
		p["contradictions_total"] = n
	}
	if r.Evidence != nil && r.Verdict != hub.RunClaimed { // evidence that an agent wrote is none
		p["evidence"] = summarize(r.Evidence)
	}

	// A payload that is too large loses members until it fits.
	for _, name := range []string{"evidence", "contradictions", "detail"} { // the least important first
		if raw := encode(p); len(raw) <= hub.MaxPayload {
			return raw
		}
		delete(p, name)
	}
	return encode(p)
}

// encode encodes plain values, which cannot fail.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

// An evidenceSummary is the part of the evidence that a message carries: hashes and
// figures, no names and no output.
type evidenceSummary struct {
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	Diff   struct {
		Files      int `json:"files"`
		Insertions int `json:"insertions"`
		Deletions  int `json:"deletions"`
	} `json:"diff"`
	Verify *commandSummary `json:"verify,omitempty"`
	Build  *commandSummary `json:"build,omitempty"`
}

type commandSummary struct {
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	TimedOut bool   `json:"timed_out"`
	Digest   string `json:"output_digest"`
}

// summarize returns the summary of evidence, nil if it has another form.
func summarize(evidence json.RawMessage) any {
	var s evidenceSummary
	if json.Unmarshal(evidence, &s) != nil {
		return nil
	}
	for _, c := range []*commandSummary{s.Verify, s.Build} {
		if c != nil {
			c.Command = shorten.Text(c.Command, 300)
		}
	}
	return s
}

// expireEvery is the time between two searches for runs whose time is over. No run ends
// its time between two of them unseen: a new one has at least slack.
const expireEvery = time.Minute

// Run ends runs whose time is over, until ctx ends: their owner did not report an
// end.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		if err := s.expire(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot end overdue runs", "op", "run.Run", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// expire ends the runs whose time is over, a page at a time.
func (s *Service) expire(ctx context.Context) error {
	return hub.Alone(ctx, s.store, "run.expire", 2*expireEvery, func(store hub.Store) error {
		for {
			late, err := s.overdue(ctx)
			if err != nil {
				return err
			}
			for _, id := range late {
				if _, err := s.finishIn(ctx, store, "run.expire", hub.Caller{ID: hub.Self, Auditor: true}, id, Ending{
					State: hub.RunInterrupted, Reason: hub.RunLost, Verdict: hub.RunUnverified,
				}); err != nil {
					return err
				}
			}
			if len(late) < maxPage {
				return nil
			}
		}
	})
}

// overdue returns a page of the runs whose time is over.
func (s *Service) overdue(ctx context.Context) ([]hub.RunID, error) {
	var late []hub.RunID
	now := s.clock.Now()
	err := s.store.View(ctx, func(r hub.Reader) error {
		late = nil
		open, err := r.Runs(hub.RunQuery{Open: true, Limit: maxPage})
		for _, run := range open {
			if run.ExpiresAt.Before(now.Time) {
				late = append(late, run.ID)
			}
		}
		return err
	})
	return late, err
}
