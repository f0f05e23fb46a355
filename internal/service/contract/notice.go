package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// A notice is the payload of the message about an event in a project.
type notice struct {
	Summary  string               `json:"summary"`
	Event    string               `json:"event"`
	Project  coord.ProjectID      `json:"project_id"`
	Contract coord.ContractID     `json:"contract_id,omitempty"`
	Packet   coord.PacketID       `json:"packet_id,omitempty"`
	Name     string               `json:"name,omitempty"`
	Version  int                  `json:"version,omitempty"`
	Status   coord.ContractStatus `json:"status,omitempty"`
	By       string               `json:"by,omitempty"` // name of the repository
	Urgent   bool                 `json:"urgent,omitempty"`
	Count    int                  `json:"count,omitempty"`  // of the events that the message is about, if there are several
	Events   []string             `json:"events,omitempty"` // the last of them, oldest first

	// Of a version or an end that concerns the repository of the recipient.
	Verdict compat.Word     `json:"verdict,omitempty"`
	Parts   []string        `json:"parts,omitempty"`
	Example json.RawMessage `json:"example,omitempty"` // a document that one version takes and the other refuses
	Call    string          `json:"call,omitempty"`    // that is asked of the recipient

	// Of a packet.
	Said   []hub.Quote `json:"said,omitempty"`   // its words, as another agent wrote them
	Answer bool        `json:"answer,omitempty"` // it asks for an answer
	Reply  hub.Reply   `json:"reply,omitempty"`  // the kind of call that answers it
	packet *coord.Packet

	Asked []hub.Quoted `json:"asked,omitempty"` // of several events, the newest that ask for an answer, oldest first
}

// quoted returns the words of a packet with what their answer needs.
func (n notice) quoted() hub.Quoted {
	return hub.Quoted{
		Summary: n.Summary, By: n.By, Project: string(n.Project), Contract: string(n.Contract), Packet: string(n.Packet),
		Said: n.Said, Answer: n.Answer, Reply: n.Reply,
	}
}

// quotedMembers are the members of packets that a notice quotes, in this order.
var quotedMembers = []string{
	"question", "options", "decision", "chosen", "rationale", "implications", "action", "comment", "suggested_change", "result", "notes",
	"language", "file", "explanation", "snippet", "definitions",
}

// maxSaid bounds the characters of the words that a notice quotes; the payload of a message is
// bounded in bytes.
const maxSaid = 600

// quotes returns the words of a packet for its notice: the members of quotedMembers, or else the
// whole content. Words that are too long are cut.
func quotes(content json.RawMessage) (out []hub.Quote) {
	var members map[string]json.RawMessage
	json.Unmarshal(content, &members) // a packet's content is an object
	left := maxSaid
	add := func(name, text string) {
		if text = strings.TrimSpace(text); text == "" || left <= 0 {
			return
		}
		if r := []rune(text); len(r) > left {
			text = string(r[:left]) + "…"
		}
		left -= len([]rune(text))
		out = append(out, hub.Quote{Name: name, Text: text})
	}
	for _, name := range quotedMembers {
		add(name, wordsOf(members[name]))
	}
	if len(out) == 0 {
		add("content", string(content))
	}
	return out
}

// wordsOf returns a JSON value as words: a string without its quotes, strings of a list one after
// the other, and any other value as it is.
func wordsOf(raw json.RawMessage) string {
	var text string
	var list []string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case json.Unmarshal(raw, &text) == nil:
		return text
	case json.Unmarshal(raw, &list) == nil:
		return strings.Join(list, " | ")
	}
	return string(raw)
}

// A concern is what an event means to some repositories. The others read that they are not affected.
type concern struct {
	notices map[coord.RepoID]notice // by repository: text in Summary, and the members of a concern
	others  string
}

// Notices that are not read, or come too fast, are held and sent together later.
const (
	maxUnread        = 100
	noticesPerMinute = 30
	maxSummary       = 280 // characters; see the schema of status.update
	maxHeld          = 50  // sentences of held notices that are kept; all are counted
	maxAskedWords    = 3   // held packets that ask for an answer and keep their words
	noticeEvery      = time.Minute
)

// heldKey is the key of the fact with the notices that are held, by agent.
const heldKey = "contract.notices"

