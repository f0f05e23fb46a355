package landing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A Filter chooses entries. Empty members do not restrict.
type Filter struct {
	Folder string // in the repository
	Into   string
	State  hub.LandingState
	Owner  hub.AgentID
	Cursor hub.LandingID
	Limit  int // 0 for 50
}

// A Listing is a page of entries, and the head of the target if they are of one queue.
type Listing struct {
	Entries []hub.LandingEntry `json:"entries"`
	Head    string             `json:"head,omitempty"`
	Target  *Target            `json:"target,omitempty"` // the head, as its checks judge it
	Next    hub.LandingID      `json:"next,omitempty"`   // cursor of the next page
}

// defaultPage is the number of entries of a page.
const defaultPage = 50

// List returns entries: the open ones in the order of the queue, then the others, the newest
// first.
func (s *Service) List(ctx context.Context, f Filter) (Listing, error) {
	const op = "landing.List"
	if f.Limit == 0 {
		f.Limit = defaultPage
	}
	if f.Limit < 0 || f.Limit > maxListed {
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "limit must be between 1 and %d, got %d", maxListed, f.Limit)
	}
	if f.State != "" && !f.State.Known() {
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "unknown state %.50q", f.State).WithHint("use %s", hub.JoinWords(hub.LandingStates))
	}

	out := Listing{Entries: []hub.LandingEntry{}}
	queue, err := s.queueOf(ctx, f, &out)
	if err != nil {
		return out, err
	}
	err = s.store.View(ctx, func(r hub.Reader) error {
		q := hub.LandingQuery{Queue: queue, Owner: f.Owner, Newest: true, Cursor: f.Cursor, Limit: f.Limit + 1}
		if f.State != "" {
			q.States = []hub.LandingState{f.State}
		}
		found, err := r.Landings().Entries(q)
		if err != nil {
			return err
		}
		if len(found) > f.Limit {
			found = found[:f.Limit]
			out.Next = found[f.Limit-1].ID
		}
		isOpen := func(e hub.LandingEntry) bool { return e.State.Open() }
		open := slices.DeleteFunc(slices.Clone(found), func(e hub.LandingEntry) bool { return !isOpen(e) })
		out.Entries = append(out.Entries, order(open)...)
		out.Entries = append(out.Entries, slices.DeleteFunc(found, isOpen)...)
		return nil
	})
	return out, err
}

// queueOf returns the queue that a filter names, "" for all, and sets the head of its target. The
// head of the only queue of the hub is set, too.
func (s *Service) queueOf(ctx context.Context, f Filter, out *Listing) (string, error) {
	if f.Folder != "" {
		p, err := s.Policy(ctx, f.Folder, f.Into)
		if err != nil {
			return "", err
		}
		head, err := s.git.Branch(ctx, p.Repository, p.Into)
		out.Head = head.ID
		out.Target = s.targetOf(p)
		return p.ID(), err
	}
	all, err := s.policies(ctx)
	if err == nil && len(all) == 1 && all[0].Machine == s.machine {
		if head, err := s.git.Branch(ctx, all[0].Repository, all[0].Into); err == nil { // the list is shown without it
			out.Head = head.ID
			out.Target = s.targetOf(all[0])
		}
	}
	return "", err
}

// A Detail is an entry with everything about it.
type Detail struct {
	Entries    []hub.LandingEntry `json:"entries"` // the one entry
	Head       string             `json:"head,omitempty"`
	Reviews    []hub.Review       `json:"reviews"`
	History    []hub.Entry        `json:"history"`              // of the journal
	Difference string             `json:"difference,omitempty"` // of the change, as a unified diff
	Live       *Live              `json:"live,omitempty"`       // of the check that runs now
}

// A Live is the check that runs now, with the end of its output.
type Live struct {
	Entries []hub.LandingID `json:"entries"`
	Commit  string          `json:"commit"`
	Since   hub.Time        `json:"since,omitzero"`
	Output  string          `json:"output"`
}

// Bounds of a difference in bytes: of one that is shown, and of one that is reviewed.
const (
	maxPatch    = 256 << 10
	maxReviewed = 32 << 20
)

