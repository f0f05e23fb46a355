package wake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

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

	// Reason says why the agent cannot go on after a turn that failed; empty if it can. Until is
	// the time from which on it can, if the vendor says so.
	Reason hub.ContinuationReason `json:"reason,omitempty"`
	Until  hub.Time               `json:"until,omitzero"`
}

// An Advice is the answer to a report.
type Advice struct {
	// Notice is to be shown to the model: as context after a start, a prompt or a
	// tool call, and as the reason to go on at the end of a turn. It is empty unless
	// unread messages were not yet announced in this session.
	Notice string `json:"notice,omitempty"`

	// Screen is to be shown to the person at the session, after a prompt. It is empty unless a
	// budget of the agent is spent and the session has not said so yet.
	Screen string `json:"screen,omitempty"`
}

// Report records the activity of a session, and proves the wakes that were seen in it.
func (g *Machine) Report(ctx context.Context, actor hub.Caller, p Report) (Advice, error) {
	const op = "wake.Report"
	if err := checkKey(op, p.Key); err != nil {
		return Advice{}, err
	}
	if !slices.Contains(events, p.Event) {
		return Advice{}, hub.Errorf(hub.CodeInvalid, op, "unknown event %q: use one of %v", p.Event, events)
	}
	if err := checkTexts(op, append(p.Wakes, p.Cwd, p.Stamp, p.Version)...); err != nil {
		return Advice{}, err
	}
	if p.Reason != "" && !p.Reason.Known() {
		return Advice{}, hub.Errorf(hub.CodeInvalid, op, "unknown reason %.30q: use one of %v", p.Reason, hub.ContinuationReasons)
	}
	if len(p.Wakes) > 20 {
		return Advice{}, hub.Errorf(hub.CodeTooLarge, op, "wakes must have at most 20 ids, got %d", len(p.Wakes))
	}

	var out Advice
	err := g.update(ctx, actor.ID, func(a *agentRecord) (err error) {
		out = Advice{}
		if a.presence.strange(p) {
			return nil
		}
		if out.Notice, err = a.report(p); err != nil {
			return err
		}
		if p.Event == EventPrompt && !p.Quiet {
			out.addBudget(a.newlySpent(p.Key))
		}
		return nil
	})
	if err != nil {
		return Advice{}, fmt.Errorf("wake: report: %w", err)
	}

	g.Visit(actor.ID)
	return out, nil
}

// newlySpent returns why no turn of the agent may begin, if a session has not been told since that is
// so; else "".
func (a *agentRecord) newlySpent(k Key) string {
	s := a.presence.find(k)
	if s == nil {
		return ""
	}
	reason, _ := a.spentBudget()
	wasTold := s.Spent
	s.Spent = reason != ""
	if wasTold {
		return ""
	}
	return reason
}

// addBudget adds the words about a spent budget, for the person and for the model.
func (d *Advice) addBudget(reason string) {
	if reason == "" {
		return
	}
	d.Screen = "Parley: " + reason + ". Edits and commands in this session are refused meanwhile"
	d.Notice = strings.TrimSpace(d.Notice + "\n[parley] " + reason + ". Edits and commands are refused meanwhile: tell your user")
}

// report records the activity of a session and returns the notice to show, if any.
func (a *agentRecord) report(p Report) (string, error) {
	s := a.ensure(p.Key)
	if p.Only {
		if err := a.leaveOthers(s); err != nil {
			return "", err
		}
	}
	s.Seen = a.now
	s.Reported = a.now
	if err := a.noteTrust(s.CLI); err != nil {
		return "", err
	}
	s.Stamp = cmp.Or(p.Stamp, s.Stamp)
	s.Cwd = cmp.Or(p.Cwd, s.Cwd)
	s.Version = cmp.Or(p.Version, s.Version)
	if p.Attended != nil {
		s.Attended = *p.Attended
	}
	s.noteQuota(p, a.now)

	// A version of a CLI counts as proven when a wake reached a turn in it.
	proof := s.LastProof
	if err := a.prove(s, p); err != nil {
		return "", err
	}
	if s.LastProof != proof && s.Version != "" {
		if a.presence.Proven == nil {
			a.presence.Proven = map[string]string{}
		}
		a.presence.Proven[s.CLI] = s.Version
	}
	if p.Release && p.Event == EventEnd && s.Waiter != "" {
		s.replace("")
	}
	return a.advance(s, p)
}

