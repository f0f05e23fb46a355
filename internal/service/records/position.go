package records

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// A position is the part of a verification that is stored when it pauses: everything
// that was learned so far, and the place at which it goes on. It is complete between
// two pages, and only then.
//
// Resuming trusts the file: a program that can change the home can also change the
// position. A verification from the beginning trusts nothing.
type position struct {
	ID   string `json:"id"`
	Out  Audit  `json:"audit"`
	Part int    `json:"part"` // index of the part of verify that goes on

	Begun        bool          `json:"begun"`
	Archives     []hub.Archive `json:"archives"` // as of the newest snapshot
	ArchivesRead int           `json:"archives_read"`
	Complete     bool          `json:"complete"` // every archived entry was read
	Last         hub.Head      `json:"last"`     // the entry before; At is not set
	Newest       int64         `json:"newest"`   // number of the newest entry at the beginning
	Cursor       int64         `json:"cursor"`   // of the trail at the beginning
	Place        trailPlace    `json:"place"`    // in the trail

	Kept     map[string][]hub.Entry      `json:"kept"`   // archived entries about things that are still in the store
	Listed   register[hub.Archive]       `json:"listed"` // archives by file
	Agents   register[hub.Agent]         `json:"agents"`
	Keys     register[recordedKey]       `json:"keys"`
	Roots    register[hub.Root]          `json:"roots"`
	Files    register[hub.Reservation]   `json:"files"`    // reservations of files
	Checks   register[string]            `json:"checks"`   // digests of the checks of repositories
	Results  register[string]            `json:"results"`  // digests of their results
	Usage    register[hub.UsageRecord]   `json:"usage"`    // the sums of turns
	Budgets  register[int64]             `json:"budgets"`  // the limits of budgets
	Rescues  register[recordedRescue]    `json:"rescues"`  // uncommitted work that is kept
	Items    map[string]register[string] `json:"items"`    // the digests of items, by kind
	Withheld int                         `json:"withheld"` // packages that are not in the store
	Landed   []hub.LandingEntry          `json:"landed"`   // whose branches are to be read

	Continuations register[recordedContinuation] `json:"continuations"` // of tasks whose agents could not go on

	Sources   register[string] `json:"sources"`   // digests of sources of events
	Schedules register[string] `json:"schedules"` // digests of schedules

	KeptChecked   int                     `json:"kept_checked"`
	MessageCursor string                  `json:"message_cursor"`
	Due           map[hub.EnvelopeID]bool `json:"due"` // messages that an archive must hold
	HandoffCursor hub.HandoffID           `json:"handoff_cursor"`
}

// A Progress says how far a verification has come.
type Progress struct {
	ID   string `json:"id"`   // of the verification; resumes it
	Part string `json:"part"` // that goes on: archives, journal, messages or handoffs
	Done int64  `json:"done"` // things of that part
	Of   int64  `json:"of"`   // 0 if that is not known
}

// LastVerification resumes the verification that paused last.
const LastVerification = "last"

// A pause is the error of a verification whose time is over. It names the part that
// goes on.
type pause struct{ part string }

func (*pause) Error() string { return errPaused.Error() }

// errPaused ends a part whose time is over.
var errPaused = errors.New("paused")

// rest returns errPaused if the time of the verification is over. The position must be
// complete.
func (v *verifier) rest() error {
	if !v.until.IsZero() && !time.Now().Before(v.until) {
		return errPaused
	}
	return nil
}

