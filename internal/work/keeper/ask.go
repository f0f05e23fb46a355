package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A Question of a kept agent waits for a person.
type Question struct {
	ID      int      `json:"id"`
	Text    string   `json:"text"`
	Choices []Choice `json:"choices"`
	Until   hub.Time `json:"until,omitzero"`    // after which it is denied
	Session string   `json:"session,omitempty"` // a further session; empty for the kept one

	answer   chan string
	answered bool // guarded by the desk
}

// maxAsks is the number of questions of an agent that wait; further ones are denied.
const maxAsks = 16

// A Choice is an answer to a question.
type Choice struct {
	ID   string             `json:"id"`
	Name string             `json:"name"`
	Kind sandbox.OptionKind `json:"kind,omitempty"`
}

// Label returns the choice for people, its effect first.
func (c Choice) Label() string { return sandbox.Option(c).Label() }

// toolServer is the name of the hub among the MCP servers of an agent.
const toolServer = "parley"

// permissions decides the requests of a kept agent: by its policy, except for the hub's
// own tools, which every policy allows. The hub decides itself about each call of them.
type permissions struct {
	*agent
	policy sandbox.Policy
	ask    sandbox.Asker
	runs   string // the words about the commands that the hub runs for the agent; "" in a session without the hub's tools
}

// requestKey is the key of a permission request, as it came, in its context.
type requestKey struct{}

// errNoRequest says that a permission request did not come from a connection.
var errNoRequest = errors.New("keeper: no request of the protocol")

// firstVersion returns a permission request in version 1 of the protocol, which windows speak.
func firstVersion(r *acp.PermissionRequest) ([]byte, error) {
	switch {
	case r.V1 != nil:
		return r.V1.MarshalJSON()
	case r.V2 == nil:
		return nil, errNoRequest
	}
	converted, err := acpv2.ToV1(r.V2, &acpv2.V1Options{Lossy: true})
	if err != nil {
		return nil, err
	}
	return converted.Message.MarshalJSON()
}

// Decide logs each request that is refused.
func (p permissions) Decide(ctx context.Context, r *acp.PermissionRequest) (sandbox.Decision, error) {
	policy := acp.ByPolicy(p.policy, p.ask)
	if raw, err := firstVersion(r); err == nil {
		ctx = context.WithValue(ctx, requestKey{}, json.RawMessage(raw))
	}
	if !r.Unknown && p.hubTool(r.Request) {
		policy = acp.ByPolicy(sandbox.PolicyYolo, nil)
	}
	got, err := policy.Decide(ctx, r)
	if !got.Allowed && got.Reason != "" {
		p.log.add("denied", r.Title+": "+got.Reason)
	}
	if !got.Allowed && r.Kind == sandbox.KindExecute && p.runs != "" {
		p.explainRefusal(ctx, p.runs)
	}
	return got, err
}

// hubTool reports whether a request is about a tool of the hub. Agents name one in the
// title of the request, each in its own way, or in its options; all call its kind other.
// Names are compared whole: some titles have arguments, which are words of a model.
func (p permissions) hubTool(r sandbox.Request) bool {
	if (r.Kind != sandbox.KindOther && r.Kind != "") || len(r.Paths) > 0 {
		return false
	}
	for name, title := range p.o.Tools {
		switch r.Title {
		case title, name, "mcp__" + toolServer + "__" + name, name + " (" + toolServer + " MCP Server)", toolServer + "-" + name, toolServer + "_" + name:
			return true
		}
		for _, o := range r.Options {
			if strings.HasPrefix(o.Name, "Always Allow ") && strings.HasSuffix(o.Name, ": "+name) {
				return true
			}
		}
	}
	return false
}

// ask holds a question of the kept session for a person.
func (a *agent) ask(ctx context.Context, r sandbox.Request) (string, error) {
	a.mu.Lock()
	turn := a.turn
	a.mu.Unlock()
	return a.hold(ctx, r, holding{
		feed: a.feed, turn: turn, allowed: a.record.Question.or(defaultQuestion),
		begin: func() {
			a.move(Asking)
			a.report(ctx, wake.EventWaiting, "")
		},

		// The agent works again when none of its questions is open.
		end: func() {
			a.live()
			if a.desk.open("") == 0 {
				a.move(Working)
				a.report(ctx, wake.EventTool, "")
			}
		},
	})
}

// A holding says for which session a question waits.
type holding struct {
	session    string // "" for the kept one
	feed       *feed
	turn       string
	allowed    time.Duration
	begin, end func() // called while the question waits, and after that
}

