package attention

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// A Thing is the noun that an item is about, as far as a person approves or denies it with
// its id.
type Thing string

// The things.
const (
	ThingMessage   Thing = "message"   // a held message
	ThingHandoff   Thing = "handoff"   // a task that needs an approval
	ThingOperation Thing = "operation" // an operation of a team
	ThingLanding   Thing = "landing"   // an entry of a landing queue
)

// An Item is one thing that waits for a person.
type Item struct {
	Kind    Kind
	ID      string      // of the thing, in commands
	ShortID hub.ShortID // "" if the thing has none
	Thing   Thing       // "" if it is neither approved nor denied with its id
	Agent   hub.AgentID // which it is about
	Since   hub.Time
	Fact    string // a sentence of the hub, without text of agents
	Title   string // words of an agent on one line
	Private bool   // the title is of high sensitivity, or of a restricted task
	Command string // answers it, or shows it
	Yes     string // what a yes does; "" if it is not answered so
	No      string // what a no does
	Answer  Answer // the yes to a question
}

// An Answer is the yes to a question of an agent.
type Answer struct {
	Question int
	Choice   string
}

// Key returns a name that no other item has.
func (i Item) Key() string { return string(i.Kind) + " " + i.ID }

// IsAbout reports whether a message is the hub's notice about the item.
func (i Item) IsAbout(e hub.Envelope) bool {
	rank := i.Kind.rank()
	return e.From == hub.Self && rank >= 0 && table[rank].notice != nil && table[rank].notice(i, e)
}

// A Question of an agent that the hub runs waits for a person.
type Question struct {
	Agent  hub.AgentID
	Number int // of the question, among those of the agent
	Since  hub.Time
	Text   string
	Once   string // the choice that allows it once; "" if the agent offers none
}

// A Trouble is an agent that is stuck or suspended.
type Trouble struct {
	Agent hub.AgentID
	Kind  Kind   // KindStuck or KindSuspended
	Why   string // in words of the hub
	Since hub.Time
}

// A Task is a handoff that was not done in time.
type Task struct {
	ID         hub.HandoffID
	ShortID    hub.ShortID
	To         hub.AgentID // who works on it
	Title      string
	Restricted bool
	Due        hub.Time
}

// An Overdue is a message that was not acknowledged in time.
type Overdue struct {
	Message hub.Envelope
	By      hub.Time
	Missing []hub.AgentID // the recipients without an acknowledgement; never empty
}

// A Blocked is an agent that has waited for a file of another agent for long.
type Blocked struct {
	ID          string // of the wait
	Agent       hub.AgentID
	Since       hub.Time
	Tree        string // the path of the working tree
	Path        string // of the file, relative to the tree
	Holder      hub.AgentID
	Reservation hub.ReservationID // of the holder
}

// A Contract is a contract of a project, one content of which lost.
type Contract struct {
	Project coord.ProjectID
	ID      coord.ContractID
	Name    string
	Version int
}

// Waiting is everything that waits for a person, as the nouns of the hub. Items lists it.
type Waiting struct {
	Questions  []Question
	Messages   []hub.Envelope   // held
	Handoffs   []hub.Handoff    // that need an approval
	Operations []hub.HeldAction // of teams
	Talks      []hub.Deliberation
	Peers      []coord.AID
	Troubled   []Trouble
	Blocked    []Blocked
	Late       []Task
	Overdue    []Overdue
	Contracts  []Contract
	Merges     []hub.Conflict
	Landings   []hub.LandingEntry // that wait for the operator
	Reviews    []hub.Review       // likewise
	Free       int64              // bytes on the disk of the home, if that is low
	Inbox      []hub.Envelope     // of the operator, without Notices
	More       int                // messages in the inbox that are not among these
	Notices    []hub.Envelope     // of the hub in the inbox, about the other members
	ShortIDs   map[string]hub.ShortID
}

