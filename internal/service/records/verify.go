package records

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// An Audit is the result of Verify.
type Audit struct {
	Head hub.Head `json:"head"` // the newest entry that was looked at

	// What was looked at, counted.
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

	Unchecked []string  `json:"unchecked"` // what was not looked at, and why
	Findings  []Finding `json:"findings"`  // at most MaxFindings
	More      int       `json:"more"`      // findings beyond those
}

// MaxFindings is how many findings an audit names one by one.
const MaxFindings = 1000

// Clean reports whether nothing was found.
func (a Audit) Clean() bool { return len(a.Findings) == 0 }

// A Finding is something that is not as the journal says.
type Finding struct {
	Where string `json:"where"` // the row, message, handoff, contract, packet, agent, key or file
	What  string `json:"what"`
}

// String returns the finding as one sentence.
func (f Finding) String() string { return f.Where + ": " + f.What }

// Verify compares everything that the journal records with the store: the
// journal's own chain of hashes, archives included, messages and their
// deliveries, handoffs with their history, runs, contracts and context packets,
// agents and keys; and the trail with the journal. A difference is a finding,
// not an error. It may run while the store is in use, and holds no snapshot for
// long.
func (r *Records) Verify(ctx context.Context) (Audit, error) {
	v := &verifier{
		store: r.store, folders: r.folders, complete: true, kept: map[string][]hub.Entry{}, recorded: map[string]recordedArchive{},
		people: newRoster(), items: newProjectItems(),
	}
	v.out.Unchecked, v.out.Findings = []string{}, []Finding{}
	defer func() { v.trail.close() }()
	for _, step := range []func(context.Context) error{
		v.begin, v.readArchives, v.readJournal, v.checkKept, v.findUnrecorded, v.checkHandoffs, v.checkRuns,
	} {
		if err := step(ctx); err != nil {
			return v.out, fmt.Errorf("records: verify: %w", err)
		}
	}
	if v.withheld > 0 {
		v.out.Unchecked = append(v.out.Unchecked, fmt.Sprintf("%d restricted packages and runs, which an export has left out", v.withheld))
	}
	return v.out, nil
}

// A verifier walks along the journal, oldest entry first: through the archives,
// then through the store. In step with it goes a reader of the trail. The store
// may change meanwhile, so every page is a snapshot of its own, and refresh
// reads in each which entries are archived by then.
type verifier struct {
	store   hub.Store
	folders Folders
	out     Audit

	archives []hub.Archive // as of the newest snapshot
	begun    bool
	complete bool         // every archived entry was read
	last     hub.Head     // the entry before; At is not set
	trail    *trailReader // nil if it is not checked

	kept     map[string][]hub.Entry     // archived entries about things that are still in the store
	recorded map[string]recordedArchive // archives by file, as the journal records them
	people   *roster
	items    *projectItems
	withheld int // packages that are not in the store
}

// A recordedArchive is what an entry says about an archive.
type recordedArchive struct {
	archiveFacts
	row int64
}

func (v *verifier) find(where, format string, args ...any) {
	if len(v.out.Findings) == MaxFindings {
		v.out.More++
		return
	}
	v.out.Findings = append(v.out.Findings, Finding{where, fmt.Sprintf(format, args...)})
}

func row(seq int64) string { return fmt.Sprintf("journal row %d", seq) }

// archived returns up to where the journal lies in archives, and the time
// before which messages do.
func (v *verifier) archived() (int64, hub.Time) {
	if len(v.archives) == 0 {
		return 0, hub.Time{}
	}
	newest := v.archives[len(v.archives)-1]
	return newest.Seq, newest.Cutoff
}

// mayBeArchived reports whether a message may have left the store.
func (v *verifier) mayBeArchived(id hub.EnvelopeID, t hub.MessageType) bool {
	_, cutoff := v.archived()
	return t.Family() != "handoff" && id < hub.FirstID(cutoff)
}

