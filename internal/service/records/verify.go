package records

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// An Audit is the result of Verify.
type Audit struct {
	Head hub.Head `json:"head"` // the newest entry that was checked

	// Numbers of things that were checked.
	Entries   int `json:"entries"`  // in the store
	Archived  int `json:"archived"` // entries in archives
	Messages  int `json:"messages"` // in the store
	Handoffs  int `json:"handoffs"`
	Runs      int `json:"runs"`
	Contracts int `json:"contracts"`
	Packets   int `json:"packets"` // of context
	Agents    int `json:"agents"`
	Keys      int `json:"keys"`
	Lines     int `json:"lines"` // of the trail

	Reservations int `json:"reservations"` // of files
	Checks       int `json:"checks"`       // of repositories
	Results      int `json:"results"`      // of checks
	Landings     int `json:"landings"`     // entries of landing queues
	Usage        int `json:"usage"`        // turns

	Continuations int `json:"continuations"` // of tasks

	Leaves      int64 `json:"leaves"`      // of the tree over the journal
	Checkpoints int   `json:"checkpoints"` // that the hub signed

	Unchecked []string  `json:"unchecked"` // parts that were not checked, and why
	Findings  []Finding `json:"findings"`  // at most MaxFindings
	More      int       `json:"more"`      // findings beyond those

	// Progress is set if the verification has paused: the rest was not compared yet.
	Progress *Progress `json:"progress,omitempty"`
}

// MaxFindings is the number of findings that an audit names one by one.
const MaxFindings = 1000

// Clean reports whether everything was compared and there is no finding.
func (a Audit) Clean() bool { return len(a.Findings) == 0 && a.Progress == nil }

// A Finding is one difference between a record and the journal.
type Finding struct {
	Where string `json:"where"` // the row, message, handoff, contract, packet, agent, key or file
	What  string `json:"what"`
}

// String returns the finding as one sentence.
func (f Finding) String() string { return f.Where + ": " + f.What }

// Sentences of several findings.
const (
	notRecorded   = "no journal row records it"
	missingThough = "it is missing, though journal row %d records it"
)

// Verify compares everything that the journal records with the store: the
// journal's own chain of hashes, archives included, messages and their
// deliveries, handoffs with their history, runs, contracts and context packets,
// agents, keys, roots, reservations of files, checks of repositories with their results, landings,
// reviews, usage, continuations, rescues, event sources and schedules; and the trail with the journal. A difference is a finding,
// not an error. It may run while the store is in use, and holds no snapshot for
// long.
func (r *Records) Verify(ctx context.Context) (Audit, error) {
	r.files.RLock()
	defer r.files.RUnlock()
	return r.verify(ctx, r.newVerifier())
}

// partJournal is the index of the last part of verify that reads the trail.
const partJournal = 2

// verify works until everything is compared, or the time of v is over.
func (r *Records) verify(ctx context.Context, v *verifier) (Audit, error) {
	defer func() { v.trail.close() }()
	parts := []struct {
		name string
		work func(context.Context) error
	}{
		{"journal", v.begin}, {"archives", v.readArchives}, {"journal", v.readJournal},
		{"things that archives record", v.checkKept}, {"messages", v.findUnrecorded}, {"handoffs", v.checkHandoffs}, {"branches", v.checkRefs},
	}

	if v.Part > 0 {
		if err := v.goOn(ctx); err != nil {
			return v.Out, fmt.Errorf("records: verify: %w", err)
		}
	}

	for v.Part < len(parts) {
		err := parts[v.Part].work(ctx)
		if err == nil {
			v.Part++
			err = v.rest()
		}

		// A pause after the last part leaves nothing to do, so it does not count.
		if err == errPaused && v.Part < len(parts) {
			v.Place = v.place()
			return v.Out, &pause{parts[v.Part].name}
		}
		if err != nil && err != errPaused {
			return v.Out, fmt.Errorf("records: verify: %w", err)
		}
	}

	if v.Withheld > 0 {
		v.Out.Unchecked = append(v.Out.Unchecked, fmt.Sprintf("%d restricted packages and runs, which the export left out", v.Withheld))
	}
	return v.Out, nil
}

// A verifier walks along the journal, oldest entry first: through the archives,
// then through the store. In step with it goes a reader of the trail. The store
// may change meanwhile, so every page is a snapshot of its own, and refresh
// reads in each which entries are archived by then.
type verifier struct {
	position
	store   hub.Store
	folders Folders
	until   time.Time // when it pauses; never if zero
	refs    Refs      // nil if no branches are read

	trail *trailReader // nil if it is not checked
}