// A heldNotice stands for the notices that one agent has not been sent yet.
type heldNotice struct {
	Count   int             `json:"count"`
	Project coord.ProjectID `json:"project_id"` // of the newest
	Events  []string        `json:"events"`     // the newest, oldest first
	Urgent  bool            `json:"urgent,omitempty"`
	Asked   []hub.Quoted    `json:"asked,omitempty"` // the newest that ask for an answer, oldest first
}

// tell writes a message to the agents of this hub whose repositories are in the
// project, except that of the one that made the event. An agent that does not read, or
// that has notices held, gets it later.
func (se *session) tell(p coord.Project, by coord.RepoID, n notice) error {
	if se.s.o.Sender == nil || se.s.o.Local == nil {
		return nil
	}
	readers, err := se.concerned(p, by, n)
	if err != nil || len(readers) == 0 {
		return err
	}

	// A repository that the event concerns reads its own notice; the others read that they are not
	// affected.
	var told []hub.AgentID
	if c := se.concern; c != nil {
		se.concern = nil
		for _, r := range p.Repos {
			own, ok := c.notices[r.ID]
			to := readers[r.ID]
			if !ok || len(to) == 0 {
				continue
			}
			mine := n
			mine.Summary = cutSummary(own.Summary)
			mine.Urgent = true
			mine.Verdict = own.Verdict
			mine.Parts = own.Parts
			mine.Example = own.Example
			mine.Call = own.Call
			if err := se.send(p, to, mine); err != nil {
				return err
			}
			told = append(told, to...)
		}
		n.Event += c.others
	}

	var to []hub.AgentID
	for _, r := range p.Repos {
		for _, id := range readers[r.ID] {
			if !slices.Contains(told, id) && !slices.Contains(to, id) {
				to = append(to, id)
			}
		}
	}
	if len(to) == 0 {
		return nil
	}
	n.Summary = n.sentence()
	return se.send(p, to, n)
}

// send writes a notice to agents, now or with those that are held for them.
func (se *session) send(p coord.Project, to []hub.AgentID, n notice) error {
	held, err := hub.ReadMeta[map[hub.AgentID]heldNotice](se.tx, heldKey)
	if err != nil {
		return err
	}

	// An agent that reads and has no notices held gets the notice now.
	now, later, err := se.divide(to, held)
	if err != nil {
		return err
	}
	if len(now) > 0 {
		if err := se.post(now, n); err != nil {
			return err
		}
	}
	if len(later) == 0 {
		return nil
	}

	// The other agents get it from SendHeld when they read again.
	if held == nil {
		held = map[hub.AgentID]heldNotice{}
	}
	for _, id := range later {
		held[id] = held[id].with(p.ID, n)
	}
	return hub.WriteMeta(se.tx, heldKey, held)
}

// concerned returns the agents of this hub that hear of an event, by their repositories: those
// that claimed one, but for the repository that made the event, and the caller. For the hub's own
// repository agents act without claiming it; those hear of it, too, and so does the operator if
// no agent claimed it.
func (se *session) concerned(p coord.Project, by coord.RepoID, n notice) (map[coord.RepoID][]hub.AgentID, error) {
	out := map[coord.RepoID][]hub.AgentID{}
	own, hasOwn := se.s.ownRepo(p)
	for _, r := range p.Repos {
		id, ok := se.s.o.Local(r.Agent)
		isOwn := hasOwn && r.ID == own.ID
		if isOwn && r.Agent == "" {
			id, ok = hub.Operator, true
		}
		if !ok || r.ID == by {
			continue
		}
		to := []hub.AgentID{id}
		if isOwn {
			acting, err := se.actingFor(p, r, n)
			if err != nil {
				return nil, err
			}
			for _, one := range acting {
				if one != id {
					to = append(to, one)
				}
			}
		}
		to = slices.DeleteFunc(to, func(id hub.AgentID) bool { return id == se.caller.ID })
		if len(to) > 0 {
			out[r.ID] = to
		}
	}
	return out, nil
}

// maxEntries bounds the journal entries about a contract, newest first, in which the agents that
// acted on it are looked for.
const maxEntries = 100

