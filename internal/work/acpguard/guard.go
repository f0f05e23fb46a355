// Package acpguard asks a hub before an agent that is driven over the Agent Client Protocol
// changes files, so that agents in one working tree do not destroy each other's work.
//
// A [Guard] belongs to one agent. It is the acp.Guard of the client, which asks it about each
// write, command and request for permission, and it gets the updates of the agent's turns. An
// edit that the agent announces before it is made can be refused. One that the agent only
// reports afterwards is compared: if another agent holds the file, the hub records a violation.
//
// The hub answers within two seconds, or the guard decides without it. The guard keeps honest
// agents apart; an agent that neither asks nor reports is noticed at the end of its turn.
package acpguard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/sandbox"
)

const (
	answerWithin = 2 * time.Second // for the hub, after which the guard decides without it
	maxUnread    = 20              // sentences that are kept for the agent
)

// An Ask asks the hub a question about files, as one agent.
type Ask func(ctx context.Context, q reservation.Question) (reservation.Answer, error)

// Options changes how a Guard works. The zero value works.
type Options struct {
	Session string // of the agent, as the hub knows it; empty if it has only one

	// NoReject says that the agent ends its turn when a permission is refused. Such a request is
	// allowed, and the change is compared afterwards.
	NoReject bool

	// DenyUnanswered refuses changes while the hub does not answer; otherwise they are allowed,
	// and compared afterwards.
	DenyUnanswered bool

	// Notice gets a sentence for people about each refusal and each note of the hub. It may be
	// nil.
	Notice func(text string)
}

// A Guard asks a hub about the changes of one agent. It implements acp.Guard. It is safe for
// concurrent use.
type Guard struct {
	ask Ask
	dir string
	o   Options

	mu      sync.Mutex // guards what follows
	calls   acp.ToolCalls
	asked   map[string]bool // tool calls for which the hub was asked before they ran
	ended   map[string]bool // tool calls whose end the hub was told
	reports bool            // the agent has reported a tool call in the turn
	runs    bool            // the agent has run a command in a terminal of the client in the turn
	unseen  bool            // a command ran that the hub could not compare by itself
	silence bool            // people were told that the hub does not answer
	unread  []string        // sentences that the agent has not read
}

// New returns the guard of an agent that works in dir, an absolute path.
func New(dir string, ask Ask, o Options) *Guard {
	return &Guard{ask: ask, dir: withoutLinks(dir), o: o, asked: map[string]bool{}, ended: map[string]bool{}}
}

// wholeTurn is the command by which the hub compares files during a turn. It does nothing.
const wholeTurn = ":"

// turnQuestion returns a question about the turn as a whole. Its session differs from that of
// commands in the turn, which the hub compares one by one.
func (g *Guard) turnQuestion(kind reservation.Kind) reservation.Question {
	return reservation.Question{Tree: g.dir, Paths: []string{}, Kind: kind, Session: g.o.Session + "/turn", Command: wholeTurn}
}

// Begin begins a turn: the hub remembers the files that other agents hold, and answers with its
// notes for the agent.
func (g *Guard) Begin(ctx context.Context) {
	g.mu.Lock()
	g.calls = acp.ToolCalls{}
	g.asked = map[string]bool{}
	g.ended = map[string]bool{}
	g.reports = false
	g.runs = false
	g.unseen = false
	g.silence = false
	g.mu.Unlock()
	a, _ := g.put(ctx, g.turnQuestion(reservation.Edit))
	g.note(a.Notes)
}

// End ends a turn. If the agent ran a command unseen, or reported no tool call at all, the hub
// compares the files that other agents hold with their state at the beginning. Of other turns
// each change was compared by itself, which does not blame the agent for changes of people.
func (g *Guard) End(ctx context.Context) {
	g.mu.Lock()
	compares := g.unseen || !g.reports
	g.mu.Unlock()
	if compares {
		a, _ := g.put(ctx, g.turnQuestion(reservation.After))
		g.note(a.Notes)
	}
}

// Unread returns the sentences of the hub that the agent has not read, and forgets them:
// refusals for which the protocol had no room, and notes.
func (g *Guard) Unread() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	unread := g.unread
	g.unread = nil
	return unread
}

// Before asks the hub about a change, and returns the reason to refuse it.
func (g *Guard) Before(ctx context.Context, c acp.Change) (refusal string) {
	g.mu.Lock()
	if c.Call != "" {
		g.asked[c.Call] = true
	}
	g.runs = g.runs || (!c.ByAgent && c.Command != "")
	g.mu.Unlock()

	refusal = g.before(ctx, c)
	if refusal == "" {
		return ""
	}
	g.tell(refusal)
	switch {
	case !c.ByAgent:
		return refusal // the agent reads it
	case !g.o.NoReject:
		g.keep(refusal)
		return refusal
	}

	// The agent makes the change all the same.
	g.keep(refusal)
	g.mu.Lock()
	g.unseen = g.unseen || c.Command != ""
	g.mu.Unlock()
	return ""
}