func (r *Records) newVerifier() *verifier {
	v := &verifier{store: r.store, folders: r.folders, refs: r.refs, position: position{
		Complete: true, Kept: map[string][]hub.Entry{}, Listed: register[hub.Archive]{},
		Agents: register[hub.Agent]{}, Keys: register[recordedKey]{}, Roots: register[hub.Root]{}, Files: register[hub.Reservation]{}, Checks: register[string]{}, Results: register[string]{}, Usage: register[hub.UsageRecord]{}, Budgets: register[int64]{},
		Continuations: register[recordedContinuation]{}, Rescues: register[recordedRescue]{},
		Items: map[string]register[string]{"contract": {}, "packet": {}, "run": {}, "result": {}, "deployment": {}},
	}}
	for _, kind := range slices.Concat(teamKinds, landingKinds) {
		v.Items[kind] = register[string]{}
	}
	v.Out.Unchecked, v.Out.Findings = []string{}, []Finding{}
	return v
}

func (v *verifier) find(where, format string, args ...any) {
	if len(v.Out.Findings) == MaxFindings {
		v.Out.More++
		return
	}
	v.Out.Findings = append(v.Out.Findings, Finding{where, fmt.Sprintf(format, args...)})
}

func row(seq int64) string { return fmt.Sprintf("journal row %d", seq) }

// decodeFacts reads the facts of an entry, and reports whether it could.
func (v *verifier) decodeFacts(e hub.Entry, facts any) bool {
	err := json.Unmarshal(e.Facts, facts)
	if err != nil {
		v.find(row(e.Seq), "its facts cannot be read: %v", err)
	}
	return err == nil
}

// exists reports a thing that an entry records and the store does not have. err
// is the result of reading it.
func (v *verifier) exists(kind string, e hub.Entry, err error) error {
	if hub.CodeOf(err) == hub.CodeNotFound {
		v.find(kind+" "+e.Subject, missingThough, e.Seq)
		return nil
	}
	return v.unreadable(kind+" "+e.Subject, err)
}

// unreadable turns the error of a thing that the store holds but cannot decode
// into a finding, and returns any other error.
func (v *verifier) unreadable(where string, err error) error {
	if hub.CodeOf(err) == hub.CodeDegraded {
		v.find(where, "it cannot be read: %v", err)
		return nil
	}
	return err
}

// pageSize is the number of things that are checked in one snapshot.
const pageSize = 50

// pages calls check for one page after the other, each in a snapshot of its own,
// until it reports that there is no more, or that a row cannot be decoded.
func (v *verifier) pages(ctx context.Context, kind string, check func(hub.Reader) (more bool, err error)) error {
	return inPages(ctx, v.store, func(r hub.Reader) (more bool, err error) {
		if err = v.refresh(r); err == nil {
			more, err = check(r)
		}
		if hub.CodeOf(err) == hub.CodeDegraded {
			v.find(kind, "cannot read further: %v", err)
			return false, nil
		}
		if err == nil && more {
			err = v.rest()
		}
		return more, err
	})
}

// archived returns the number up to which entries are in archives, and the time
// before which messages are.
func (v *verifier) archived() (int64, hub.Time) {
	if len(v.Archives) == 0 {
		return 0, hub.Time{}
	}
	newest := v.Archives[len(v.Archives)-1]
	return newest.Seq, newest.Cutoff
}

// mayBeArchived reports whether a message may have left the store.
func (v *verifier) mayBeArchived(id hub.EnvelopeID, t hub.MessageType) bool {
	_, cutoff := v.archived()
	return t.Family() != "handoff" && id < hub.FirstID(cutoff)
}

// begin compares the head file and opens the trail.
//
// The store may be in use. So the head is read first: its entry is in any
// snapshot taken later. Then the cursor: segments opened later hold all entries
// up to it, and a head file read later names it or a later one.
func (v *verifier) begin(ctx context.Context) error {
	if v.folders.Trail == "" {
		v.Out.Unchecked = append(v.Out.Unchecked, "the trail and the head outside the database: no folder was given")
		return v.store.View(ctx, v.refresh)
	}

	path := filepath.Join(v.folders.Trail, headName)
	head, headErr := readHead(path)
	var cursor int64
	err := v.store.View(ctx, func(r hub.Reader) (err error) {
		cursor, err = r.Cursor(v.folders.cursor())
		return err
	})
	if err != nil {
		return err
	}
	later, laterErr := readHead(path)
	v.Cursor = cursor
	if err := v.openTrail(); err != nil {
		return err
	}
	if err := v.checkNames(); err != nil {
		return err
	}

	return v.store.View(ctx, func(r hub.Reader) error {
		if err := v.refresh(r); err != nil {
			return err
		}
		newest, err := hub.HeadOf(r)
		if err != nil {
			return err
		}
		v.Newest = newest.Seq
		if cursor > newest.Seq {
			v.find("journal", "it ends at row %d, but the trail has seen row %d: the tail of the journal was cut off", newest.Seq, cursor)
		}

		switch {
		case errors.Is(laterErr, fs.ErrNotExist):
			if cursor > 0 {
				v.find(headName, "it is missing")
			}
		case laterErr != nil:
			v.find(headName, "it cannot be read: %v", laterErr)
		case later.Seq < cursor:
			v.find(headName, "it names row %d, but the trail reaches row %d", later.Seq, cursor)
		case headErr == nil:
			fault, err := checkHead(head, r, v.Archives)
			if fault != "" {
				v.find(headName, "it names row %d with hash %.12s, which is not in the journal: %s", head.Seq, head.Hash, fault)
			}
			return err
		}
		return nil
	})
}