// Show returns an entry with its reviews, its history and its difference.
func (s *Service) Show(ctx context.Context, actor hub.Caller, id hub.LandingID) (Detail, error) {
	out := Detail{Entries: []hub.LandingEntry{}, Reviews: []hub.Review{}, History: []hub.Entry{}}
	var e hub.LandingEntry
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if e, err = r.Landings().Entry(id); err != nil {
			return hub.Errorf(hub.CodeNotFound, "landing.Show", "no landing %.50q", id).WithHint("{landings} lists them")
		}
		reviews, err := reviewsOf(r, e)
		if err != nil {
			return err
		}
		out.Reviews = append(out.Reviews, reviews...)
		history, err := r.Journal(hub.JournalQuery{Subject: string(id), Limit: maxListed})
		out.History = append(out.History, history...)
		return err
	})
	if err != nil {
		return out, err
	}

	// The repository may be on another machine, or gone: then the record is shown alone.
	out.Entries = append(out.Entries, e)
	out.Live = s.liveOf(ctx, e)
	if e.Machine != s.machine {
		return out, nil
	}
	if head, err := s.git.Branch(ctx, e.Repository, e.Into); err == nil {
		out.Head = head.ID
	}
	out.Difference = s.differenceOf(ctx, e)

	// An agent that got the whole difference here has fetched it.
	sum := sha256.Sum256([]byte(out.Difference))
	return out, s.Fetched(ctx, actor, hex.EncodeToString(sum[:]))
}

// differenceOf returns the difference of an entry; "" if it cannot be read.
func (s *Service) differenceOf(ctx context.Context, e hub.LandingEntry) string {
	if e.LandedCommit != "" && e.LandedCommit != e.Commit {
		if patch, err := s.git.Patch(ctx, e.Repository, e.LandedCommit+"^1", e.LandedCommit, maxPatch); err == nil {
			return marked(patch)
		}
	}
	head, err := s.git.Branch(ctx, e.Repository, e.Into)
	if err != nil || e.Undoes != "" {
		return ""
	}
	change, err := s.git.Change(ctx, e.Repository, head.ID, e.Commit, maxPatch)
	if err != nil {
		return ""
	}
	return marked(change.Patch)
}

// marked returns a difference that says if it is not the whole one.
func marked(p Patch) string {
	if p.Cut {
		return p.Text + "\n(the rest is left out)\n"
	}
	return p.Text
}

// liveOf returns the check that runs now for an entry; nil if none does.
func (s *Service) liveOf(ctx context.Context, e hub.LandingEntry) *Live {
	s.mu.Lock()
	l := s.live[e.Queue()]
	s.mu.Unlock()
	if l == nil || !slices.Contains(l.entries, e.ID) {
		return nil
	}
	return &Live{Entries: l.entries, Commit: l.commit.ID, Since: l.since, Output: s.checks.Output(ctx, e.Repository, l.commit)}
}

// Policies returns all policies.
func (s *Service) Policies(ctx context.Context) ([]hub.LandingPolicy, error) { return s.policies(ctx) }

// Reviews returns reviews: those that wait, or all.
func (s *Service) Reviews(ctx context.Context, all bool, limit int) ([]hub.Review, error) {
	q := hub.ReviewQuery{Limit: limit}
	if limit <= 0 || limit > maxListed {
		q.Limit = defaultPage
	}
	if !all {
		q.States = []hub.ReviewState{hub.ReviewStateWaiting}
	}
	return hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Review, error) { return r.Landings().Reviews(q) })
}

// Review returns a review by its id, or the one of a handoff or entry that waits.
func (s *Service) Review(ctx context.Context, id string) (hub.Review, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) (hub.Review, error) { return findReview(r, id) })
}

// Head returns the head of the target of an entry; "" if it cannot be read here.
func (s *Service) Head(ctx context.Context, e hub.LandingEntry) string {
	if e.Machine != s.machine {
		return ""
	}
	head, err := s.git.Branch(ctx, e.Repository, e.Into)
	if err != nil {
		return ""
	}
	return head.ID
}
