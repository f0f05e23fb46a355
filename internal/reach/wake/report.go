package wake

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// A Report is the news of a hook or plugin of a CLI about a session.
type Report struct {
	Key
	Stamp      string   `json:"stamp,omitempty"` // of the process, see package process
	Cwd        string   `json:"cwd,omitempty"`
	Version    string   `json:"version,omitempty"` // of the CLI
	Event      Event    `json:"event"`
	Wakes      []string `json:"wakes,omitempty"`       // ids of wakes that were seen in the prompt
	StopActive bool     `json:"stop_active,omitempty"` // this turn was continued by a hook already
	Quiet      bool     `json:"quiet,omitempty"`       // the caller cannot show a notice
	Attended   *bool    `json:"attended,omitempty"`    // nil if the caller does not know
	Release    bool     `json:"release,omitempty"`     // with the end of the session: its waiter ends, too
	Only       bool     `json:"only,omitempty"`        // its process shows this session, and left the ones before
	NoQuota    bool     `json:"no_quota,omitempty"`    // the turn ended because the account is out of quota
}

// An Advice is the answer to a report.
type Advice struct {
	// Notice is to be shown to the model: as context after a start, a prompt or a
	// tool call, and as the reason to go on at the end of a turn. It is empty unless
	// unread messages were not yet announced in this session.
	Notice string `json:"notice,omitempty"`
}

// Report records the activity of a session, and proves the wakes that were seen in it.
func (g *Machine) Report(ctx context.Context, actor hub.Caller, p Report) (Advice, error) {
	const op = "wake.Report"
	if err := p.check(op); err != nil {
		return Advice{}, err
	}
	if !slices.Contains(events, p.Event) {
		return Advice{}, hub.Errorf(hub.CodeInvalid, op, "event: %q is not one of %v", p.Event, events)
	}
	if err := checkTexts(op, append(p.Wakes, p.Cwd, p.Stamp, p.Version)...); err != nil {
		return Advice{}, err
	}
	if len(p.Wakes) > 20 {
		return Advice{}, hub.Errorf(hub.CodeTooLarge, op, "wakes: at most 20 ids")
	}
	var out Advice
	err := g.update(ctx, actor.ID, func(tx hub.Tx, d *document, now hub.Time) (err error) {
		out = Advice{}
		if d.strange(p) {
			return nil
		}
		s := d.ensure(p.Key, now)
		if p.Only {
			if err := g.leaveOthers(tx, actor.ID, d, s, now); err != nil {
				return err
			}
		}
		s.Seen, s.Reported = now, now
		s.Stamp = cmp.Or(p.Stamp, s.Stamp)
		s.Cwd, s.Version = cmp.Or(p.Cwd, s.Cwd), cmp.Or(p.Version, s.Version)
		if p.Attended != nil {
			s.Attended = *p.Attended
		}
		s.noteQuota(p, now)
		proof := s.LastProof
		if err := g.prove(tx, actor.ID, s, p, now); err != nil {
			return err
		}
		if s.LastProof != proof && s.Version != "" {
			if d.Proven == nil {
				d.Proven = map[string]string{}
			}
			d.Proven[s.CLI] = s.Version
		}
		if p.Release && p.Event == EventEnd && s.Waiter != "" {
			s.replace("")
		}
		out.Notice, err = g.advance(tx, actor.ID, s, p, now)
		return err
	})
	if err != nil {
		return Advice{}, fmt.Errorf("wake: report: %w", err)
	}
	g.Visit(actor.ID)
	return out, nil
}

// leaveOthers ends the other sessions of a process that shows one at a time: a turn in a
// session that its user has left would run unseen. Their waiters end, and their wakes find
// another way.
func (g *Machine) leaveOthers(tx hub.Tx, agent hub.AgentID, d *document, s *Session, now hub.Time) error {
	for _, other := range d.Sessions {
		if other == s || !other.live() || other.CLI != s.CLI || other.Process != s.Process || s.Process == 0 {
			continue
		}
		if err := g.endTurn(tx, agent, other); err != nil {
			return err
		}
		left := other.Wake
		other.move(SessionEnded, now)
		other.Armed = hub.Time{}
		other.Wake = nil
		if other.Waiter != "" {
			other.replace("")
		}
		if left == nil || d.offered(left.ID) {
			continue
		}
		o := channel.Outcome{State: channel.Refused, Mechanism: other.Mechanism, Detail: "its window shows another session"}
		if err := g.Record(tx, agent, left.ID, o); err != nil {
			return err
		}
	}
	return nil
}

// noteQuota keeps since when turns fail because the account is out of quota. A tool call and
// the end of a turn without that error show that the model answers again.
func (s *Session) noteQuota(p Report, now hub.Time) {
	switch {
	case p.NoQuota && s.NoQuota.IsZero():
		s.NoQuota = now
	case !p.NoQuota && (p.Event == EventTool || p.Event == EventTurnEnd):
		s.NoQuota = hub.Time{}
	}
}

// strange reports whether a report is of no session that the hub should list: it stands in
// the middle of a session that never began, in a process that has another one. Subagents of
// Copilot CLI have session ids of their own.
func (d *document) strange(p Report) bool {
	begins := p.Event == EventStart || p.Event == EventPrompt
	if begins || p.Process == 0 || d.find(p.Key) != nil {
		return false
	}
	return slices.ContainsFunc(d.Sessions, func(s *Session) bool {
		return s.live() && s.CLI == p.CLI && s.Process == p.Process
	})
}