// leaveOthers ends the other sessions of a process that shows one at a time: a turn in a
// session that its user has left would run unseen. Their waiters end, and their wakes find
// another way.
func (a *agentRecord) leaveOthers(s *Session) error {
	for _, other := range a.presence.Sessions {
		sharesProcess := s.Process != 0 && other.Process == s.Process && other.CLI == s.CLI
		if other == s || !sharesProcess || !other.live() {
			continue
		}
		if err := a.endTurn(other.Key, ""); err != nil {
			return err
		}
		other.move(SessionEnded, a.now)
		other.Armed = hub.Time{}
		if other.Waiter != "" {
			other.replace("")
		}
		if w := a.wakes.offered(other.Key); w != nil {
			if err := a.withdraw(w, other.Key, "its window shows another session"); err != nil {
				return err
			}
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
func (a *agentRecord) prove(s *Session, p Report) error {
	w := a.wakes.offered(s.Key)
	if w == nil {
		return a.proveLater(s, p)
	}
	if w.State == hub.WakeWaiting {
		return nil
	}

	fetched, err := a.fetched(w)
	if err != nil {
		return err
	}
	next := step{w.State, s.Mechanism, "after the current turn", proofBusy}
	switch {
	case fetched || slices.Contains(p.Wakes, w.ID):
		s.LastProof = a.now
		next = started(s, w, p)
	case p.Event == EventTurnEnd:
		next.detail = "its turn ended"
		next.proof = proofIdle
	case p.Event == EventEnd:
		next = step{state: hub.WakeFailed, mechanism: s.Mechanism, detail: "its session ended"}
	case p.Event != EventPrompt:
		return nil
	}
	return a.move(w, next)
}

// started returns the step of a wake whose turn a report proves.
func started(s *Session, w *hub.Wake, p Report) step {
	next := step{state: hub.WakeStarted, mechanism: s.Mechanism, detail: "it read its inbox"}
	if slices.Contains(p.Wakes, w.ID) {
		next.detail = "seen in a prompt"
	}
	return next
}

// proveLater notes the proof of a wake that is not on its way any more: a visit found that
// the agent read its inbox, or the time for the proof had passed.
func (a *agentRecord) proveLater(s *Session, p Report) error {
	w := a.wakes.turn(s.Key)
	provenByVisit := w != nil && w.State == hub.WakeStarted && !w.Hook && s.LastProof.Before(w.Proven.Time)
	if provenByVisit {
		s.LastProof = a.now
		return a.move(w, started(s, w, p))
	}

	for _, id := range p.Wakes {
		w := a.wakes.find(id)
		wasTaken := w != nil && w.State == hub.WakeFailed && !w.Taken.IsZero() && w.InSession(s.Key)
		if wasTaken && s.LastProof.Before(w.At.Time) {
			s.LastProof = a.now
		}
	}
	return nil
}

// advance moves the state of a session and returns the notice to show, if any.
func (a *agentRecord) advance(s *Session, p Report) (string, error) {
	if err := a.goOn(s, p); err != nil {
		return "", err
	}

	switch p.Event {
	case EventStart:
		s.move(SessionStarting, a.now)
		s.Told = 0
	case EventPrompt:
		if err := a.beginTurn(s, p); err != nil {
			return "", err
		}
	case EventTool:
		s.move(SessionWorking, a.now)
	case EventWaiting:
		s.move(SessionWaiting, a.now)
		return "", nil
	case EventTurnEnd, EventEnd:
		s.move(SessionIdle, a.now)
		s.Told = 0
		if err := a.endTurn(s.Key, ""); err != nil {
			return "", err
		}
	}
	if p.Event == EventEnd {
		return "", a.endSession(s)
	}

	// A turn that a notice continued is not continued again.
	last := p.Event == EventTurnEnd
	wasContinued := last && (p.StopActive || s.Continued)
	if p.Quiet || wasContinued {
		if last {
			s.Continued = false
		}
		return "", nil
	}
	return a.notice(s, p.Event)
}

// goOn records whether a session went on after a hook gave a notice at the end of its turn.
// A prompt that does not show the notice is of its user.
func (a *agentRecord) goOn(s *Session, p Report) error {
	if !s.Unproven || p.Event == EventStart {
		return nil
	}
	s.Unproven = false
	w := a.wakes.turn(s.Key)
	seen := w != nil && slices.Contains(p.Wakes, w.ID)

	next := step{state: hub.WakeStarted, detail: "the session continued"}
	if p.Event == EventEnd || (p.Event == EventPrompt && !seen) {
		next = step{state: hub.WakeFailed, detail: "the session did not continue"}
	} else {
		s.Shown = max(s.Shown, s.Told)
	}
	if w == nil {
		return nil // its time had passed
	}
	return a.move(w, next)
}

// beginTurn begins a turn in a session. One whose end was not reported ends.
func (a *agentRecord) beginTurn(s *Session, p Report) error {
	s.move(SessionWorking, a.now)
	s.Since = a.now
	s.Told = 0
	w := a.wakes.turn(s.Key)
	seen := w != nil && slices.Contains(p.Wakes, w.ID)
	s.Continued = s.Continued && seen
	if w == nil || seen {
		return nil
	}
	return a.endTurn(s.Key, "")
}

// endSession ends a session. A wake that its waiter has not taken finds another way.
func (a *agentRecord) endSession(s *Session) error {
	s.move(SessionEnded, a.now)
	s.Armed = hub.Time{}
	if w := a.wakes.offered(s.Key); w != nil {
		return a.withdraw(w, s.Key, "its session ended")
	}
	return nil
}

// notice returns the notice about messages that were not announced in a session, ""
// if there are none or permission and budgets refuse it. It takes the place of a wake that
// its waiter has not taken. A CLI may end a hook before its notice is shown, and a model may
// go on with its task: mail that is still unread when the turn ends is announced again.
func (a *agentRecord) notice(s *Session, e Event) (string, error) {
	mail, err := readMail(a.rd, a.agent, max(s.Shown, s.Told), a.now)
	if err != nil || len(mail.fresh) == 0 {
		return "", err
	}
	if w := a.wakes.offered(s.Key); w != nil && w.State == hub.WakeWaiting {
		if err := a.move(w, step{state: hub.WakeRefused, detail: "announced by a hook of its session"}); err != nil {
			return "", err
		}
	} else if w != nil {
		if reason, err := a.invalid(w); err != nil || reason == "" {
			return "", err // its notice is on the way
		}
	}

	b := channel.Batch{ID: channel.NewID(string(a.agent), s.CLI, s.ID, fmt.Sprint(s.Process), fmt.Sprint(mail.upTo)), Recipient: a.agent, Messages: mail.all}
	turn := e == EventTurnEnd
	w := &hub.Wake{ID: b.ID, Agent: a.agent, Channel: hub.ChannelSession, Mechanism: "hook " + string(e), State: hub.WakeReserved, Sessions: []Key{s.Key}, At: a.now, Hook: true}
	if ok, err := a.show(w, turn); err != nil || !ok {
		return "", err
	}
	s.Told = mail.upTo
	if turn {
		s.move(SessionWorking, a.now)
		s.Continued = true
		s.Unproven = true
	}
	return a.writeNotice(b)
}

// show reports whether a hook may show a notice, and stores its wake with the messages that
// it announces. A notice that makes the model go on costs a turn: it needs a message that may
// start one, and the same permissions and budgets as a wake of a waiter.
func (a *agentRecord) show(w *hub.Wake, turn bool) (bool, error) {
	unread, err := readInbox(a.rd, a.agent, a.now)
	if err != nil {
		return false, err
	}
	var shown []inboxMessage
	for _, m := range unread {
		if !a.account.mayWake(m) || a.account.announced(m, hub.ChannelSession) {
			continue
		}
		if turn {
			root, looped, err := a.loop(m.Message)
			if err != nil {
				return false, err
			}
			m.root = root
			if spent, _ := a.budget(m.From); spent != "" || looped != "" {
				continue
			}
		}
		shown = append(shown, m)
		carry(w, m)
	}

	next := step{state: hub.WakeShown, detail: "shown in a turn"}
	if turn {
		if may, err := a.mayGoOn(shown); err != nil || !may {
			return false, err
		}
		w.Cost = 1
		a.account.noteAlarms(shown)
		next.state = hub.WakeOffered
	}

	// Each message has a row before the wake moves it.
	for _, m := range shown {
		if row := m.newest(hub.ChannelSession); row != nil && row.Status == hub.DeliveryPending {
			continue
		}
		if err := a.tx.AddDelivery(hub.Delivery{MessageID: m.ID, Recipient: a.agent, Channel: hub.ChannelSession, Status: hub.DeliveryPending}); err != nil {
			return false, err
		}
	}

	a.wakes.add(w)
	a.account.show(unread, w.Messages, !turn)
	return true, a.move(w, next)
}

// mayGoOn reports whether a turn may go on for messages: some are left, nothing bars wakes,
// no wake is under way, and the gap after the last has passed.
func (a *agentRecord) mayGoOn(messages []inboxMessage) (bool, error) {
	reason, err := a.blocked()
	if err != nil || reason != "" {
		return false, err
	}
	if len(messages) == 0 || a.wakes.open(hub.ChannelSession) != nil {
		return false, err
	}
	return !a.freeAt(messages).After(a.now.Time), nil
}
