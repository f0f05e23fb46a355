package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/federation"
	"github.com/parley-agents/parley/internal/keeper"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/sandbox"
)

// An Overview says what happens on the hub now. The page, parley watch and the notices
// to people are made from it.
type Overview struct {
	Agents  []AgentNow       `json:"agents"` // without the operator
	Tasks   []handoff.Report `json:"tasks"`  // handoffs that an agent works on
	Waiting Waiting          `json:"waiting"`
}

// An AgentNow is an agent with the word for how it stands.
type AgentNow struct {
	AgentProfile
	Word  string        `json:"now"` // working, waiting, idle, stuck, suspended, paused, stopped, away or never seen
	Why   string        `json:"why"` // the reason of the word
	Doing string        `json:"doing,omitempty"`
	Run   hub.RunID     `json:"run_id,omitempty"`     // the run that it does
	Task  hub.HandoffID `json:"handoff_id,omitempty"` // or the task
	Kept  *KeptAgent    `json:"kept,omitempty"`       // nil for one that the hub does not run
}

const (
	stuckAfter = 10 * time.Minute // of silence in a turn
	awayAfter  = 15 * time.Minute // without a call or a session
	lowDisk    = 1 << 30          // free bytes below which the disk is low
)

// Words lists the words for agents, those first that need a look.
var Words = []string{"stuck", "suspended", "waiting", "working", "idle", "paused", "stopped", "away", "never seen"}

// keptWords are the words for the states of kept agents.
var keptWords = map[keeper.State]struct{ word, why string }{
	keeper.Stopped:  {"stopped", "its mail waits until you restart it"},
	keeper.Sleeping: {"idle", "it sleeps; mail starts it"},
	keeper.Starting: {"working", "it starts"},
	keeper.Working:  {"working", "a turn runs"},
	keeper.Asking:   {"waiting", "it asks you"},
	keeper.Idle:     {"idle", "it waits for mail"},
	keeper.Failing:  {"stuck", "it failed and is started again after a pause"},
	keeper.Away:     {"away", "machine away: no hub runs where it is kept; its mail waits"},
}

// word returns the word for how an agent stands, and its reason.
func (a AgentProfile) word(now hub.Time) (word, why string) {
	switch s := a.Session; {
	case a.Suspended:
		return "suspended", "it repeated itself"
	case a.State == hub.AgentPaused:
		return "paused", "it may read and not send"
	case s != nil && s.State == wake.SessionWorking && now.Sub(s.Seen.Time) > stuckAfter:
		return "stuck", "a turn runs, and nothing was heard of it for long"
	case s != nil && s.State == wake.SessionWorking:
		return "working", "a turn runs"
	case s != nil && s.State == wake.SessionWaiting:
		return "waiting", "it asks the person at its terminal"
	case s != nil:
		return "idle", "its session is open"
	case a.Reach == hub.ReachNow:
		return "idle", "it waits for messages"
	case a.LastSeen.IsZero():
		return "never seen", "it has not called yet"
	case now.Sub(a.LastSeen.Time) > awayAfter:
		return "away", "no session is open"
	}
	return "idle", "no session is open"
}

func overview(ctx context.Context, s *Services, a hub.Caller, _ None) (Overview, error) {
	out := Overview{Agents: []AgentNow{}, Tasks: []handoff.Report{}}
	list, err := agentList(ctx, s, a, None{})
	if err != nil {
		return out, err
	}
	for _, state := range []hub.HandoffState{hub.HandoffActivated, hub.HandoffAccepted} {
		got, err := handoffs(ctx, s, a, HandoffParams{Action: "list", State: state, Limit: 100})
		if err != nil {
			return out, err
		}
		out.Tasks = append(out.Tasks, got.Listing.Handoffs...)
	}
	runs, err := runList(ctx, s, a, RunListParams{Open: true, Limit: 50})
	if err != nil {
		return out, err
	}
	kept, err := s.Keeper.List(ctx)
	if err != nil {
		return out, err
	}
	now := s.Clock.Now()
	for _, profile := range list.Agents {
		if profile.ID == hub.Operator {
			continue
		}
		p := AgentNow{AgentProfile: profile}
		p.Word, p.Why = profile.word(now)
		if i := slices.IndexFunc(kept, func(k KeptAgent) bool { return k.Agent == p.ID }); i >= 0 {
			p.Kept = &kept[i]
			if w, ok := keptWords[p.Kept.State]; ok && p.State == hub.AgentActive && !p.Suspended {
				p.Word, p.Why = w.word, w.why
			}
		}
		for _, r := range runs.Runs {
			if r.Agent == p.ID && p.Run == "" {
				p.Doing, p.Run, p.Word, p.Why = r.Task, r.ID, "working", "in a run"
			}
		}
		for _, t := range out.Tasks {
			if t.To == p.ID && p.Doing == "" {
				p.Doing, p.Task = t.Title, t.ID
			}
		}
		out.Agents = append(out.Agents, p)
	}
	out.Waiting, err = s.waiting(ctx, a, out, kept)
	return out, err
}

