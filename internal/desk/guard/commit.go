package guard

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// A Commit is a commit that git is about to make.
type Commit struct {
	Dir   string   // in which git runs its hooks: the top of the working tree
	Files []string // that it changes, relative to Dir; files that a merge merely carries are left out
}

// ReadCommit returns the commit for which git runs a hook in dir.
func ReadCommit(ctx context.Context, dir string) (Commit, error) {
	files, err := git.Staged(ctx, dir)
	if err != nil {
		return Commit{}, fmt.Errorf("guard: read the index: %w", err)
	}
	return Commit{Dir: dir, Files: files}, nil
}

// maxAsked is the number of files of one question.
const maxAsked = 4000

// Judge asks the hub, as the agent that commits, whether files of the commit belong to others.
// closed may be nil, as Guard.Closed.
func (c Commit) Judge(ctx context.Context, ask Asker, closed func(dir string) bool) Verdict {
	g := Guard{Ask: ask, Closed: closed}
	for files := range slices.Chunk(c.Files, maxAsked) {
		answer, err := g.ask(ctx, reservation.Question{Tree: c.Dir, Paths: files, Kind: reservation.Commit})
		switch {
		case err == nil && answer.Decision == reservation.Deny:
			return Verdict{Denied: true, Reason: answer.Reason, Text: answer.Text}
		case err != nil && closed != nil && IsSilence(err) && closed(c.Dir):
			return Verdict{Denied: true, Reason: ReasonUnreachable, Text: unreachableText}
		case err != nil:
			return Verdict{}
		}
	}
	return Verdict{}
}

// Refusal returns the sentence about a commit with files of others, for the agent that is
// refused.
func Refusal(held []Held) string {
	first := held[0]
	return fmt.Sprintf("%s is being changed by %s: commit your own files only (git restore --staged %s takes it out of the index)", some(held), first.Holder, filepath.ToSlash(first.Path))
}

// Hint returns the sentence about a commit with files of agents, for a person, who is never
// refused.
func Hint(held []Held) string {
	return fmt.Sprintf("%s is changing %s; your commit goes on", held[0].Holder, some(held))
}

// some names the first file and the number of the others.
func some(held []Held) string {
	if len(held) == 1 {
		return held[0].Path
	}
	return fmt.Sprintf("%s (and %d more)", held[0].Path, len(held)-1)
}