// VerifyFor is Verify for at most about span. If that is not enough, it stores its
// position in a file and returns an audit with the progress, whose id as resume goes on
// from there, in another process, too. An empty resume begins anew. It reports
// CodeNotFound if there is no position, and CodeConflict if it is that of another
// verification.
func (r *Records) VerifyFor(ctx context.Context, span time.Duration, resume string) (Audit, error) {
	const op = "records.Verify"
	r.verifying.Lock()
	defer r.verifying.Unlock()
	r.files.RLock()
	defer r.files.RUnlock()

	v := r.newVerifier()
	v.until = time.Now().Add(span)

	if resume == "" {
		v.ID = rand.Text()
	} else {
		raw, err := os.ReadFile(r.folders.Position)
		if errors.Is(err, fs.ErrNotExist) {
			return Audit{}, hub.Errorf(hub.CodeNotFound, op, "no verification is paused").WithHint("start one: parley hub verify")
		}
		if err == nil {
			err = json.Unmarshal(raw, &v.position)
		}
		switch {
		case err != nil:
			return Audit{}, hub.Errorf(hub.CodeDegraded, op, "cannot read the position of the verification: %v", err).
				WithHint("start again: parley hub verify")
		case resume != LastVerification && resume != v.ID:
			return Audit{}, hub.Errorf(hub.CodeConflict, op, "another verification has started since").
				WithHint("parley hub verify --resume continues that one")
		}
	}

	out, err := r.verify(ctx, v)
	var paused *pause
	if errors.As(err, &paused) {
		raw, err := json.Marshal(v.position)
		if err == nil {
			err = durable.WriteFile(r.folders.Position, raw, 0o600)
		}
		out.Progress = v.progress(paused.part)
		return out, err
	}
	if err != nil {
		return out, err
	}

	// A verification that has ended leaves no position.
	if err := os.Remove(r.folders.Position); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	return out, nil
}

func (v *verifier) progress(part string) *Progress {
	p := &Progress{ID: v.ID, Part: part}
	switch part {
	case "archives":
		p.Done, p.Of = int64(v.ArchivesRead), int64(len(v.Archives))
	case "journal":
		p.Done, p.Of = v.Last.Seq, max(v.Newest, v.Last.Seq)
	case "messages":
		p.Done = int64(v.Out.Messages)
	case "handoffs":
		p.Done = int64(v.Out.Handoffs)
	default:
		p.Done, p.Of = int64(v.KeptChecked), int64(len(v.Kept))
	}
	return p
}

// A trailPlace is the place of a trailReader: the last line that was read.
type trailPlace struct {
	Segment string `json:"segment"` // the name of its file; "" before the first
	Line    int    `json:"line"`
	Next    bool   `json:"next"`  // the line is not compared yet
	Ended   bool   `json:"ended"` // lines were reported missing at the end
}

// place returns the place of the reader. The next line is read first, so that the
// findings about all lines up to it are known.
func (v *verifier) place() trailPlace {
	t := v.trail
	if t == nil || len(t.segments) == 0 || v.Part > partJournal {
		return trailPlace{}
	}
	next := v.peek()
	s := t.segments[min(t.at, len(t.segments)-1)]
	return trailPlace{filepath.Base(s.path), s.n, next != nil, t.ended}
}

// goOn makes a verifier with a stored position ready to work: it opens the trail and
// passes over the lines that were read. Those of the segment are read again, because
// its seal is about all of them. A segment that has moved into an archive meanwhile
// is passed over.
func (v *verifier) goOn(ctx context.Context) error {
	err := v.store.View(ctx, v.refresh)
	if err != nil || v.folders.Trail == "" || v.Part > partJournal {
		return err
	}
	findings, more := v.Out.Findings, v.Out.More
	err = v.openTrail()
	v.Out.Findings, v.Out.More = findings, more // about segments that cannot be opened, which are known
	if err != nil {
		return err
	}
	v.seek()
	// Entries may have been passed before the trail had their lines: those were
	// appended since, and nothing waits for them any more.
	for l := v.peek(); l != nil && l.Entry.Seq > v.Cursor && l.Entry.Seq <= v.Last.Seq; l = v.peek() {
		v.trail.next = nil
	}
	return nil
}

// seek passes over the lines of the trail that were read.
func (v *verifier) seek() {
	t, place := v.trail, v.Place
	t.ended = place.Ended
	i := slices.IndexFunc(t.segments, func(s *segment) bool { return filepath.Base(s.path) == place.Segment })
	if i < 0 {
		for t.at < len(t.segments) && t.segments[t.at].header.After < v.Last.Seq {
			t.at++
		}
		return
	}
	t.at = i
	s := t.segments[i]
	for s.n < place.Line {
		l, err := s.next()
		if bad := new(lineError); err != nil && !errors.As(err, &bad) {
			return // the segment is shorter than it was, which the next line shows
		}
		if s.n == place.Line && place.Next && err == nil {
			t.next = &l
		}
	}
}
