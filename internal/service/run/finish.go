package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
)

// An Ending is how a run ended and what was found.
type Ending struct {
	State          hub.RunState // done, failed or interrupted
	StopReason     string
	Reason         string
	Report         json.RawMessage // null or nil if there is none
	Verdict        hub.RunVerdict
	Contradictions []hub.Contradiction
	Evidence       json.RawMessage // null or nil if nothing was looked at
}

// Finish records how a run ended, ends the key that it lent, and tells who wanted
// it done. Finishing again changes nothing.
func (s *Service) Finish(ctx context.Context, actor hub.Caller, id hub.RunID, e Ending) (hub.Run, error) {
	const op = "run.Finish"
	if err := e.check(op); err != nil {
		return hub.Run{}, err
	}
	var r hub.Run
	var msg hub.Message
	again := false
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
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
		return hub.Errorf(hub.CodeInvalid, op, "state: %q is not done, failed or interrupted", e.State)
	case !e.Verdict.Known():
		return hub.Errorf(hub.CodeInvalid, op, "verdict: %q is not confirmed, contradicted or unverified", e.Verdict)
	case len(e.Report) > maxReport || len(e.Evidence) > maxEvidence:
		return hub.Errorf(hub.CodeTooLarge, op, "a report has at most %d bytes, evidence %d", maxReport, maxEvidence)
	case len(e.StopReason) > maxWord || len(e.Reason) > maxWord:
		return hub.Errorf(hub.CodeTooLarge, op, "stop_reason and reason have at most %d bytes", maxWord)
	case len(e.Contradictions) > maxClaims:
		return hub.Errorf(hub.CodeTooLarge, op, "contradictions: at most %d", maxClaims)
	case e.State == hub.RunDone && absent(e.Report):
		return hub.Errorf(hub.CodeInvalid, op, "report: a run that is done has one")
	case e.Verdict == hub.RunContradicted && len(e.Contradictions) == 0:
		return hub.Errorf(hub.CodeInvalid, op, "contradictions: a verdict that contradicts names what")
	}
	return nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// finish ends a run inside tx. A run that has not come as far as the end asks for
// goes through what lies in between.
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
		if err := record(tx, actor.ID, now, r); err != nil {
			return r, hub.Message{}, err
		}
	}
	r, err := r.Advance(e.State, now)
	if err != nil {
		return r, hub.Message{}, err
	}
	r.StopReason, r.Reason, r.Verdict, r.Contradictions = e.StopReason, e.Reason, e.Verdict, e.Contradictions
	if r.Report, r.Evidence = e.Report, e.Evidence; absent(r.Report) {
		r.Report = nil
	}
	if absent(r.Evidence) {
		r.Evidence = nil
	}
	if err := s.keys.Withdraw(tx, actor, r.Agent, label(r.ID)); err != nil {
		return r, hub.Message{}, err
	}
	msg, err := s.tell(tx, actor, r)
	if err != nil {
		return r, hub.Message{}, err
	}
	r.Message = msg.ID
	if err := tx.PutRun(r, was); err != nil {
		return r, hub.Message{}, err
	}
	return r, msg, record(tx, actor.ID, now, r)
}

// A claim is what the hub reads of a report.
type claim struct {
	Status string `json:"status"`
	Error  string `json:"error"`
}

// messageFor says which message tells of a report with each status. Any other
// status is news, and no more than that.
var messageFor = map[string]hub.MessageType{
	"ok":             hub.TypeStatusComplete,
	"no_changes":     hub.TypeStatusComplete,
	"fail":           hub.TypeStatusBlocked,
	"rejected":       hub.TypeStatusBlocked,
	"fixture_gap":    hub.TypeStatusBlocked,
	"needs_decision": hub.TypeStatusBlocked,
	"partial":        hub.TypeStatusUpdate,
	"retry":          hub.TypeStatusUpdate,
	"decomposed":     hub.TypeStatusUpdate,
}

