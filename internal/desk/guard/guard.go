// Package guard keeps agents of one working tree apart, outside of the hub: it asks the hub
// before an edit, a command or a commit, and passes on the answer.
//
// A [Guard] serves the hooks of an agent CLI: it turns a hook's input into questions and the
// answer into the output that the CLI wants. [Staged] and [Install] serve git: the files of a
// commit, and the block in the pre-commit hook of a repository.
//
// The guard denies only what the hub denies, or, without an answer of the hub, what the
// operator wants to be denied then. An error of its own, an input that it does not know and a
// hub that is away allow the call. It keeps honest agents apart; an agent that wants to can get
// around it. People are never refused.
//
// What is particular to one CLI is in internal/desk/cli. The package calls no hub itself: an
// [Asker] does. It is tested here, and with a hub and the command in cmd/parley.
package guard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/effects"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// Patience is the time for the answers of a hub about one call. A CLI, or our plugin in it,
// goes on after two seconds, so that the rest of the hook has half a second.
const Patience = 1500 * time.Millisecond

// ReasonUnreachable is the reason of the guard's own denial, without an answer of the hub.
const ReasonUnreachable = "unreachable"

// An Asker asks the hub a question about files, as the agent.
type Asker func(ctx context.Context, q reservation.Question) (reservation.Answer, error)

// A Guard answers the hooks of one CLI about tools.
type Guard struct {
	CLI cli.CLI
	Ask Asker

	// Notes keeps notes of the hub between the hook before a call and the one after it, where
	// a model can read them.
	Notes Notes

	// Closed reports whether edits in a folder are denied while the hub does not answer. It may
	// be nil.
	Closed func(dir string) bool
}

// A Verdict is the decision about one call of a tool.
type Verdict struct {
	Denied bool
	Reason string // such as held; of a denial
	Text   string // for the model: the reason of a denial, or notes after a call
}

// Output returns the output of a hook with a verdict. It is empty if the call goes on and there
// is nothing to show.
func (g *Guard) Output(h cli.Hook, v Verdict) []byte {
	if v.Denied {
		return g.CLI.Deny(h, v.Text)
	}
	return g.CLI.Answer(h, v.Text)
}

// Judge asks the hub about the call of a tool that a hook reports, if the tool reads or changes
// files. It returns within Patience, or earlier when ctx ends.
func (g *Guard) Judge(ctx context.Context, h cli.Hook, input []byte) Verdict {
	use, ok := g.CLI.ReadUse(h, input)
	if !ok {
		return Verdict{}
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()

	var notes []string
	var denied *reservation.Answer
	for _, q := range Questions(use) {
		answer, err := g.ask(ctx, q)
		switch {
		case err != nil && q.Kind == reservation.Edit && g.closed(q, err):
			answer = reservation.Answer{Decision: reservation.Deny, Reason: ReasonUnreachable, Text: unreachableText}
		case err != nil:
			continue
		}
		for _, n := range answer.Notes {
			notes = append(notes, n.Text)
		}
		if answer.Decision == reservation.Deny && denied == nil {
			denied = &answer
		}
	}
	return g.verdict(use, denied, notes)
}

// unreachableText is read by a model after the words of its CLI about a refused call.
const unreachableText = "the hub that knows which agent changes which file did not answer, and the operator wants edits in this repository to wait for it; try again in a minute, or ask your user to start it with parley serve"

// ask asks one question. A panic of the client is an error, and so is an answer that comes too
// late.
func (g *Guard) ask(ctx context.Context, q reservation.Question) (reservation.Answer, error) {
	type result struct {
		answer reservation.Answer
		err    error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errNoAnswer}
		defer func() {
			recover() // an error of the client must not end the process with an exit code that refuses
			done <- r
		}()
		r.answer, r.err = g.Ask(ctx, q)
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return reservation.Answer{}, ctx.Err()
	}
}

var errNoAnswer = errors.New("guard: the question was not answered")

// silent are the codes of a hub that could not decide.
var silent = []hub.Code{hub.CodeDegraded, hub.CodeOverloaded, hub.CodeInternal, hub.CodeUnreachable}

// IsSilence reports whether an error means that no hub has decided about a question: it does
// not run, hangs, or is not the one of this machine. Other errors are decisions, such as about
// a folder that the hub may not read.
func IsSilence(err error) bool {
	isLate := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	return isLate || slices.Contains(silent, hub.CodeOf(err)) // CodeInternal for an error without a code
}

// closed reports whether a call is denied because its question got no answer. Commands whose
// text changes no files go on.
func (g *Guard) closed(q reservation.Question, err error) bool {
	if g.Closed == nil || !IsSilence(err) || !g.Closed(q.Tree) {
		return false
	}
	if len(q.Paths) > 0 {
		return true
	}
	does := effects.Read(q.Command, q.Tree)
	return len(does.Writes) > 0 || len(does.Git) > 0
}

// verdict returns the decision about a call. Notes wait for the end of a call, where every CLI
// shows them to the model.
func (g *Guard) verdict(use cli.ToolUse, denied *reservation.Answer, notes []string) Verdict {
	switch {
	case !use.Ended:
		g.Notes.keep(g.CLI.Name, use.Session, notes)
		if denied == nil {
			return Verdict{}
		}
		return Verdict{Denied: true, Reason: denied.Reason, Text: denied.Text}
	case use.Kind == cli.ReadTool && len(notes) == 0:
		return Verdict{} // notes that wait belong to an edit
	}
	notes = append(g.Notes.take(g.CLI.Name, use.Session), notes...)
	return Verdict{Text: strings.Join(notes, "\n")}
}