// Waiting is everything that waits for a person. Items lists it.
type Waiting struct {
	HeldList
	Talks     []hub.Deliberation      `json:"talks,omitempty"`
	Peers     []federation.PeerStatus `json:"peers,omitempty"`
	Troubled  []AgentNow              `json:"troubled,omitempty"` // agents that are stuck or suspended
	Late      []handoff.Report        `json:"late,omitempty"`
	Overdue   []mailroom.Overdue      `json:"overdue,omitempty"`    // messages that were not acknowledged in time
	Conflicts []ConflictedContract    `json:"conflicts,omitempty"`  // contracts with a content that lost, until they are agreed
	Merges    []hub.Conflict          `json:"merges,omitempty"`     // versions of teams' artifacts whose conflict is escalated
	Free      int64                   `json:"free_bytes,omitempty"` // on the disk of the home, if that is low
	Inbox     []hub.Envelope          `json:"inbox,omitempty"`      // of the operator
	More      int                     `json:"more,omitempty"`       // messages in the inbox that are not among these
	Notices   []hub.Envelope          `json:"notices,omitempty"`    // of the hub in the inbox, about the other members
}

// A ConflictedContract names a contract of a project, one content of which lost.
type ConflictedContract struct {
	Project coord.ProjectID  `json:"project_id"`
	ID      coord.ContractID `json:"contract_id"`
	Name    string           `json:"name"`
	Version int              `json:"version"`
}

// Projects knows the projects between repositories, which are of another room.
type Projects interface {
	// Concerns reports whether a project concerns the caller.
	Concerns(ctx context.Context, caller hub.Caller) (bool, error)
}

// Around adds the part of Waiting that belongs to other rooms.
type Around interface {
	// Pending returns the peers that wait for the operator.
	Pending(ctx context.Context) ([]federation.PeerStatus, error)
	// Conflicts returns the contracts that are not agreed and have a content of their
	// version that lost, at most 100.
	Conflicts(ctx context.Context) ([]ConflictedContract, error)
	// Free returns the free bytes on the disk of the home; negative if unknown.
	Free() int64
}

