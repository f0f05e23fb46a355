package keeper

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/acp"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/shorten"
	"github.com/parley-agents/parley/sandbox"
)

// A Question of a kept agent waits for a person.
type Question struct {
	ID      int      `json:"id"`
	Text    string   `json:"text"`
	Choices []Choice `json:"choices"`
	Until   hub.Time `json:"until,omitzero"` // after which it is denied

	answer chan string
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
type permissions struct{ *agent }

// Decide logs each request that is refused.
func (p permissions) Decide(ctx context.Context, r *acp.PermissionRequest) (sandbox.Decision, error) {
	policy := acp.ByPolicy(p.record.Policy, p.asker())
	if !r.Unknown && p.hubTool(r.Request) {
		policy = acp.ByPolicy(sandbox.PolicyYolo, nil)
	}
	got, err := policy.Decide(ctx, r)
	if !got.Allowed && got.Reason != "" {
		p.log.add("denied", r.Title+": "+got.Reason)
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

// ask holds a question of the agent for a person. Without an answer in time it is
// denied.
func (a *agent) ask(ctx context.Context, r sandbox.Request) (string, error) {
	allowed := a.record.Question.or(defaultQuestion)
	text := shorten.Text(r.Title, 400)
	if r.Warning != "" {
		text += " (" + shorten.Text(r.Warning, 400) + ")"
	}
	q := &Question{Text: text, Until: a.o.Clock.Now().Add(allowed), answer: make(chan string, 1)}
	for _, o := range r.Options {
		q.Choices = append(q.Choices, Choice{o.ID, o.Name, o.Kind})
	}

	// An agent has at most maxAsks open questions, each with a number of its own.
	a.mu.Lock()
	if len(a.asks) == maxAsks {
		a.mu.Unlock()
		a.log.add("denied", q.Text+": too many open questions")
		return "", nil
	}
	for _, other := range a.asks {
		q.ID = max(q.ID, other.ID)
	}
	q.ID++
	a.asks = append(a.asks, q)
	a.mu.Unlock()

	// The state of the agent, its log and a notice show the question to people.
	a.move(Asking)
	a.report(ctx, wake.EventWaiting, "")
	a.log.add("ask", fmt.Sprintf("%s (parley agent answer %s %d yes, or no)", q.Text, a.name, q.ID))
	a.saveAndWrite(ctx, func(*record) {}, func(tx hub.Tx) (hub.Message, error) {
		id := fmt.Sprintf("%s %d", a.name, q.ID)
		text := fmt.Sprintf("%s asks: %s; yes or no: parley agent answer %s", a.name, q.Text, id)
		return a.o.Ask(tx, text, hub.NoticeSubject{Kind: hub.NoticeQuestion, ID: id})
	})

	// The agent works again when none of its questions is open.
	defer func() {
		a.mu.Lock()
		a.asks = slices.DeleteFunc(a.asks, func(other *Question) bool { return other == q })
		rest := len(a.asks)
		a.mu.Unlock()
		a.live()
		if rest == 0 {
			a.move(Working)
			a.report(ctx, wake.EventTool, "")
		}
	}()

	timeout := time.NewTimer(allowed)
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
	if err := actor.OperatorOnly(op); err != nil {
		return Choice{}, err
	}
	a, err := k.serving(ctx, op, name)
	if err != nil {
		return Choice{}, err
	}

	a.mu.Lock()
	i := slices.IndexFunc(a.asks, func(q *Question) bool { return q.ID == id })
	var q *Question
	if i >= 0 {
		q = a.asks[i]
	}
	a.mu.Unlock()
	if q == nil {
		return Choice{}, hub.Errorf(hub.CodeNotFound, op, "%s has no open question %d", name, id).WithHint("run \"parley agent kept\" to list the questions")
	}

	chosen, ok := q.choose(option)
	if !ok {
		return Choice{}, hub.Errorf(hub.CodeInvalid, op, "%q is not an option of question %d", option, id).WithHint("answer yes or no; parley agent kept --json lists the options")
	}

	// The answer is in the journal before the agent gets it.
	err = k.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		_, err := tx.Append(actor.Entry(k.o.Clock.Now(), actions.AgentAnswered, "kept/"+string(name), map[string]any{"option": chosen.ID, "kind": chosen.Kind}))
		return err
	})
	if err != nil {
		return Choice{}, fmt.Errorf("keeper: answer: %w", err)
	}

	select {
	case q.answer <- chosen.ID:
		return chosen, nil
	default:
		return Choice{}, hub.Errorf(hub.CodeConflict, op, "question %d of %s is already answered", id, name)
	}
}