// actingFor returns the agents that hear of an event for the hub's own repository: those that
// acted for it on the contract, or wrote the packet that is answered; else the hub's coordinators.
func (se *session) actingFor(p coord.Project, own coord.Repo, n notice) ([]hub.AgentID, error) {
	var out []hub.AgentID
	isKnown := false // who acted; the operator is one of them without being listed twice
	add := func(id hub.AgentID) error {
		_, err := se.tx.Agent(id)
		if hub.CodeOf(err) == hub.CodeNotFound {
			return nil
		}
		isKnown = isKnown || err == nil
		if err == nil && id != hub.Operator && !slices.Contains(out, id) {
			out = append(out, id)
		}
		return err
	}

	// The agent that asked the question hears the answer.
	if n.packet != nil && n.packet.ReplyTo != "" {
		parent, err := se.tx.Coordination().Packet(p.ID, n.packet.ReplyTo)
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return nil, err
		}
		if id, isLocal := se.s.o.Local(parent.FromAgent); err == nil && isLocal && parent.FromRepo == own.ID {
			if err := add(id); err != nil {
				return nil, err
			}
		}
	}

	// The agents that proposed or changed the contract hear what became of it.
	if n.Contract != "" {
		entries, err := se.tx.Journal(hub.JournalQuery{Subject: string(n.Contract), Newest: true, Limit: maxEntries})
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			var f facts
			if !isCoordination(e.Action) || json.Unmarshal(e.Facts, &f) != nil {
				continue
			}
			actedForOwn := f.Repo == own.ID && f.Source == ""
			if !actedForOwn {
				continue
			}
			if err := add(e.Actor); err != nil {
				return nil, err
			}
		}
	}
	if holder, ok := se.s.local(own.Agent); isKnown || (ok && holder != hub.Operator) {
		return out, nil
	}

	agents, err := se.tx.Agents()
	for _, a := range agents {
		if a.Role == hub.RoleCoordinator && a.ID != hub.Operator {
			out = append(out, a.ID)
		}
	}
	return out, err
}

// divide splits agents into those that get a notice now, and those that do not read or have
// notices held already.
func (se *session) divide(to []hub.AgentID, held map[hub.AgentID]heldNotice) (now, later []hub.AgentID, err error) {
	for _, id := range to {
		reads, err := se.reads(id)
		if err != nil {
			return nil, nil, err
		}
		if _, waits := held[id]; reads && !waits {
			now = append(now, id)
		} else {
			later = append(later, id)
		}
	}
	return now, later, nil
}

// with returns h with one more notice of a project. Of more than maxHeld sentences, and of more
// than maxAskedWords packets that ask for an answer, the oldest is dropped.
func (h heldNotice) with(project coord.ProjectID, n notice) heldNotice {
	h.Count++
	h.Project = project
	h.Urgent = h.Urgent || n.Urgent
	h.Events = append(h.Events, n.Summary)
	if len(h.Events) > maxHeld {
		h.Events = h.Events[1:]
	}
	if n.Answer && len(n.Said) > 0 {
		h.Asked = append(h.Asked, n.quoted())
	}
	if len(h.Asked) > maxAskedWords {
		h.Asked = h.Asked[1:]
	}
	return h
}

// reads reports whether an agent reads its notices and they do not come too fast.
func (se *session) reads(id hub.AgentID) (bool, error) {
	unread, err := se.tx.CountMessages(hub.CountFilter{Inbox: id, Limit: maxUnread})
	if err != nil || unread >= maxUnread {
		return false, err
	}
	recent, err := se.tx.Sent(hub.SentFilter{From: hub.Self, Since: se.now.Add(-time.Minute), Limit: noticesPerMinute})
	return len(recent) < noticesPerMinute, err
}

// post writes the message about an event.
func (se *session) post(to []hub.AgentID, n notice) error {
	payload, err := json.Marshal(n)
	if err != nil {
		return err
	}
	priority := hub.PriorityNormal
	if n.Urgent {
		priority = hub.PriorityHigh
	}
	thread := "project/" + string(n.Project)
	if n.Contract != "" {
		thread = "contract/" + string(n.Contract)
	}
	msg, err := se.s.o.Sender.Post(se.tx, hub.Caller{ID: hub.Self}, hub.Envelope{
		To: to, Type: hub.TypeStatusUpdate, ThreadID: thread, Topic: "coordination", Priority: priority, Payload: payload, Policy: hub.DefaultPolicy,
	}, false)
	if err == nil {
		se.messages = append(se.messages, msg)
	}
	return err
}

