package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/desk/quota"
)

// A Notice is the text that starts a turn. Wake is its id, which stands in the text.
type Notice struct{ Wake, Text string }

// Line returns the notice on one line.
func (n Notice) Line() string { return strings.Join(strings.Fields(n.Text), " ") }

// A Turn is the news of a line of a session's transcript about its turn; "" if it has none.
type Turn string

// The news.
const (
	TurnRuns  Turn = "runs"  // it runs, or a hook tells its end
	TurnBroke Turn = "broke" // it ended without a hook: with an error, or by its user
	TurnSpent Turn = "spent" // the same, because the account is out of quota
)

// Follows reports whether the transcript of a session has to be read to learn that a turn
// is over.
func (c CLI) Follows() bool { return c.turn != nil }

// Turn returns the last news among lines of a session's transcript, with the class of the error if
// the turn ended with one a short time ago.
func (c CLI) Turn(lines [][]byte) (Turn, quota.Ending) {
	for _, line := range slices.Backward(lines) {
		if news, ending := c.turn(line); news != "" {
			return news, ending
		}
	}
	return "", quota.Ending{}
}

// Resume returns the arguments that take a conversation up again; nil if the CLI has none.
func (c CLI) Resume(session string) []string {
	if c.resume == nil {
		return nil
	}
	return append(slices.Clone(c.resume), session)
}

// An Opened is a session that a CLI has opened.
type Opened struct {
	Session    string // "" if there is none yet
	Transcript string // path of its file, which may come into being later
}

// Asks reports whether Opened finds the session of a CLI before its first prompt, of which
// no hook tells.
func (c CLI) Asks() bool { return c.opened != nil }

// Opened asks the CLI for a session that it has opened and that is not in seen, and adds it
// to seen. The session is the one that the window shows now: its user has begun it.
func (c CLI) Opened(ctx context.Context, l Launch, seen map[string]bool) (Opened, error) {
	return c.opened(ctx, l, seen)
}

// A Target is the session that a notice is written to.
type Target struct {
	Session string
	Launch  Launch // empty for a session that launch did not start
}

// Hands reports whether Hand writes a notice. Without it a waiter writes the notice
// as a line on its standard output, where a part of the CLI reads it.
func (c CLI) Hands() bool { return c.hand != nil }

// Hand writes a notice so that it starts a turn, or is queued behind the turn that
// runs. Success proves that it was written, not that a turn began.
func (c CLI) Hand(ctx context.Context, t Target, n Notice) error { return c.hand(ctx, t, n) }