func (s *Services) waiting(ctx context.Context, a hub.Caller, now Overview, kept []KeptAgent) (w Waiting, err error) {
	if w.HeldList, err = held(ctx, s, a, None{}); err != nil {
		return w, err
	}
	talks, err := talkList(ctx, s, a, TalkListParams{Open: true, Limit: 200})
	if err != nil {
		return w, err
	}
	for _, t := range talks.Deliberations {
		if t.State == hub.TalkEscalated && slices.Contains(t.Deciders, hub.Operator) {
			w.Talks = append(w.Talks, t)
		}
	}
	for _, p := range now.Agents {
		if p.Word == "stuck" || p.Word == "suspended" {
			w.Troubled = append(w.Troubled, p)
		}
	}
	clock := s.Clock.Now()
	for _, t := range now.Tasks {
		if !t.DueAt.IsZero() && t.DueAt.Before(clock.Time) {
			w.Late = append(w.Late, t)
		}
	}
	if err := s.addOverdue(ctx, a, &w); err != nil || !a.IsOperator() {
		return w, err
	}
	if s.Around != nil {
		if w.Peers, err = s.Around.Pending(ctx); err != nil {
			return w, err
		}
		if w.Conflicts, err = s.Around.Conflicts(ctx); err != nil {
			return w, err
		}
		if free := s.Around.Free(); free >= 0 && free < lowDisk {
			w.Free = max(free, 1)
		}
	}
	if s.Teams != nil {
		if w.Merges, err = s.Teams.Escalated(ctx); err != nil {
			return w, err
		}
		w.Merges = slices.DeleteFunc(w.Merges, func(k hub.Conflict) bool { return k.Result > 0 && k.MergedBy == a.ID }) // another one signs
	}
	mail, err := inbox(ctx, s, a, InboxParams{Peek: true, Limit: 20})
	if err != nil {
		return w, err
	}
	for id, short := range mail.ShortIDs {
		if w.ShortIDs == nil {
			w.ShortIDs = mailroom.ShortIDs{}
		}
		w.ShortIDs[id] = short
	}
	for _, e := range mail.Messages {
		if e.From == hub.Self && slices.ContainsFunc(w.Items(), func(i Wait) bool { return i.tells(e) }) {
			w.Notices = append(w.Notices, e)
			continue
		}
		w.Inbox = append(w.Inbox, e)
	}
	w.More = max(0, mail.Unread-len(mail.Messages))
	return w, nil
}

// addOverdue adds the messages that were not acknowledged in time, with their short ids.
func (s *Services) addOverdue(ctx context.Context, a hub.Caller, w *Waiting) (err error) {
	if w.Overdue, err = s.Mail.Overdue(ctx, a); err != nil || len(w.Overdue) == 0 {
		return err
	}
	var messages []hub.Envelope
	for _, o := range w.Overdue {
		messages = append(messages, o.Message)
	}
	short, err := s.Mail.ShortIDs(ctx, messages)
	if w.ShortIDs == nil {
		w.ShortIDs = mailroom.ShortIDs{}
	}
	maps.Copy(w.ShortIDs, short)
	return err
}

// A WaitKind says why something waits for a person.
type WaitKind string

// The kinds.
const (
	WaitQuestion   WaitKind = "question"   // a kept agent asks before it goes on
	WaitHeld       WaitKind = "held"       // a message needs a yes
	WaitApproval   WaitKind = "approval"   // a task, or an operation of a team, needs a yes
	WaitEscalation WaitKind = "escalation" // a negotiation or disagreement needs a decision
	WaitPeer       WaitKind = "peer"       // a hub wants to be a peer
	WaitConflict   WaitKind = "conflict"   // a content of a contract lost against another, or two versions of an artifact must be merged
	WaitStuck      WaitKind = "stuck"      // nothing is heard of a turn
	WaitSuspended  WaitKind = "suspended"  // an agent repeated itself
	WaitLate       WaitKind = "late"       // a task was not done in time
	WaitOverdue    WaitKind = "overdue"    // a message was not acknowledged in time
	WaitDisk       WaitKind = "disk"       // the disk of the hub is nearly full
	WaitMail       WaitKind = "mail"       // a message to the operator
)

// WaitKinds lists the kinds, the most pressing first.
var WaitKinds = []WaitKind{
	WaitDisk, WaitQuestion, WaitHeld, WaitApproval, WaitEscalation, WaitPeer, WaitStuck, WaitSuspended, WaitConflict, WaitLate, WaitOverdue, WaitMail,
}

// A Wait is one thing that waits for a person.
type Wait struct {
	Kind    WaitKind    `json:"kind"`
	ID      string      `json:"id"`              // of the thing, in commands
	Agent   hub.AgentID `json:"agent,omitempty"` // which it is about
	Since   hub.Time    `json:"since,omitzero"`
	Fact    string      `json:"fact"`              // a sentence of the hub, without text of agents
	Text    string      `json:"text,omitempty"`    // words of an agent on one line
	Private bool        `json:"private,omitempty"` // the text is of high sensitivity, or of a restricted task
	Command string      `json:"command"`           // answers it, or shows it
	Yes, No string      `json:"-"`                 // what these answers do; "" if it is not answered so

	Answer AnswerParams `json:"-"` // the yes to a question
}

