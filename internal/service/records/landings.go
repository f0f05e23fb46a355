package records

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// landingKinds are the kinds of things of landing queues that entries record, each with a hash of
// the whole.
var landingKinds = []string{"landing policy", "landing", "review"}

// maxRefs bounds the landings that are compared with the branches of their repositories: the
// newest.
const maxRefs = 200

// Refs reads the branches of repositories.
type Refs interface {
	// Landed reports whether the target branch of an entry has its commit. ok is false if the
	// repository cannot be read here.
	Landed(ctx context.Context, e hub.LandingEntry) (isIn, ok bool)
}

// recordLanding remembers the record that an entry has of a landing queue.
func (v *verifier) recordLanding(e hub.Entry) {
	var f struct {
		Off    bool   `json:"off"`
		Digest string `json:"sha256"`
	}
	kind := ""
	switch e.Action {
	case actions.LandingSet:
		kind = "landing policy"
	case actions.LandingQueued, actions.LandingTried, actions.LandingLanded, actions.LandingReturned, actions.LandingCancelled, actions.LandingUndone:
		kind = "landing"
	case actions.ReviewRequested, actions.ReviewGiven:
		kind = "review"
	}
	if kind == "" || !v.decodeFacts(e, &f) {
		return
	}
	if v.Items[kind] == nil { // a verification that an earlier version paused
		v.Items[kind] = register[string]{}
	}
	if f.Off {
		delete(v.Items[kind], e.Subject)
		return
	}
	v.Items[kind].put(e.Subject, f.Digest, e)
}

// checkLandings compares the landing queues in the store with the journal, and notes the landings
// whose branches are to be read.
func (v *verifier) checkLandings(r hub.Reader) error {
	if !v.Complete {
		v.Out.Unchecked = append(v.Out.Unchecked, "landings and reviews: their records in archives were not read")
		return nil
	}
	policies, err := r.Landings().Policies()
	if err != nil {
		return err
	}
	for _, p := range policies {
		v.checkItem("landing policy", p.ID(), p.Digest())
	}

	entries := hub.LandingQuery{Newest: true, Limit: pageSize}
	for more := true; more; {
		page, err := r.Landings().Entries(entries)
		if err != nil {
			return v.unreadable("landings", err)
		}
		for _, e := range page {
			v.Out.Landings++
			entries.Cursor = e.ID
			v.checkItem("landing", string(e.ID), e.Digest())
			if e.State == hub.EntryLanded && len(v.Landed) < maxRefs {
				v.Landed = append(v.Landed, e)
			}
		}
		more = len(page) == pageSize
	}

	reviews := hub.ReviewQuery{Limit: pageSize}
	for more := true; more; {
		page, err := r.Landings().Reviews(reviews)
		if err != nil {
			return v.unreadable("reviews", err)
		}
		for _, w := range page {
			reviews.Cursor = w.ID
			v.checkItem("review", string(w.ID), w.Digest())
		}
		more = len(page) == pageSize
	}
	for _, kind := range landingKinds {
		v.Items[kind].missing(v, kind)
	}
	return nil
}

// checkRefs compares the newest landings with the branches of their repositories, where those can
// be read.
func (v *verifier) checkRefs(ctx context.Context) error {
	if v.refs == nil {
		if len(v.Landed) > 0 {
			v.Out.Unchecked = append(v.Out.Unchecked, "the branches of repositories: they are read by a hub that runs")
		}
		return nil
	}
	unreadable := 0
	for _, e := range v.Landed {
		isIn, ok := v.refs.Landed(ctx, e)
		switch {
		case !ok:
			unreadable++
		case !isIn:
			v.find("landing "+string(e.ID), "%s of %s does not contain its commit %.12s", e.Into, e.Repository, e.LandedCommit)
		}
	}
	if unreadable > 0 {
		v.Out.Unchecked = append(v.Out.Unchecked, "the branches of some repositories, which cannot be read here")
	}
	return ctx.Err()
}