// checkNames reports files of the trail that were set aside, and notes the trail
// of the first version.
func (v *verifier) checkNames() error {
	aside, err := fs.Glob(os.DirFS(v.folders.Trail), "*"+conflict+"*")
	for _, name := range aside {
		v.find(name, "it was set aside because it does not match the journal")
	}
	old, oldErr := oldTrailFiles(v.folders.Trail)
	if len(old) > 0 {
		v.Out.Unchecked = append(v.Out.Unchecked, "the trail of an earlier version, which the hub compares with the journal when it starts")
	}
	return errors.Join(err, oldErr)
}

// refresh reads the list of archives. Entries that were archived since the last
// call are not known.
func (v *verifier) refresh(r hub.Reader) error {
	before, _ := v.archived()
	archives, err := r.Archives()
	if err != nil {
		return err
	}
	v.Archives = archives
	if now, _ := v.archived(); v.Begun && now != before {
		v.Complete = false
	}
	v.Begun = true
	return nil
}

// readArchives walks along the entries in archives.
func (v *verifier) readArchives(ctx context.Context) error {
	if v.folders.Archives == "" && len(v.Archives) > 0 && v.ArchivesRead == 0 {
		v.Out.Unchecked = append(v.Out.Unchecked, "the archives and their records: no folder was given")
		v.Complete = false
	}
	for v.ArchivesRead < len(v.Archives) {
		a := v.Archives[v.ArchivesRead]
		if v.folders.Archives != "" {
			if err := v.readArchive(ctx, a); err != nil {
				return err
			}
		}
		v.Last = hub.Head{Seq: a.Seq, Hash: a.Hash}
		v.ArchivesRead++
		if err := v.rest(); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) readArchive(ctx context.Context, a hub.Archive) error {
	where := "archive " + a.File
	var batch []hub.Entry
	flush := func() error {
		v.Out.Archived += len(batch)
		err := v.store.View(ctx, func(r hub.Reader) error { return v.page(r, batch, where+", ") })
		batch = batch[:0]
		return err
	}

	var stop error // an error of the store, not of the file
	s, err := readSegment(v.archivePath(a), func(l line) error {
		if l.Entry != nil {
			if batch = append(batch, *l.Entry); len(batch) == archivePage {
				stop = flush()
			}
		}
		return stop
	})
	if stop == nil {
		stop = flush()
	}
	if stop != nil {
		return stop
	}

	// A file without a readable header has no segment.
	if s == nil {
		s = &segment{sum: sha256.New()}
	}
	got, sum := s.seal, s.fileSum()
	fits := sum == a.SHA256
	if err == nil && !fits {
		if fits, stop = v.rewritten(ctx, a, sum); stop != nil {
			return stop
		}
	}

	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.find(where, "the file is missing")
	case err != nil:
		v.find(where, "the file cannot be read: %v", err)
	case !fits:
		v.find(where, "the file was changed: its SHA-256 is %.12s, but %.12s was recorded", sum, a.SHA256)
	case got.Entries != a.Entries || got.Messages != a.Messages || got.Last != a.Seq || got.Hash != a.Hash:
		v.find(where, "it holds %d entries up to row %d and %d messages, but %d up to row %d and %d were recorded",
			got.Entries, got.Last, got.Messages, a.Entries, a.Seq, a.Messages)
	default:
		return nil
	}

	// After each of these findings, entries of the archive may be unknown.
	v.Complete = false
	return nil
}

func (v *verifier) archivePath(a hub.Archive) string {
	return filepath.Join(v.folders.Archives, filepath.Base(a.File))
}