// prove records the wake under way as a turn if the report shows its id, or if the
// agent has fetched its messages. A prompt of the user in between gives the wake more
// time.
func (g *Machine) prove(tx hub.Tx, agent hub.AgentID, s *Session, p Report, now hub.Time) error {
	w := s.Wake
	if w == nil || w.Taken.IsZero() {
		return nil
	}
	o := channel.Outcome{State: channel.Handed, Mechanism: s.Mechanism, Detail: "after the turn that runs", Proof: proofBusy}
	started, err := g.Started(tx, agent, w.ID)
	if err != nil {
		return err
	}
	switch seen := slices.Contains(p.Wakes, w.ID); {
	case seen || started:
		o = channel.Outcome{State: channel.TurnStarted, Mechanism: s.Mechanism, Detail: "it read its inbox"}
		if seen {
			o.Detail = "seen in a prompt"
		}
		s.Wake, s.Turn, s.LastProof = nil, w.ID, now
	case p.Event == EventTurnEnd:
		o.Detail, o.Proof = "its turn ended", proofIdle
	case p.Event == EventEnd:
		s.Wake = nil
		o = channel.Outcome{State: channel.Failed, Mechanism: s.Mechanism, Detail: "its session ended"}
	case p.Event != EventPrompt:
		return nil
	}
	return g.Record(tx, agent, w.ID, o)
}

// advance moves the state of a session and returns the notice to show, if any.
func (g *Machine) advance(tx hub.Tx, agent hub.AgentID, s *Session, p Report, now hub.Time) (string, error) {
	if s.Unproven && p.Event != EventStart {
		s.Unproven = false
		o := channel.Outcome{State: channel.TurnStarted, Detail: "the session went on"}
		if p.Event == EventEnd || p.Event == EventPrompt && !slices.Contains(p.Wakes, s.Turn) { // of its user
			o = channel.Outcome{State: channel.Failed, Detail: "the session did not go on"}
		} else {
			s.Shown = max(s.Shown, s.Told)
		}
		if err := g.Record(tx, agent, s.Turn, o); err != nil {
			return "", err
		}
	}
	switch p.Event {
	case EventStart:
		s.move(SessionStarting, now)
		s.Told = 0
	case EventPrompt:
		s.move(SessionWorking, now)
		s.Since, s.Told, s.Continued = now, 0, s.Continued && slices.Contains(p.Wakes, s.Turn)
		if s.Turn != "" && !slices.Contains(p.Wakes, s.Turn) { // the end of the turn was not reported
			if err := g.endTurn(tx, agent, s); err != nil {
				return "", err
			}
		}
	case EventTool:
		s.move(SessionWorking, now)
	case EventWaiting:
		s.move(SessionWaiting, now)
		return "", nil
	case EventTurnEnd, EventEnd:
		s.move(SessionIdle, now)
		s.Told = 0
		if err := g.endTurn(tx, agent, s); err != nil {
			return "", err
		}
		if p.Event == EventEnd {
			s.move(SessionEnded, now)
			s.Armed = hub.Time{}
			if s.Wake != nil { // not taken; the next visit finds another way
				id := s.Wake.ID
				s.Wake = nil
				return "", g.Record(tx, agent, id, channel.Outcome{State: channel.Refused, Detail: "its session ended"})
			}
			return "", nil
		}
	}
	last := p.Event == EventTurnEnd
	if again := s.Continued; p.Quiet || last && (p.StopActive || again) {
		if last {
			s.Continued = false
		}
		return "", nil
	}
	return g.notice(tx, agent, s, p.Event, now)
}

// endTurn records the end of the turn that a wake started.
func (g *Machine) endTurn(tx hub.Tx, agent hub.AgentID, s *Session) error {
	if s.Turn == "" {
		return nil
	}
	id := s.Turn
	s.Turn = ""
	return g.Record(tx, agent, id, channel.Outcome{State: channel.TurnEnded, Mechanism: s.Mechanism})
}

// notice returns the notice about messages that were not announced in a session, ""
// if there are none or permission and budgets refuse it. It takes the place of a wake that its
// waiter has not taken. A CLI may end a hook before its notice is shown, and a model may
// go on with its task: mail that is still unread when the turn ends is announced again.
func (g *Machine) notice(tx hub.Tx, agent hub.AgentID, s *Session, e Event, now hub.Time) (string, error) {
	mail, err := readMail(tx, agent, max(s.Shown, s.Told), now)
	if err != nil || len(mail.fresh) == 0 {
		return "", err
	}
	if s.Wake != nil && !s.Wake.Taken.IsZero() {
		if ended, err := g.Valid(tx, agent, s.Wake.ID); err != nil || ended == "" {
			return "", err // its notice is on the way
		}
		s.Wake = nil
	}
	b := channel.Batch{ID: channel.NewID(string(agent), s.CLI, s.ID, fmt.Sprint(s.Process), fmt.Sprint(mail.upTo)), Recipient: agent, Messages: mail.all}
	turn := e == EventTurnEnd
	if s.Wake != nil {
		old := s.Wake.ID
		if err := g.Record(tx, agent, old, channel.Outcome{State: channel.Refused, Detail: "a hook of its session told it"}); err != nil {
			return "", err
		}
		s.Wake = nil
	}
	if ok, err := g.Show(tx, b, "hook "+string(e), turn); err != nil || !ok {
		return "", err
	}
	s.Told = mail.upTo
	if turn {
		s.move(SessionWorking, now)
		s.Turn, s.Continued, s.Unproven = b.ID, true, true
	}
	return g.writeNotice(tx, b)
}