// sortMail moves the hub's notices about other items from the inbox to Notices: an item and
// its notice are one thing for a person.
func (w *Waiting) sortMail(title Headline) {
	mail := w.Inbox
	w.Inbox = nil
	items := w.Items(title)
	for _, e := range mail {
		if slices.ContainsFunc(items, func(i Item) bool { return i.IsAbout(e) }) {
			w.Notices = append(w.Notices, e)
			continue
		}
		w.Inbox = append(w.Inbox, e)
	}
}

// About returns the ids of the hub's notices about an item. They are read once it is
// answered.
func (w Waiting) About(i Item) (ids []hub.EnvelopeID) {
	for _, e := range w.Notices {
		if i.IsAbout(e) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// Items returns everything that waits, the most pressing kinds first.
func (w Waiting) Items(title Headline) []Item {
	l := lister{title: title, short: w.ShortIDs}
	var out []Item
	for _, q := range w.Questions {
		out = append(out, questionItem(q))
	}
	for _, e := range w.Messages {
		out = append(out, l.held(e))
	}
	for _, h := range w.Handoffs {
		out = append(out, l.handoff(h))
	}
	for _, o := range w.Operations {
		out = append(out, l.operation(o))
	}
	for _, d := range w.Talks {
		out = append(out, l.talk(d))
	}
	for _, aid := range w.Peers {
		out = append(out, peerItem(aid))
	}

	for _, t := range w.Troubled {
		out = append(out, troubleItem(t))
	}
	for _, b := range w.Blocked {
		out = append(out, blockedItem(b))
	}
	for _, c := range w.Contracts {
		out = append(out, contractItem(c))
	}
	for _, k := range w.Merges {
		out = append(out, mergeItem(k))
	}
	for _, e := range w.Landings {
		out = append(out, landingItem(e))
	}
	for _, v := range w.Reviews {
		out = append(out, reviewItem(v))
	}
	for _, t := range w.Late {
		out = append(out, lateItem(t))
	}
	for _, o := range w.Overdue {
		out = append(out, l.overdue(o))
	}
	if w.Free > 0 {
		out = append(out, diskItem(w.Free))
	}
	for _, e := range w.Inbox {
		out = append(out, l.mail(e))
	}

	// Within a kind, the order of the lists above stays.
	for n := range out {
		out[n].complete(w.ShortIDs)
	}
	slices.SortStableFunc(out, func(a, b Item) int { return cmp.Compare(a.Kind.rank(), b.Kind.rank()) })
	return out
}

// complete fills in the short id of an item and the answers of its kind.
func (i *Item) complete(short map[string]hub.ShortID) {
	i.ShortID = cmp.Or(i.ShortID, short[i.ID])
	row := table[i.Kind.rank()]
	i.Yes = cmp.Or(i.Yes, row.yes)
	i.No = cmp.Or(i.No, row.no)
}

// A lister makes items of nouns.
type lister struct {
	title Headline
	short map[string]hub.ShortID
}

// name returns the short id of a thing, or else its id.
func (l lister) name(id string) string { return cmp.Or(string(l.short[id]), id) }

func questionItem(q Question) Item {
	id := fmt.Sprintf("%s %d", q.Agent, q.Number)
	i := Item{
		Kind:    KindQuestion,
		ID:      id,
		Agent:   q.Agent,
		Since:   q.Since,
		Fact:    fmt.Sprintf("%s asks before it continues", q.Agent),
		Title:   q.Text,
		Command: "parley agent list --kept",
		Answer:  Answer{Question: q.Number},
	}
	if q.Once != "" {
		i.Yes = "allow once"
		i.Answer.Choice = q.Once
		i.Command = fmt.Sprintf("parley approve q%d", q.Number)
	}
	return i
}

func (l lister) held(e hub.Envelope) Item {
	return Item{
		Kind:    KindHeld,
		ID:      string(e.ID),
		Thing:   ThingMessage,
		Agent:   e.From,
		Since:   e.CreatedAt,
		Fact:    fmt.Sprintf("a message from %s to %s needs your approval", e.From, names(e.To)),
		Title:   l.title(e),
		Private: e.Policy.Sensitivity == hub.SensitivityHigh,
		Command: "parley approve " + l.name(string(e.ID)),
	}
}

func (l lister) handoff(h hub.Handoff) Item {
	return Item{
		Kind:    KindApproval,
		ID:      string(h.ID),
		Thing:   ThingHandoff,
		Agent:   h.From,
		Since:   h.InitiatedAt,
		Fact:    fmt.Sprintf("a task from %s to %s needs your approval", h.From, h.To),
		Title:   h.Title,
		Private: h.Restricted,
		Command: "parley approve " + l.name(string(h.ID)),
	}
}

func (l lister) operation(o hub.HeldAction) Item {
	return Item{
		Kind:    KindApproval,
		ID:      o.ID,
		Thing:   ThingOperation,
		Agent:   o.Actor,
		Since:   o.At,
		Fact:    fmt.Sprintf("%s asks to %s in team %s", o.Actor, o.Action, o.Team),
		Command: "parley approve " + l.name(o.ID),
	}
}

// talk returns the item of a discussion. An offer is accepted or declined with one word;
// a disagreement needs more.
func (l lister) talk(d hub.Deliberation) Item {
	i := Item{
		Kind:    KindEscalation,
		ID:      d.ID,
		Agent:   d.From,
		Since:   d.EscalatedAt,
		Fact:    fmt.Sprintf("a %s between %s and %s needs your decision", d.Kind, d.From, names(d.Asked)),
		Title:   d.Title,
		Private: d.Policy.Sensitivity == hub.SensitivityHigh,
		Command: "parley decide " + l.name(d.ID),
	}
	if d.Kind == hub.KindNegotiation {
		i.Yes = "accept"
		i.No = "decline"
	}
	return i
}

func peerItem(aid coord.AID) Item {
	return Item{
		Kind:    KindPeer,
		ID:      string(aid),
		Fact:    fmt.Sprintf("%s asks to become a peer of this hub", aid),
		Command: "parley peer approve " + string(aid),
	}
}

func troubleItem(t Trouble) Item {
	i := Item{
		Kind:    t.Kind,
		ID:      string(t.Agent),
		Agent:   t.Agent,
		Since:   t.Since,
		Fact:    fmt.Sprintf("%s is %s: %s", t.Agent, t.Kind, t.Why),
		Command: "parley agent list",
	}
	if t.Kind == KindSuspended {
		i.Command = "parley agent resume --suspension " + string(t.Agent)
	}
	return i
}

func blockedItem(b Blocked) Item {
	return Item{
		Kind:    KindBlocked,
		ID:      b.ID,
		Agent:   b.Agent,
		Since:   b.Since,
		Fact:    fmt.Sprintf("%s has waited since %s for a file that %s holds", b.Agent, minute(b.Since), b.Holder),
		Title:   b.Path,
		Command: "parley files release --id " + string(b.Reservation),
	}
}

func contractItem(c Contract) Item {
	return Item{
		Kind:    KindConflict,
		ID:      string(c.Project) + "/" + string(c.ID),
		Fact:    fmt.Sprintf("two contents of version %d of a contract were written at the same time; one was dropped", c.Version),
		Title:   c.Name,
		Command: fmt.Sprintf("parley contract show %s --project %s", c.ID, c.Project),
	}
}

// mergeItem returns the item of two versions of an artifact: they are merged, or their merge
// is signed.
func mergeItem(k hub.Conflict) Item {
	i := Item{
		Kind:    KindConflict,
		ID:      fmt.Sprintf("%s/%s %d", k.Team, k.Artifact, k.Version),
		Agent:   k.Author,
		Since:   k.At,
		Fact:    fmt.Sprintf("two versions of an artifact in team %s must be merged", k.Team),
		Title:   fmt.Sprintf("version %d of %s", k.Version, k.Artifact),
		Command: fmt.Sprintf("parley team document log %s %s", k.Team, k.Artifact),
	}
	if k.Result > 0 {
		i.Fact = fmt.Sprintf("a merge in team %s needs a signature", k.Team)
		i.Command = fmt.Sprintf("parley team document merge %s %s --sign-off", k.Team, k.Artifact)
	}
	return i
}

func landingItem(e hub.LandingEntry) Item {
	return Item{
		Kind:    KindLanding,
		ID:      string(e.ID),
		Thing:   ThingLanding,
		Agent:   e.Owner,
		Since:   e.MovedAt,
		Fact:    fmt.Sprintf("a change of %s waits for your yes to land in %s", e.Owner, e.Into),
		Title:   e.Ref,
		Command: "parley approve " + string(e.ID),
	}
}

func reviewItem(v hub.Review) Item {
	i := Item{
		Kind:    KindReview,
		ID:      string(v.ID),
		Since:   v.AskedAt,
		Fact:    fmt.Sprintf("a change waits for the review of %s since %s", v.Reviewer, minute(v.AskedAt)),
		Title:   v.Subject(),
		Command: fmt.Sprintf("parley land review %s approve", v.ID),
	}
	if len(v.Authors) > 0 {
		i.Agent = v.Authors[0]
	}
	return i
}

func lateItem(t Task) Item {
	return Item{
		Kind:    KindLate,
		ID:      string(t.ID),
		ShortID: t.ShortID,
		Agent:   t.To,
		Since:   t.Due,
		Fact:    fmt.Sprintf("a task of %s has been late since %s", t.To, minute(t.Due)),
		Title:   t.Title,
		Private: t.Restricted,
		Command: "parley show " + cmp.Or(string(t.ShortID), string(t.ID)),
	}
}

func (l lister) overdue(o Overdue) Item {
	return Item{
		Kind:    KindOverdue,
		ID:      string(o.Message.ID),
		Agent:   o.Missing[0],
		Since:   o.By,
		Fact:    fmt.Sprintf("%s did not acknowledge a message from %s by %s", names(o.Missing), o.Message.From, minute(o.By)),
		Title:   l.title(o.Message),
		Private: o.Message.Policy.Sensitivity == hub.SensitivityHigh,
		Command: "parley show " + l.name(string(o.Message.ID)),
	}
}

func diskItem(free int64) Item {
	return Item{
		Kind:    KindDisk,
		ID:      "home",
		Fact:    fmt.Sprintf("the hub's disk has %d MiB free", free>>20),
		Command: "parley doctor",
	}
}

// mail returns the item of a message to the operator. A notice about a violation is an item of
// its own kind, which waits until it is read.
func (l lister) mail(e hub.Envelope) Item {
	i := Item{
		Kind:    KindMail,
		ID:      string(e.ID),
		Agent:   e.From,
		Since:   e.CreatedAt,
		Fact:    fmt.Sprintf("%s wrote to you", e.From),
		Title:   l.title(e),
		Private: e.Policy.Sensitivity == hub.SensitivityHigh,
		Command: fmt.Sprintf("parley reply %s TEXT --as-operator", l.name(string(e.ID))),
	}
	if e.From == hub.Self {
		i.Command = "parley inbox --as-operator"
	}
	if about, ok := e.NoticeSubject(); ok && about.Kind == hub.NoticeViolation {
		i.Kind = KindViolation
		i.Fact = "an agent changed a file that another agent holds"
	}
	return i
}

// minute returns a time for a sentence, in UTC.
func minute(t hub.Time) string { return t.UTC().Format("2006-01-02 15:04Z") }

// names returns agents as a list.
func names(ids []hub.AgentID) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
		if id == hub.Everyone {
			out[i] = "all"
		}
	}
	return strings.Join(out, ", ")
}