// SendHeld sends each agent that reads again the notices that were held, in one message.
func (s *Service) SendHeld(ctx context.Context) error {
	if s.o.Sender == nil {
		return nil
	}

	return s.update(ctx, hub.Caller{ID: hub.Self}, "", func(se *session) error {
		held, err := hub.ReadMeta[map[hub.AgentID]heldNotice](se.tx, heldKey)
		if err != nil || len(held) == 0 {
			return err
		}

		for _, id := range slices.Sorted(maps.Keys(held)) {
			ok, err := se.reads(id)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}

			// An agent gets all events of its held notices in one message.
			h := held[id]
			n := notice{
				Summary: cutSummary(fmt.Sprintf("%d events, the last: %s", h.Count, h.Events[len(h.Events)-1])), Event: "several events",
				Project: h.Project, Count: h.Count, Events: h.Events, Urgent: h.Urgent, Asked: h.Asked,
			}
			if err := se.post([]hub.AgentID{id}, n); err != nil {
				return err
			}
			delete(held, id)
		}

		return hub.WriteMeta(se.tx, heldKey, held)
	})
}

// sentence describes the event.
func (n notice) sentence() string {
	by := n.By
	if by == "" {
		by = "a peer"
	}
	var s string
	switch {
	case n.Packet != "":
		s = fmt.Sprintf("%s shared %s %s, packet %s", by, article(n.Name), n.Name, n.Packet.Short())
	case n.Contract != "":
		s = fmt.Sprintf("%s: contract %q version %d is %s (%s)", by, n.Name, n.Version, n.Status, strings.ReplaceAll(n.Event, "_", " "))
	default:
		s = fmt.Sprintf("%s: %s", by, n.Event)
	}
	return cutSummary(s)
}

// article returns the indefinite article of a noun.
func article(noun string) string {
	if noun != "" && strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an"
	}
	return "a"
}

// agreementConcern says which repositories an update that is not compatible asks for their
// agreement, which of their parts it breaks, and with which call they answer.
func agreementConcern(p coord.Project, by coord.Repo, c coord.Contract, j judgement, asked []coord.Repo) *concern {
	out := &concern{notices: map[coord.RepoID]notice{}, others: "; you are not affected"}
	for _, r := range asked {
		n := notice{Verdict: j.verdict.Verdict, Call: fmt.Sprintf("parley contract respond %s agree --repo %s --version %d", c.ID, r.Name, c.Version)}
		text := ""
		for _, one := range j.forThem.Consumers {
			if one.Repository != r.Name {
				continue
			}
			n.Verdict = one.Verdict
			for _, i := range one.Findings {
				f := j.forThem.Findings[i]
				if f.IfUsed() == compat.Compatible {
					continue
				}
				n.Parts = append(n.Parts, f.Parts...)
				if text == "" {
					text = f.Rule + " at " + f.Pointer + ": " + f.Text
				}
				if f.Example != nil && n.Example == nil && len(f.Example.Document) <= maxExample {
					n.Example = f.Example.Document
				}
			}
		}
		slices.Sort(n.Parts)
		n.Parts = slices.Compact(n.Parts)
		if len(n.Parts) > maxNamed {
			n.Parts = n.Parts[:maxNamed]
		}
		if text != "" {
			text = " (" + text + ")"
		}
		n.Summary = fmt.Sprintf("%s: version %d of %q is %s for %s, and your agreement is asked: %s%s", by.Name, c.Version, c.Name, n.Verdict, r.Name, n.Call, text)
		out.notices[r.ID] = n
	}
	return out
}

// endConcern says which repositories still use a part that ends or has ended.
func endConcern(p coord.Project, c coord.Contract, a Announcement, withdrawn bool, users []string) *concern {
	out := &concern{notices: map[coord.RepoID]notice{}, others: "; you do not use it"}
	what := fmt.Sprintf("%q", c.Name)
	if a.Part != "" {
		what = a.Part + " of " + what
	}
	ends := "ends after " + a.Until
	if withdrawn {
		ends = "was withdrawn"
	}
	for _, name := range users {
		r, ok := p.RepoNamed(name)
		if !ok {
			continue
		}
		n := notice{Call: fmt.Sprintf("parley contract use %s --repo %s --remove", c.ID, name)}
		if a.Part != "" {
			n.Parts = []string{a.Part}
			n.Call = fmt.Sprintf("parley contract use %s --repo %s --part PART", c.ID, name)
		}
		n.Summary = fmt.Sprintf("%s %s, and %s uses it: stop using it, then declare that: %s", what, ends, name, n.Call)
		out.notices[r.ID] = n
	}
	return out
}

func cutSummary(s string) string {
	if r := []rune(s); len(r) > maxSummary {
		s = string(r[:maxSummary-1]) + "…"
	}
	return s
}