// Asker returns an asker that asks the hub first: a person is not asked about a change that the
// hub refuses. It is nil if ask is.
func (g *Guard) Asker(ask sandbox.Asker) sandbox.Asker {
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, r sandbox.Request) (string, error) {
		c := acp.Change{ByAgent: true, Dir: g.dir}
		switch r.Kind {
		case sandbox.KindEdit, sandbox.KindMove, sandbox.KindDelete:
			c.Paths = r.Paths
		}
		if c.IsEmpty() || g.Before(ctx, c) == "" {
			return ask(ctx, r)
		}
		i := slices.IndexFunc(r.Options, func(o sandbox.Option) bool { return o.Kind == sandbox.RejectOnce })
		if i < 0 {
			return "", nil
		}
		return r.Options[i].ID, nil
	}
}

// before asks the hub about a change, and returns the reason to refuse it.
func (g *Guard) before(ctx context.Context, c acp.Change) string {
	for _, q := range g.questions(reservation.Edit, c) {
		a, answered := g.put(ctx, q)
		g.note(a.Notes)
		switch {
		case !answered && g.o.DenyUnanswered && ctx.Err() == nil:
			return "the hub does not answer, and without it files of this repository must not be changed; try again later"
		case a.Decision == reservation.Deny:
			return a.Text
		}
	}
	return ""
}

// After tells the hub that a change was made.
func (g *Guard) After(ctx context.Context, c acp.Change) {
	for _, q := range g.questions(reservation.After, c) {
		a, _ := g.put(ctx, q)
		g.note(a.Notes)
	}
}

// Update follows the tool calls of a turn. It tells the hub of changes that the agent made by
// itself.
func (g *Guard) Update(ctx context.Context, u *acp.Update) {
	g.mu.Lock()
	call, ok := g.calls.Add(u)
	if !ok {
		g.mu.Unlock()
		return
	}
	g.reports = true
	c := call.Change(g.dir)
	step := g.step(call, c)
	g.mu.Unlock()

	switch step {
	case commandBegins:
		g.before(ctx, c) // it runs already: if it changes a file of another agent, the agent is told at its end
	case changeEnds:
		g.After(ctx, c)
	}
}

// A step of a tool call concerns the hub.
type step int

const (
	nothing       step = iota
	commandBegins      // a command runs about which the agent did not ask
	changeEnds
)

// step returns the step that a tool call has made. The caller holds mu.
func (g *Guard) step(call acp.ToolCall, c acp.Change) step {
	isCommand := sandbox.Kind(call.Kind) == sandbox.KindExecute
	wasAsked := g.asked[call.ID] || g.runs // the terminals of the client ask for each command
	switch call.Status {
	case "in_progress":
		if c.Command != "" && !wasAsked {
			g.asked[call.ID] = true
			g.unseen = true // it may have changed files before the hub looked at them
			return commandBegins
		}
	case "completed", "failed":
		if g.ended[call.ID] {
			return nothing
		}
		g.ended[call.ID] = true
		if isCommand && !wasAsked {
			g.unseen = true
		}
		// A command that failed may have changed files; an edit that failed did not.
		wasMade := call.Status == "completed" || isCommand
		if wasMade && !c.IsEmpty() {
			return changeEnds
		}
	}
	return nothing
}

// put asks the hub a question. It reports false if there was no answer.
func (g *Guard) put(ctx context.Context, q reservation.Question) (reservation.Answer, bool) {
	type result struct {
		answer reservation.Answer
		err    error
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	results := make(chan result, 1)
	go func() {
		defer cancel()
		a, err := g.ask(ctx, q)
		results <- result{a, err}
	}()

	var got result
	select {
	case got = <-results:
	case <-ctx.Done():
		select {
		case got = <-results: // the answer came at the same moment
		default:
			got.err = ctx.Err()
		}
	}
	switch hub.CodeOf(got.err) {
	case "":
		return got.answer, true
	case hub.CodeOutsideRoots, hub.CodeInvalid, hub.CodeNotFound, hub.CodeNotEnabled: // the hub does not guard these files
		return reservation.Answer{}, true
	}
	g.unanswered(got.err)
	return reservation.Answer{}, false
}

// unanswered tells people that the hub does not answer, once for each turn.
func (g *Guard) unanswered(err error) {
	g.mu.Lock()
	told := g.silence
	g.silence = true
	g.mu.Unlock()
	if !told {
		g.tell(fmt.Sprintf("cannot ask the hub whether other agents change the same files: %v", err))
	}
}

// note keeps the notes of an answer for the agent, and tells people.
func (g *Guard) note(notes []reservation.Note) {
	for _, n := range notes {
		g.tell(n.Text)
		g.keep(n.Text)
	}
}

// tell tells people a sentence.
func (g *Guard) tell(text string) {
	if g.o.Notice != nil {
		g.o.Notice(text)
	}
}

// keep keeps a sentence for the agent, once.
func (g *Guard) keep(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.unread) < maxUnread && !slices.Contains(g.unread, text) {
		g.unread = append(g.unread, text)
	}
}

// Text returns sentences of the hub about files as the beginning of a prompt, "" for none.
func Text(unread []string) string {
	if len(unread) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("[parley] About files that you change or wanted to change:\n")
	for _, text := range unread {
		fmt.Fprintf(&b, "- %s\n", text)
	}
	return b.String()
}