// Key returns a name that no other thing that waits has.
func (w Wait) Key() string { return string(w.Kind) + " " + w.ID }

// tells reports whether a message of the hub is the notice of the thing.
func (w Wait) tells(e hub.Envelope) bool {
	switch w.Kind {
	case WaitApproval:
		return string(e.ID) == w.ID // of an operation of a team
	case WaitEscalation:
		return e.ThreadID == w.ID
	case WaitOverdue:
		return string(e.ReplyTo) == w.ID && strings.Contains(string(e.Payload), mailroom.CodeOverdue)
	case WaitQuestion:
		text := mailroom.Headline(e)
		return strings.HasPrefix(text, fmt.Sprintf("%s asks: ", w.Agent)) && strings.HasSuffix(text, " "+w.ID)
	}
	return false
}

// About returns the ids of the hub's notices about a thing. They are read once it is
// answered.
func (w Waiting) About(i Wait) (ids []hub.EnvelopeID) {
	for _, e := range w.Notices {
		if i.tells(e) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// Items returns everything that waits, the most pressing kinds first.
func (w Waiting) Items() []Wait {
	var out []Wait
	short := func(id string) string { return cmp.Or(string(w.ShortIDs[id]), id) }
	for _, k := range w.Asks {
		for _, q := range k.Asks {
			id := fmt.Sprintf("%s %d", k.Agent, q.ID)
			i := Wait{Kind: WaitQuestion, ID: id, Agent: k.Agent, Since: k.Since, Fact: fmt.Sprintf("%s asks before it goes on", k.Agent), Text: q.Text, No: "deny", Command: "parley agent kept"}
			i.Answer = AnswerParams{Agent: k.Agent, Question: q.ID}
			if c := slices.IndexFunc(q.Choices, func(c keeper.Choice) bool { return c.Kind == sandbox.AllowOnce }); c >= 0 {
				i.Yes, i.Answer.Choice, i.Command = "allow once", q.Choices[c].ID, fmt.Sprintf("parley agent answer %s %s", id, keeper.Yes)
			}
			out = append(out, i)
		}
	}
	for _, e := range w.Messages {
		out = append(out, Wait{
			Kind: WaitHeld, ID: string(e.ID), Agent: e.From, Since: e.CreatedAt, Fact: fmt.Sprintf("a message of %s to %s needs your yes", e.From, names(e.To)), Text: mailroom.Headline(e),
			Private: e.Policy.Sensitivity == hub.SensitivityHigh, Yes: "approve", No: "deny", Command: "parley approve " + short(string(e.ID)),
		})
	}
	for _, h := range w.Handoffs {
		out = append(out, Wait{
			Kind: WaitApproval, ID: string(h.ID), Agent: h.From, Since: h.InitiatedAt, Fact: fmt.Sprintf("a task from %s to %s needs your yes", h.From, h.To), Text: h.Title,
			Private: h.Restricted, Yes: "approve", No: "deny", Command: "parley approve " + cmp.Or(string(h.ShortID), string(h.ID)),
		})
	}
	for _, t := range w.Teams {
		out = append(out, Wait{
			Kind: WaitApproval, ID: t.ID, Agent: t.Actor, Since: t.At, Fact: fmt.Sprintf("%s asks to %s in the team %s", t.Actor, t.Action, t.Team),
			Yes: "approve", No: "deny", Command: "parley approve " + short(t.ID),
		})
	}
	for _, t := range w.Talks {
		i := Wait{
			Kind: WaitEscalation, ID: t.ID, Agent: t.From, Since: t.EscalatedAt, Fact: fmt.Sprintf("a %s of %s and %s needs your decision", t.Kind, t.From, names(t.Asked)), Text: t.Title,
			Private: t.Policy.Sensitivity == hub.SensitivityHigh, Command: fmt.Sprintf("parley decide %s", short(t.ID)),
		}
		if t.Kind == hub.KindNegotiation {
			i.Yes, i.No = "accept", "decline"
		}
		out = append(out, i)
	}
	for _, p := range w.Peers {
		out = append(out, Wait{Kind: WaitPeer, ID: string(p.AID), Fact: fmt.Sprintf("%s wants to be a peer of this hub", p.AID), Yes: "approve", Command: fmt.Sprintf("parley peer approve %s", p.AID)})
	}
	for _, a := range w.Troubled {
		i := Wait{Kind: WaitKind(a.Word), ID: string(a.ID), Agent: a.ID, Since: a.LastSeen, Fact: fmt.Sprintf("%s is %s: %s", a.ID, a.Word, a.Why), Command: "parley agent list"}
		if a.Word == "suspended" {
			i.Yes, i.Command = "lift the suspension", fmt.Sprintf("parley agent reset %s", a.ID)
		}
		out = append(out, i)
	}
	for _, c := range w.Conflicts {
		out = append(out, Wait{
			Kind: WaitConflict, ID: string(c.Project) + "/" + string(c.ID), Fact: fmt.Sprintf("two contents of version %d of a contract were written at a time, one lost", c.Version), Text: c.Name,
			Command: fmt.Sprintf("parley contract show %s --project %s", c.ID, c.Project),
		})
	}
	for _, k := range w.Merges {
		i := Wait{
			Kind: WaitConflict, ID: fmt.Sprintf("%s/%s %d", k.Team, k.Artifact, k.Version), Agent: k.Author, Since: k.At, Fact: fmt.Sprintf("two versions of an artifact of the team %s must be merged", k.Team),
			Text: fmt.Sprintf("version %d of %s", k.Version, k.Artifact), Command: fmt.Sprintf("parley team artifact log %s %s", k.Team, k.Artifact),
		}
		if k.Result > 0 {
			i.Fact, i.Command = fmt.Sprintf("a merge in the team %s needs a signature", k.Team), fmt.Sprintf("parley team artifact merge %s %s --sign-off", k.Team, k.Artifact)
		}
		out = append(out, i)
	}
	for _, h := range w.Late {
		out = append(out, Wait{
			Kind: WaitLate, ID: string(h.ID), Agent: h.To, Since: h.DueAt, Fact: fmt.Sprintf("a task of %s is late since %s", h.To, h.DueAt.UTC().Format("2006-01-02 15:04Z")), Text: h.Title,
			Private: h.Restricted, Command: fmt.Sprintf("parley handoff show %s", cmp.Or(string(h.ShortID), string(h.ID))),
		})
	}
	for _, o := range w.Overdue {
		out = append(out, Wait{
			Kind: WaitOverdue, ID: string(o.Message.ID), Agent: o.Missing[0], Since: o.By,
			Fact: fmt.Sprintf("%s did not acknowledge a message of %s by %s", names(o.Missing), o.Message.From, o.By.UTC().Format("2006-01-02 15:04Z")), Text: mailroom.Headline(o.Message),
			Private: o.Message.Policy.Sensitivity == hub.SensitivityHigh, Command: "parley trace " + short(string(o.Message.ID)),
		})
	}
	if w.Free > 0 {
		out = append(out, Wait{Kind: WaitDisk, ID: "home", Fact: fmt.Sprintf("the disk of the hub has %d MiB free", w.Free>>20), Command: "parley doctor"})
	}
	for _, e := range w.Inbox {
		i := Wait{
			Kind: WaitMail, ID: string(e.ID), Agent: e.From, Since: e.CreatedAt, Fact: fmt.Sprintf("%s wrote to you", e.From), Text: mailroom.Headline(e),
			Private: e.Policy.Sensitivity == hub.SensitivityHigh, Yes: "mark as read", Command: fmt.Sprintf("parley respond %s TEXT --as-operator", short(string(e.ID))),
		}
		if e.From == hub.Self {
			i.Command = "parley inbox --as-operator"
		}
		out = append(out, i)
	}
	slices.SortStableFunc(out, func(a, b Wait) int {
		return cmp.Compare(slices.Index(WaitKinds, a.Kind), slices.Index(WaitKinds, b.Kind))
	})
	return out
}

func names(ids []hub.AgentID) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		if out[i] = string(id); id == hub.Everyone {
			out[i] = "all"
		}
	}
	return strings.Join(out, ", ")
}