// tell writes the message that tells of the end, to who wanted the work done and,
// if it came by a handoff, to who handed it over. It is from the hub: nobody
// speaks for the agent but the agent itself, if it is the one who ends the run.
func (s *Service) tell(tx hub.Tx, actor hub.Caller, r hub.Run) (hub.Message, error) {
	var c claim
	if r.Report != nil {
		if err := json.Unmarshal(r.Report, &c); err != nil {
			return hub.Message{}, hub.Errorf(hub.CodeInvalid, "run.Finish", "report: not one: %v", err)
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
	}
	from := hub.Caller{ID: hub.Self}
	if actor.ID == r.Agent {
		from.ID = r.Agent
	}
	return s.sender.Post(tx, from, hub.Envelope{
		To: to, Type: t, ThreadID: r.ThreadID, Priority: hub.PriorityNormal, Payload: payload(t, r, c), Policy: policy,
	}, false)
}

// payload says how a run ended, with as much of the evidence as a message holds.
func payload(t hub.MessageType, r hub.Run, c claim) json.RawMessage {
	said := cmp.Or(c.Status, r.Reason, string(r.State))
	p := map[string]any{
		"summary": cut(fmt.Sprintf("%s, %s: %s", said, r.Verdict, oneLine(r.Task)), 270),
		"run_id":  r.ID, "agent": r.Agent, "state": r.State, "verdict": r.Verdict, "stop_reason": cut(r.StopReason, 200),
	}
	if r.Handoff != "" {
		p["handoff_id"] = r.Handoff
	}
	if t == hub.TypeStatusBlocked {
		p["reason"] = cut(cmp.Or(oneLine(c.Error), oneLine(r.Reason), said), 600)
	} else if c.Error != "" {
		p["detail"] = cut(c.Error, 600)
	}
	if c.Status == "decomposed" {
		p["detail"] = strings.TrimSpace("the task was split, and its parts are not offered by the hub: see the report of the run. " + cut(c.Error, 400))
	}
	if n := len(r.Contradictions); n > 0 {
		p["contradictions"] = r.Contradictions[:min(n, 3)]
		p["contradictions_total"] = n
	}
	if r.Evidence != nil {
		p["evidence"] = outline(r.Evidence)
	}
	for _, name := range []string{"evidence", "contradictions", "detail"} { // what matters least goes first
		if raw := encode(p); len(raw) <= hub.MaxPayload {
			return raw
		}
		delete(p, name)
	}
	return encode(p)
}

// encode writes plain values, which cannot fail.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

// An outlined is the part of the evidence that goes into a message: hashes and
// figures, no names and no output.
type outlined struct {
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	Diff   struct {
		Files      int `json:"files"`
		Insertions int `json:"insertions"`
		Deletions  int `json:"deletions"`
	} `json:"diff"`
	Verify *outcome `json:"verify,omitempty"`
	Build  *outcome `json:"build,omitempty"`
}

type outcome struct {
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	TimedOut bool   `json:"timed_out"`
	Digest   string `json:"output_digest"`
}

// outline returns what a message says of the evidence.
func outline(evidence json.RawMessage) any {
	var o outlined
	if json.Unmarshal(evidence, &o) != nil {
		return nil
	}
	for _, c := range []*outcome{o.Verify, o.Build} {
		if c != nil {
			c.Command = cut(c.Command, 300)
		}
	}
	return o
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// cut returns at most n bytes of s, whole characters only.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const more = "…"
	n -= len(more)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + more
}

// lookEvery is how often runs are looked for whose time is over.
const lookEvery = time.Minute

// Run gives up runs whose time is over, until ctx ends: whoever watched over one
// has not come back to say how it ended.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := s.giveUp(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("runs whose time is over could not be ended", "op", "run.Run", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// giveUp ends the runs whose time is over.
func (s *Service) giveUp(ctx context.Context) error {
	for {
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
		if err != nil || len(late) == 0 {
			return err
		}
		for _, id := range late {
			if _, err := s.Finish(ctx, hub.Caller{ID: hub.Self, Auditor: true}, id, Ending{
				State: hub.RunInterrupted, Reason: hub.RunLost, Verdict: hub.RunUnverified,
			}); err != nil {
				return err
			}
		}
		if len(late) < maxPage {
			return nil
		}
	}
}
