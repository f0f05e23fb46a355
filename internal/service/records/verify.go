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

// Verify compares everything that the journal records with what is there: the
// journal's own chain of hashes, archives included, messages with what became
// of them, handoffs with their history, runs, contracts and context packets as
// they are now, agents and keys, and the files of the trail. What does not fit is
// a finding, not an error. It may run while the store is in use, and holds no
// snapshot for long.
func (r *Records) Verify(ctx context.Context) (Audit, error) {
	v := &verifier{
		store: r.store, opts: r.folders, complete: true, kept: map[string][]hub.Entry{}, recorded: map[string]recordedArchive{},
		people: newRoster(), items: newProjectItems(),
	}
	v.out.Unchecked, v.out.Findings = []string{}, []Finding{}
	defer v.close()
	for _, step := range []func(context.Context) error{
		v.begin, v.readArchives, v.readJournal, v.checkKept, v.findStrangers, v.checkHandoffs, v.checkRuns,
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

// A verifier walks along the journal, oldest entry first.
type verifier struct {
	store hub.Store
	opts  Folders
	out   Audit

	archives []hub.Archive // as of the newest look
	looked   bool
	complete bool     // every archived entry was read
	last     int64    // number of the entry before
	hash     string   // its hash
	trail    []*trail // one per family; none if it is not looked at

	kept     map[string][]hub.Entry     // archived entries about what is in the store still
	recorded map[string]recordedArchive // what the journal says about archives, by file
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

// gone reports whether a message has rightly left the store.
func (v *verifier) gone(id hub.EnvelopeID, t hub.MessageType) bool {
	_, cutoff := v.archived()
	return t.Family() != "handoff" && id < hub.FirstID(cutoff)
}

// begin looks at the head files and opens the trail.
func (v *verifier) begin(ctx context.Context) error {
	if v.opts.Trail == "" {
		v.out.Unchecked = append(v.out.Unchecked, "the trail and the head outside the database: no folder was given")
		return v.store.View(ctx, v.look)
	}
	// The store may be in use. So the heads come first: what they name is in
	// any snapshot taken later. Then the cursor: files opened later hold all
	// lines up to it. Then what the files hold: those opened earlier hold more.
	heads, err := readHeads(v.opts.Trail)
	if err != nil {
		return err
	}
	var cursor int64
	err = v.store.View(ctx, func(r hub.Reader) (err error) {
		cursor, _, err = holdingsOf(r)
		return err
	})
	if err != nil {
		return err
	}
	for _, family := range families {
		t, err := openTrail(filepath.Join(v.opts.Trail, family), family, cursor)
		if err != nil {
			return err
		}
		v.trail = append(v.trail, t)
		aside, err := setAsideIn(filepath.Join(v.opts.Trail, family))
		if err != nil {
			return err
		}
		for _, name := range aside {
			v.find(filepath.Join(family, name), "it was set aside, because it does not fit the journal")
		}
	}
	return v.store.View(ctx, func(r hub.Reader) error {
		if err := v.look(r); err != nil {
			return err
		}
		_, held, err := holdingsOf(r)
		if err != nil {
			return err
		}
		for _, t := range v.trail {
			t.after = held[t.family].After
		}
		newest, _, err := r.JournalHead()
		if err != nil {
			return err
		}
		if cursor > newest {
			v.find("journal", "it ends at row %d, but the trail has seen row %d: the tail of the journal was cut off", newest, cursor)
		}
		return v.checkHeads(r, heads, cursor)
	})
}

// look finds out what lies in archives now. What was archived since the last
// look is not known.
func (v *verifier) look(r hub.Reader) error {
	before, _ := v.archived()
	archives, err := r.Archives()
	if err != nil {
		return err
	}
	v.archives = archives
	if now, _ := v.archived(); v.looked && now != before {
		v.complete = false
	}
	v.looked = true
	return nil
}

// checkHeads compares the journal with the head outside the store, and with
// those that were set aside because they contradicted it.
func (v *verifier) checkHeads(r hub.Reader, heads []headFile, cursor int64) error {
	for _, h := range heads {
		if errors.Is(h.err, fs.ErrNotExist) {
			// The first head may have been written a moment ago.
			if _, err := readHead(filepath.Join(v.opts.Trail, h.name)); cursor > 0 && errors.Is(err, fs.ErrNotExist) {
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
			if again, err := readHead(filepath.Join(v.opts.Trail, h.name)); err == nil {
				h.Head = again
			}
			if h.Seq < cursor {
				v.find(h.name, "it names row %d, though the trail has come to row %d", h.Seq, cursor)
				continue
			}
		}
		verdict, err := judge(h.Head, r, v.archives)
		if err != nil {
			return err
		}
		if verdict != headHolds {
			v.find(h.name, "it names row %d with hash %.12s, which is not in the journal: %s", h.Seq, h.Hash, verdict)
		}
	}
	return nil
}

// readArchives walks along the entries that lie in archives.
func (v *verifier) readArchives(ctx context.Context) error {
	if v.opts.Archives == "" && len(v.archives) > 0 {
		v.out.Unchecked = append(v.out.Unchecked, "the archives, and what only they record: no folder was given")
		v.complete = false
	}
	for _, a := range v.archives {
		if v.opts.Archives != "" {
			if err := v.readArchive(ctx, a); err != nil {
				return err
			}
		}
		v.last, v.hash = a.Seq, a.Hash
	}
	return nil
}

func (v *verifier) readArchive(ctx context.Context, a hub.Archive) error {
	where := "archive " + a.File
	entries, messages, ended := 0, 0, false
	var batch []hub.Entry
	flush := func() error {
		err := v.store.View(ctx, func(r hub.Reader) error { return v.page(r, batch, where+", ") })
		entries += len(batch)
		batch = batch[:0]
		return err
	}
	var stop error // an error of the store, not of the file
	sum, err := readArchive(filepath.Join(v.opts.Archives, filepath.Base(a.File)), func(l archiveLine) error {
		switch {
		case l.Entry != nil:
			if batch = append(batch, *l.Entry); len(batch) == archivePage {
				stop = flush()
			}
		case l.Message != nil:
			messages++
		case l.End != nil:
			ended = true
		}
		return stop
	})
	if stop == nil {
		stop = flush()
	}
	if stop != nil {
		return stop
	}
	v.out.Archived += entries
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.find(where, "the file is missing")
	case err != nil:
		v.find(where, "the file cannot be read: %v", err)
	case sum != a.SHA256:
		v.find(where, "the file was changed: its SHA-256 is %.12s, recorded was %.12s", sum, a.SHA256)
	case !ended || entries != a.Entries || messages != a.Messages || v.last != a.Seq || v.hash != a.Hash:
		v.find(where, "it holds %d entries up to row %d and %d messages, recorded were %d up to row %d and %d",
			entries, v.last, messages, a.Entries, a.Seq, a.Messages)
	default:
		return nil
	}
	v.complete = false
	return nil
}

// readJournal walks along the entries in the store, and compares what they add
// up to when there are no more.
func (v *verifier) readJournal(ctx context.Context) error {
	for more := true; more; {
		err := v.store.View(ctx, func(r hub.Reader) error {
			if err := v.look(r); err != nil {
				return err
			}
			for _, a := range v.archives {
				if a.Seq > v.last {
					v.last, v.hash = a.Seq, a.Hash
				}
			}
			entries, err := r.Journal(hub.JournalQuery{After: v.last, Limit: archivePage})
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
	for _, t := range v.trail {
		v.rest(t)
	}
	return nil
}

// page looks at entries in order. prefix says where they lie.
func (v *verifier) page(r hub.Reader, entries []hub.Entry, prefix string) error {
	for _, e := range entries {
		switch missing := e.Seq - v.last - 1; {
		case missing == 1:
			v.find("journal", "row %d is missing", v.last+1)
		case missing > 1:
			v.find("journal", "rows %d to %d are missing", v.last+1, e.Seq-1)
		case missing < 0:
			v.find(prefix+row(e.Seq), "it comes after row %d", v.last)
		case e.Hash != e.Chain(v.hash):
			v.find(prefix+row(e.Seq), "its hash does not follow from row %d: this row was changed, or the hash of the one before", v.last)
		}
		v.last, v.hash = e.Seq, e.Hash
		if err := v.entry(r, e, prefix != ""); err != nil {
			return err
		}
	}
	return nil
}

// entry looks at what one entry is about.
func (v *verifier) entry(r hub.Reader, e hub.Entry, archived bool) error {
	for _, t := range v.trail {
		if t.family == familyOf(e.Action) {
			if err := v.compareLine(t, r, e); err != nil {
				return err
			}
		}
	}
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
	case begins(e.Action):
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

// keep remembers an archived entry if what it is about is in the store still.
func (v *verifier) keep(e hub.Entry) {
	switch {
	case familyOf(e.Action) == "handoffs" || aboutRun(e.Action):
	case begins(e.Action):
		var facts sentFacts
		if json.Unmarshal(e.Facts, &facts) == nil && v.gone(hub.EnvelopeID(e.Subject), facts.Type) {
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
			if err := v.look(r); err != nil || !v.complete {
				return err // what followed may be archived by now
			}
			if begins(first.Action) {
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

// findStrangers looks for messages that no entry records.
func (v *verifier) findStrangers(ctx context.Context) error {
	due := map[hub.EnvelopeID]bool{} // to be removed, if an archive holds them
	q := hub.Query{Audit: true, Limit: archivePage}
	for more := true; more; {
		err := v.store.View(ctx, func(r hub.Reader) error {
			if err := v.look(r); err != nil {
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
				known := len(entries) > 0 && begins(entries[0].Action) || v.kept[string(m.ID)] != nil
				switch {
				case known || !v.complete:
				case v.gone(m.ID, m.Type):
					due[m.ID] = true
				default:
					v.stranger(m.ID)
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
		// That it can be read was found before.
		if _, err := readArchive(filepath.Join(v.opts.Archives, filepath.Base(a.File)), func(l archiveLine) error {
			if l.Message != nil {
				delete(due, l.Message.ID)
			}
			return ctx.Err()
		}); ctx.Err() != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(due)) {
		v.stranger(id)
	}
	return nil
}

func (v *verifier) stranger(id hub.EnvelopeID) {
	v.find("message "+string(id), "no journal row records it")
}

// close closes the files of the trail.
func (v *verifier) close() {
	for _, t := range v.trail {
		t.close()
	}
}