// readJournal walks along the entries in the store. In the snapshot that has no
// further entry it compares the things that all entries together record.
func (v *verifier) readJournal(ctx context.Context) error {
	err := inPages(ctx, v.store, func(r hub.Reader) (bool, error) {
		if err := v.refresh(r); err != nil {
			return false, err
		}

		// Entries that were archived since the last page are passed over.
		for _, a := range v.Archives {
			if a.Seq > v.Last.Seq {
				v.Last = hub.Head{Seq: a.Seq, Hash: a.Hash}
			}
		}

		entries, err := r.Journal(hub.JournalQuery{After: v.Last.Seq, Limit: archivePage})
		if err != nil {
			return false, err
		}
		if len(entries) > 0 {
			v.Out.Entries += len(entries)
			if err := v.page(r, entries, ""); err != nil {
				return false, err
			}
			return true, v.rest()
		}

		if v.Out.Head, err = hub.HeadOf(r); err != nil {
			return false, err
		}
		v.checkArchives()
		if err := v.checkAgents(r); err != nil {
			return false, err
		}
		if err := v.checkItems(r); err != nil {
			return false, err
		}
		if err := v.checkFiles(r); err != nil {
			return false, err
		}
		if err := v.checkLandings(r); err != nil {
			return false, err
		}
		if err := v.checkChecks(r); err != nil {
			return false, err
		}
		if err := v.checkUsage(r); err != nil {
			return false, err
		}
		if err := v.checkContinuations(r); err != nil {
			return false, err
		}
		if err := v.checkEvents(r); err != nil {
			return false, err
		}
		return false, v.checkTeams(r)
	})
	if err == nil {
		v.restOfTrail()
	}
	return err
}

// page checks entries in order. prefix names the file that they are in.
func (v *verifier) page(r hub.Reader, entries []hub.Entry, prefix string) error {
	for _, e := range entries {
		before := v.Last
		switch missing := e.Seq - before.Seq - 1; {
		case missing == 1:
			v.find("journal", "row %d is missing", before.Seq+1)
		case missing > 1:
			v.find("journal", "rows %d to %d are missing", before.Seq+1, e.Seq-1)
		case missing < 0:
			v.find(prefix+row(e.Seq), "it comes after row %d", before.Seq)
		case e.Hash != e.Chain(before.Hash):
			v.find(prefix+row(e.Seq), "its hash does not follow from row %d: this row or the hash before it was changed", before.Seq)
		}
		v.Last = hub.Head{Seq: e.Seq, Hash: e.Hash}
		if err := v.compareLine(r, e, before); err != nil {
			return err
		}
		v.recordAgent(e)
		v.recordFile(e)
		v.recordCheck(e)
		v.recordLanding(e)
		v.recordUsage(e)
		v.recordContinuation(e)
		v.recordEvent(e)
		v.recordItem(e)
		v.recordTeam(e)
		if err := v.checkSubject(r, e, prefix != ""); err != nil {
			return err
		}
	}
	return nil
}

// checkSubject checks the thing that an entry is about.
func (v *verifier) checkSubject(r hub.Reader, e hub.Entry, archived bool) error {
	switch {
	case e.Action == actions.Archived:
		var f archiveFacts
		v.decodeFacts(e, &f)
		v.Listed.put(e.Subject, f.Archive, e)
	case archived:
		v.keep(e)
	case beginsMessage(e.Action):
		return v.checkMessage(r, e)
	case e.Action == actions.HandoffDrafted || e.Action == actions.HandoffProposed:
		_, err := r.Handoff(hub.HandoffID(e.Subject))
		return v.exists("handoff", e, err)
	}
	return nil
}

// keep remembers an archived entry if the thing it is about is still in the
// store.
func (v *verifier) keep(e hub.Entry) {
	switch {
	case strings.HasPrefix(string(e.Action), "handoff."):
	case beginsMessage(e.Action):
		var facts sentFacts
		if json.Unmarshal(e.Facts, &facts) == nil && v.mayBeArchived(hub.EnvelopeID(e.Subject), facts.Type) {
			return
		}
	case v.Kept[e.Subject] == nil:
		return
	}
	v.Kept[e.Subject] = append(v.Kept[e.Subject], e)
}

// checkArchives compares the store's list of archives with the journal.
func (v *verifier) checkArchives() {
	for _, a := range v.Archives {
		v.Listed.check(v, "listed archive", a.File, func(want hub.Archive, row int64) string { return unless(a == want, differsFrom, row) })
	}
	v.Listed.missing(v, "listed archive")
}

// checkKept checks the things that archives alone record.
func (v *verifier) checkKept(ctx context.Context) error {
	subjects := slices.SortedFunc(maps.Keys(v.Kept), func(a, b string) int { return cmp.Compare(v.Kept[a][0].Seq, v.Kept[b][0].Seq) })
	for ; v.KeptChecked < len(subjects); v.KeptChecked++ {
		first := v.Kept[subjects[v.KeptChecked]][0]
		err := v.store.View(ctx, func(r hub.Reader) error {
			if err := v.refresh(r); err != nil || !v.Complete {
				return err // entries that followed may be archived by now
			}
			if beginsMessage(first.Action) {
				return v.checkMessage(r, first)
			}
			_, err := r.Handoff(hub.HandoffID(first.Subject))
			return v.exists("handoff", first, err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