// begin compares the head files and opens the trail.
//
// The store may be in use. So the heads are read first: their entries are in
// any snapshot taken later. Then the cursor: segments opened later hold all
// entries up to it.
func (v *verifier) begin(ctx context.Context) error {
	if v.folders.Trail == "" {
		v.out.Unchecked = append(v.out.Unchecked, "the trail and the head outside the database: no folder was given")
		return v.store.View(ctx, v.refresh)
	}
	heads, err := readHeads(v.folders.Trail)
	if err != nil {
		return err
	}
	var cursor int64
	err = v.store.View(ctx, func(r hub.Reader) (err error) {
		cursor, err = r.Cursor(trailCursor)
		return err
	})
	if err != nil {
		return err
	}
	if err := v.openTrail(cursor); err != nil {
		return err
	}
	aside, err := setAsideIn(v.folders.Trail)
	if err != nil {
		return err
	}
	for _, name := range aside {
		if !strings.HasPrefix(name, headName) {
			v.find(name, "it was set aside, because it does not fit the journal")
		}
	}
	return v.store.View(ctx, func(r hub.Reader) error {
		if err := v.refresh(r); err != nil {
			return err
		}
		newest, _, err := r.JournalHead()
		if err != nil {
			return err
		}
		if cursor > newest {
			v.find("journal", "it ends at row %d, but the trail has seen row %d: the tail of the journal was cut off", newest, cursor)
		}
		if err := v.checkOldTrails(r); err != nil {
			return err
		}
		return v.checkHeads(r, heads, cursor)
	})
}

// refresh reads the list of archives. Entries that were archived since the last
// call are not known.
func (v *verifier) refresh(r hub.Reader) error {
	before, _ := v.archived()
	archives, err := r.Archives()
	if err != nil {
		return err
	}
	v.archives = archives
	if now, _ := v.archived(); v.begun && now != before {
		v.complete = false
	}
	v.begun = true
	return nil
}

// checkHeads compares the journal with the head outside the store, and with
// those that were set aside because they contradicted it.
func (v *verifier) checkHeads(r hub.Reader, heads []headFile, cursor int64) error {
	for _, h := range heads {
		if errors.Is(h.err, fs.ErrNotExist) {
			// The first head may have been written a moment ago.
			if _, err := readHead(filepath.Join(v.folders.Trail, h.name)); cursor > 0 && errors.Is(err, fs.ErrNotExist) {
				v.find(h.name, "it is missing")
			}
			continue
		}
		if h.err != nil {
			v.find(h.name, "it cannot be read: %v", h.err)
			continue
		}
		if h.name == headName && h.Seq < cursor {
			// It is written before the cursor moves, so it may be newer by now.
			if again, err := readHead(filepath.Join(v.folders.Trail, h.name)); err == nil {
				h.Head = again
			}
			if h.Seq < cursor {
				v.find(h.name, "it names row %d, though the trail has come to row %d", h.Seq, cursor)
				continue
			}
		}
		fault, err := checkHead(h.Head, r, v.archives)
		if err != nil {
			return err
		}
		if fault != "" {
			v.find(h.name, "it names row %d with hash %.12s, which is not in the journal: %s", h.Seq, h.Hash, fault)
		}
	}
	return nil
}

// readArchives walks along the entries in archives.
func (v *verifier) readArchives(ctx context.Context) error {
	if v.folders.Archives == "" && len(v.archives) > 0 {
		v.out.Unchecked = append(v.out.Unchecked, "the archives, and what only they record: no folder was given")
		v.complete = false
	}
	for _, a := range v.archives {
		if v.folders.Archives != "" {
			if err := v.readArchive(ctx, a); err != nil {
				return err
			}
		}
		v.last = hub.Head{Seq: a.Seq, Hash: a.Hash}
	}
	return nil
}