// hold holds a question of a session for a person: its windows, the log and a notice show it.
// Without an answer in time it is denied.
func (a *agent) hold(ctx context.Context, r sandbox.Request, h holding) (string, error) {
	text := shorten.Text(r.Title, 400)
	if r.Warning != "" {
		text += " (" + shorten.Text(r.Warning, 400) + ")"
	}
	q := &Question{Text: text, Session: h.session, Until: a.o.Clock.Now().Add(h.allowed), answer: make(chan string, 1)}
	for _, o := range r.Options {
		q.Choices = append(q.Choices, Choice{o.ID, o.Name, o.Kind})
	}
	shown, ok := a.desk.add(q)
	if !ok {
		a.log.add("denied", q.Text+": too many open questions")
		return "", nil
	}

	// The state of the agent, its log and a notice show the question to people.
	h.begin()
	request, _ := ctx.Value(requestKey{}).(json.RawMessage)
	h.feed.add(Event{Kind: EventAsk, Turn: h.turn, Ask: &Ask{shown, request}})
	a.log.add("ask", fmt.Sprintf("%s (parley approve q%d, or deny q%[2]d)", q.Text, q.ID))
	a.saveAndWrite(ctx, func(*record) {}, func(tx hub.Tx) (hub.Message, error) {
		id := fmt.Sprintf("%s %d", a.name, q.ID)
		text := fmt.Sprintf("%s asks: %s; yes or no: parley approve q%d, parley deny q%[3]d", a.name, q.Text, q.ID)
		return a.o.Ask(tx, text, hub.NoticeSubject{Kind: hub.NoticeQuestion, ID: id})
	})

	defer func() {
		a.desk.remove(q)
		h.feed.add(Event{Kind: EventDecided, Turn: h.turn, Question: q.ID})
		h.end()
	}()

	timeout := time.NewTimer(h.allowed)
	defer timeout.Stop()
	select {
	case option := <-q.answer:
		return option, nil
	case <-timeout.C:
		a.log.add("denied", q.Text+": no answer in time")
		return "", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// A desk has the open questions of all sessions of an agent, each with a number of its own.
type desk struct {
	last *atomic.Int64 // the number of the newest question of all agents: a person names it as q and the number

	mu   sync.Mutex // guards what follows
	asks []*Question
}

// add numbers a question and opens it. It returns the question as it is now, since an answer may
// change it at once. It reports false if too many are open.
func (d *desk) add(q *Question) (Question, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.asks) == maxAsks {
		return Question{}, false
	}
	q.ID = int(d.last.Add(1)) // a number is never used again: a late answer must not decide another question
	d.asks = append(d.asks, q)
	return *q, true
}

// remove closes a question.
func (d *desk) remove(q *Question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asks = slices.DeleteFunc(d.asks, func(other *Question) bool { return other == q })
}

// list returns the open questions.
func (d *desk) list() (all []Question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.asks {
		all = append(all, *q)
	}
	return all
}

// open returns the number of open questions of a session.
func (d *desk) open(session string) (n int) {
	for _, q := range d.list() {
		if q.Session == session {
			n++
		}
	}
	return n
}

// take returns an open question and marks it as answered, so that one answer alone counts. found
// is false if there is no such question; it returns nil if the question was answered before.
func (d *desk) take(id int) (q *Question, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.asks, func(q *Question) bool { return q.ID == id })
	if i < 0 {
		return nil, false
	}
	if q = d.asks[i]; q.answered {
		return nil, true
	}
	q.answered = true
	return q, true
}

// giveBack opens a question for another answer.
func (d *desk) giveBack(q *Question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q.answered = false
}

// The answers that every question takes.
const (
	Yes = "yes" // allow once
	No  = "no"  // reject once
)

// choose returns the choice of an answer: the one of that id, or the one that Yes and No stand
// for. Without an answer, and for No if the agent offers no such choice, the question is
// denied: the choice is empty.
func (q *Question) choose(answer string) (Choice, bool) {
	meant := map[string]sandbox.OptionKind{Yes: sandbox.AllowOnce, No: sandbox.RejectOnce}
	for _, c := range q.Choices {
		if c.ID == answer && answer != "" {
			return c, true
		}
	}
	for _, c := range q.Choices {
		if kind := meant[answer]; kind != "" && c.Kind == kind {
			return c, true
		}
	}
	return Choice{}, answer == "" || answer == No
}

// Answer answers a question of a kept agent with yes, no or the id of an option, or denies
// it with none. It returns the choice.
func (k *Keeper) Answer(ctx context.Context, actor hub.Caller, name hub.AgentID, id int, option string) (Choice, error) {
	const op = "keeper.Answer"
	if err := actor.OperatorOf(op, name); err != nil {
		return Choice{}, err
	}
	a, err := k.serving(ctx, op, name)
	if err != nil {
		return Choice{}, err
	}

	// Of several people who answer at the same time, the first decides.
	q, found := a.desk.take(id)
	switch {
	case !found:
		return Choice{}, hub.Errorf(hub.CodeNotFound, op, "%s has no open question %d", name, id).WithHint("run \"parley agent list --kept\" to list the questions")
	case q == nil:
		return Choice{}, hub.Errorf(hub.CodeConflict, op, "question %d of %s is already answered", id, name)
	}
	chosen, ok := q.choose(option)
	if !ok {
		a.desk.giveBack(q)
		return Choice{}, hub.Errorf(hub.CodeInvalid, op, "%q is not an option of question %d", option, id).WithHint("answer yes or no; parley agent list --kept --json lists the options")
	}

	// The answer is in the journal before the agent gets it.
	err = k.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		_, err := tx.Append(actor.Entry(k.o.Clock.Now(), actions.AgentAnswered, "kept/"+string(name), map[string]any{"option": chosen.ID, "kind": chosen.Kind}))
		return err
	})
	if err != nil {
		a.desk.giveBack(q)
		return Choice{}, fmt.Errorf("keeper: answer: %w", err)
	}
	q.answer <- chosen.ID
	return chosen, nil
}
