package landing

import (
	"cmp"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A move is the kind of the next step of a queue.
type move string

// The moves.
const (
	moveRest   move = "rest"   // there is nothing to do
	moveAgain  move = "again"  // the attempt does not fit the facts any more: forget it
	moveTake   move = "take"   // begin an attempt: merge entries, in this order, until the batch is full
	moveTry    move = "try"    // run the checks on the first N members together
	moveTarget move = "target" // run the checks on the head itself, to know whether the first member is the culprit
	moveLand   move = "land"   // move the target to the first N members
	moveReturn move = "return" // give the member N back to its owner
	moveHold   move = "hold"   // the target itself is red: the members wait for it
)

// A step is the next step of a queue. The other members belong to some moves alone.
type step struct {
	Move  move
	N     int                // counts members of the attempt from 1
	Order []hub.LandingEntry // of moveTake
}

// A member is an entry in an attempt, with the state that the target will have with it and the
// members before it.
type member struct {
	Entry hub.LandingEntry
	Made  Commit
	Names []string // of the checks that decide about it
}

// An attempt is a batch of entries that were merged onto a head of the target, one after the
// other. The zero value is no attempt.
//
// Invariant: Green < Red. The first Green members together passed the checks; the first Red
// members together did not. Red is len(Members)+1 while no red part is known.
type attempt struct {
	Head     string
	Members  []member
	Green    int
	Red      int
	HeadKnow bool // the checks passed on Head alone
	HeadRed  bool // the checks failed on Head alone
}

// A situation is everything that decides about the next step of a queue.
type situation struct {
	Head    string             // of the target branch, now
	Open    []hub.LandingEntry // entries of the queue that may be taken up
	Attempt attempt
}

// next returns the next step of a queue. It halves the part of the batch that decides between
// green and red, so that a culprit among n entries costs about log2(n) runs of the checks; the
// members before the culprit then are known as green and land without another run.
func next(s situation) step {
	a := s.Attempt
	if len(a.Members) == 0 {
		if len(s.Open) == 0 {
			return step{Move: moveRest}
		}
		return step{Move: moveTake, Order: order(s.Open)}
	}
	if a.Head != s.Head || !sameEntries(a.Members, s.Open) {
		return step{Move: moveAgain}
	}

	n := len(a.Members)
	isAlone := a.Green == 0 && a.Red == 1
	switch {
	case a.Green == n:
		return step{Move: moveLand, N: n}
	case a.Red > n:
		return step{Move: moveTry, N: n}
	case isAlone && a.HeadRed:
		return step{Move: moveHold}
	case isAlone && !a.HeadKnow:
		return step{Move: moveTarget}
	case isAlone:
		return step{Move: moveReturn, N: 1}
	case a.Red == a.Green+1:
		return step{Move: moveLand, N: a.Green} // the culprit then is the first of the rest
	}
	return step{Move: moveTry, N: (a.Green + a.Red) / 2}
}

// sameEntries reports whether all members are still open with the same commits.
func sameEntries(members []member, open []hub.LandingEntry) bool {
	for _, m := range members {
		isSame := func(e hub.LandingEntry) bool { return e.ID == m.Entry.ID && e.Commit == m.Entry.Commit }
		if !slices.ContainsFunc(open, isSame) {
			return false
		}
	}
	return true
}

// order returns entries in the order in which they are tried: those that were being tried, then
// critical ones, then by the time at which they were queued.
func order(open []hub.LandingEntry) []hub.LandingEntry {
	out := slices.Clone(open)
	slices.SortStableFunc(out, func(a, b hub.LandingEntry) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.QueuedAt.Compare(b.QueuedAt.Time), cmp.Compare(a.ID.Number(), b.ID.Number()))
	})
	return out
}

func rank(e hub.LandingEntry) int {
	switch {
	case e.Priority == hub.PriorityCritical:
		return 0
	case e.State == hub.EntryTrying:
		return 1
	}
	return 2
}

// names returns the checks that decide about the first n members.
func (a attempt) names(n int) (out []string) {
	for _, m := range a.Members[:n] {
		for _, name := range m.Names {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// tried returns an attempt after the checks ran on its first n members.
func (a attempt) tried(n int, passed bool) attempt {
	if passed {
		a.Green = n
	} else {
		a.Red = n
	}
	return a
}

// landed returns an attempt after its first n members landed. If the next member is known as the
// culprit, the rest is the batch with the culprit first, whose result is known; the rest after
// it was not tried without it.
func (a attempt) landed(n int) attempt {
	out := attempt{Head: a.Members[n-1].Made.ID, Members: a.Members[n:], HeadKnow: true}
	out.Red = len(out.Members) + 1
	if a.Red == n+1 {
		out.Red = 1
	}
	return out
}