func (v *verifier) readArchive(ctx context.Context, a hub.Archive) error {
	where := "archive " + a.File
	var batch []hub.Entry
	flush := func() error {
		v.out.Archived += len(batch)
		err := v.store.View(ctx, func(r hub.Reader) error { return v.page(r, batch, where+", ") })
		batch = batch[:0]
		return err
	}
	var stop error // an error of the store, not of the file
	got, sum, err := readSegment(v.archivePath(a), func(l line) error {
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
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.find(where, "the file is missing")
	case err != nil:
		v.find(where, "the file cannot be read: %v", err)
	case sum != a.SHA256:
		v.find(where, "the file was changed: its SHA-256 is %.12s, recorded was %.12s", sum, a.SHA256)
	case got.Entries != a.Entries || got.Messages != a.Messages || got.Last != a.Seq || got.Hash != a.Hash:
		v.find(where, "it holds %d entries up to row %d and %d messages, recorded were %d up to row %d and %d",
			got.Entries, got.Last, got.Messages, a.Entries, a.Seq, a.Messages)
	default:
		return nil
	}
	v.complete = false
	return nil
}

func (v *verifier) archivePath(a hub.Archive) string {
	return filepath.Join(v.folders.Archives, filepath.Base(a.File))
}

// readJournal walks along the entries in the store, and compares what they add
// up to when there are no more.
func (v *verifier) readJournal(ctx context.Context) error {
	for more := true; more; {
		err := v.store.View(ctx, func(r hub.Reader) error {
			if err := v.refresh(r); err != nil {
				return err
			}
			for _, a := range v.archives {
				if a.Seq > v.last.Seq {
					v.last = hub.Head{Seq: a.Seq, Hash: a.Hash}
				}
			}
			entries, err := r.Journal(hub.JournalQuery{After: v.last.Seq, Limit: archivePage})
			if err != nil {
				return err
			}
			if more = len(entries) > 0; more {
				v.out.Entries += len(entries)
				return v.page(r, entries, "")
			}
			if v.out.Head, err = hub.HeadOf(r); err != nil {
				return err
			}
			v.checkArchives()
			if err := v.checkPeople(r); err != nil {
				return err
			}
			return v.checkProjects(r)
		})
		if err != nil {
			return err
		}
	}
	v.restOfTrail()
	return nil
}

// page checks entries in order. prefix names the file that they are in.
func (v *verifier) page(r hub.Reader, entries []hub.Entry, prefix string) error {
	for _, e := range entries {
		before := v.last
		switch missing := e.Seq - before.Seq - 1; {
		case missing == 1:
			v.find("journal", "row %d is missing", before.Seq+1)
		case missing > 1:
			v.find("journal", "rows %d to %d are missing", before.Seq+1, e.Seq-1)
		case missing < 0:
			v.find(prefix+row(e.Seq), "it comes after row %d", before.Seq)
		case e.Hash != e.Chain(before.Hash):
			v.find(prefix+row(e.Seq), "its hash does not follow from row %d: this row was changed, or the hash of the one before", before.Seq)
		}
		v.last = hub.Head{Seq: e.Seq, Hash: e.Hash}
		if err := v.compareLine(r, e, before); err != nil {
			return err
		}
		if err := v.entry(r, e, prefix != ""); err != nil {
			return err
		}
	}
	return nil
}

// entry checks the thing that an entry is about.
func (v *verifier) entry(r hub.Reader, e hub.Entry, archived bool) error {
	v.people.replay(v, e)
	v.items.replay(v, e)
	switch {
	case e.Action == hub.ActionArchived:
		rec := recordedArchive{row: e.Seq}
		if err := json.Unmarshal(e.Facts, &rec.archiveFacts); err != nil {
			v.find(row(e.Seq), "its facts cannot be read: %v", err)
		}
		v.recorded[e.Subject] = rec
	case archived:
		v.keep(e)
	case beginsMessage(e.Action):
		return v.checkMessage(r, e)
	case e.Action == hub.ActionHandoffDrafted || e.Action == hub.ActionHandoffProposed:
		_, err := r.Handoff(hub.HandoffID(e.Subject))
		return v.exists("handoff", e, err)
	case e.Action == hub.ActionRunStarting:
		_, err := r.Run(hub.RunID(e.Subject))
		return v.exists("run", e, err)
	}
	return nil
}

// keep remembers an archived entry if the thing it is about is still in the store.
func (v *verifier) keep(e hub.Entry) {
	switch {
	case strings.HasPrefix(string(e.Action), "handoff.") || aboutRun(e.Action):
	case beginsMessage(e.Action):
		var facts sentFacts
		if json.Unmarshal(e.Facts, &facts) == nil && v.mayBeArchived(hub.EnvelopeID(e.Subject), facts.Type) {
			return
		}
	case v.kept[e.Subject] == nil:
		return
	}
	v.kept[e.Subject] = append(v.kept[e.Subject], e)
}

// checkArchives compares the store's list of archives with what the journal
// says about each.
func (v *verifier) checkArchives() {
	listed := map[string]bool{}
	for _, a := range v.archives {
		listed[a.File] = true
		rec, ok := v.recorded[a.File]
		switch {
		case !ok && v.complete:
			v.find("archive "+a.File, "no journal row records it")
		case ok && rec.Archive != a:
			v.find("archive "+a.File, "the list of archives differs from what journal row %d recorded", rec.row)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(v.recorded)) {
		if !listed[file] {
			v.find("archive "+file, "it is missing in the list of archives, though journal row %d records it", v.recorded[file].row)
		}
	}
}

// checkKept looks at what only archives record.
func (v *verifier) checkKept(ctx context.Context) error {
	subjects := slices.SortedFunc(maps.Keys(v.kept), func(a, b string) int { return cmp.Compare(v.kept[a][0].Seq, v.kept[b][0].Seq) })
	for _, subject := range subjects {
		first := v.kept[subject][0]
		err := v.store.View(ctx, func(r hub.Reader) error {
			if err := v.refresh(r); err != nil || !v.complete {
				return err // what followed may be archived by now
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

// findUnrecorded finds messages that no entry records.
func (v *verifier) findUnrecorded(ctx context.Context) error {
	due := map[hub.EnvelopeID]bool{} // to be removed, if an archive holds them
	q := hub.Query{Audit: true, Limit: archivePage}
	for more := true; more; {
		err := v.store.View(ctx, func(r hub.Reader) error {
			if err := v.refresh(r); err != nil {
				return err
			}
			page, err := r.Query(q)
			if hub.CodeOf(err) == hub.CodeDegraded {
				v.find("messages", "they cannot be read on: %v", err)
				more = false
				return nil
			}
			if err != nil {
				return err
			}
			for _, m := range page.Messages {
				v.out.Messages++
				entries, err := r.Journal(hub.JournalQuery{Subject: string(m.ID), Limit: 1})
				if err != nil {
					return err
				}
				known := len(entries) > 0 && beginsMessage(entries[0].Action) || v.kept[string(m.ID)] != nil
				switch {
				case known || !v.complete:
				case v.mayBeArchived(m.ID, m.Type):
					due[m.ID] = true
				default:
					v.unrecorded(m.ID)
				}
			}
			q.Cursor, more = page.Next, page.Next != ""
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(due) == 0 {
		return nil
	}
	for _, a := range v.archives {
		// A file that cannot be read is a finding of readArchive.
		readSegment(v.archivePath(a), func(l line) error {
			if l.Message != nil {
				delete(due, l.Message.ID)
			}
			return ctx.Err()
		})
	}
	for _, id := range slices.Sorted(maps.Keys(due)) {
		v.unrecorded(id)
	}
	return nil
}

func (v *verifier) unrecorded(id hub.EnvelopeID) {
	v.find("message "+string(id), "no journal row records it")
}
