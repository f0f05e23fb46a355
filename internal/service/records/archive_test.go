package records_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/testing/patience"
)

const day = 24 * time.Hour

// oldWorld returns a world in which n messages have become old, others have
// not, and handoffs run through both times. It returns the ids of all messages,
// and true for those that are old enough to go.
func oldWorld(t *testing.T, n int) (*world, map[hub.EnvelopeID]bool) {
	t.Helper()
	w := newWorld(t)
	ids := map[hub.EnvelopeID]bool{}
	h := w.propose("parser", false)
	secret := w.propose("vault", true)
	for range n {
		w.pass(time.Minute)
		ids[w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})] = true
	}
	w.fetch(bob, true)
	var about hub.Message
	w.must(nil, w.facts.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) (err error) {
		about, err = w.mail.Post(tx, ada, hub.Envelope{
			To: []hub.AgentID{"bob"}, Type: hub.TypeHandoffInitiate, ThreadID: "t", Priority: hub.PriorityHigh, Policy: hub.DefaultPolicy,
			Payload: json.RawMessage(fmt.Sprintf(`{"handoff_id":%q}`, h.ID)),
		}, false)
		return err
	}))
	ids[about.ID] = false
	h = w.move(h, hub.HandoffValidating)
	w.copy()
	w.pass(91 * day)
	w.move(w.move(h, hub.HandoffAccepted), hub.HandoffActivated)
	w.fetch(bob, true) // also what is old
	for range 3 {
		ids[w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})] = false
	}
	w.move(secret, hub.HandoffValidating)
	w.copy()
	return w, ids
}

// places returns where each message is: "store", or the name of an archive that
// the store knows.
func (w *world) places() map[hub.EnvelopeID][]string {
	w.t.Helper()
	places := map[hub.EnvelopeID][]string{}
	var archives []hub.Archive
	w.view(func(r hub.Reader) (err error) {
		if archives, err = r.Archives(); err != nil {
			return err
		}
		q := hub.Query{Audit: true, Limit: 1000}
		page, err := r.Query(q)
		for _, m := range page.Messages {
			places[m.ID] = append(places[m.ID], "store")
		}
		return err
	})
	for _, a := range archives {
		for _, l := range w.lines(filepath.Join(w.archives(), a.File)) {
			var line struct {
				Message *struct {
					ID hub.EnvelopeID `json:"id"`
				} `json:"message"`
			}
			if err := json.Unmarshal([]byte(l), &line); err != nil {
				w.t.Fatal(err)
			}
			if line.Message != nil {
				places[line.Message.ID] = append(places[line.Message.ID], a.File)
			}
		}
	}
	return places
}

// wantNothingLost checks that each message is somewhere.
func (w *world) wantNothingLost(ids map[hub.EnvelopeID]bool) {
	w.t.Helper()
	places := w.places()
	for id := range ids {
		if len(places[id]) == 0 {
			w.t.Errorf("message %s is lost", id)
		}
	}
}

func (w *world) archive(opts records.ArchiveOptions) records.ArchiveReport {
	w.t.Helper()
	report, err := w.records.Archive(w.t.Context(), operator, opts)
	w.must(nil, err)
	return report
}

func TestArchive(t *testing.T) {
	patience.NotUnderRace(t)
	const old = 300 // more than a page
	w, ids := oldWorld(t, old)
	before := w.entries()
	var steps []hub.HandoffStep
	handoffs := func(w *world) (all []hub.Handoff) {
		w.view(func(r hub.Reader) (err error) {
			if all, err = r.Handoffs(hub.HandoffQuery{Limit: 10}); err != nil {
				return err
			}
			steps = nil
			for _, h := range all {
				s, err := r.HandoffSteps(h.ID)
				if err != nil {
					return err
				}
				steps = append(steps, s...)
			}
			return nil
		})
		return all
	}
	wantHandoffs := fmt.Sprint(handoffs(w))
	wantSteps := fmt.Sprint(steps)

	dry := w.archive(records.ArchiveOptions{DryRun: true})
	t.Run("a dry run says what would go and changes nothing", func(t *testing.T) {
		if got := w.entries(); len(got) != len(before) {
			t.Errorf("entries: got %d, want %d", len(got), len(before))
		}
		if _, err := os.Stat(w.archives()); !os.IsNotExist(err) {
			t.Errorf("the folder: got %v, want none", err)
		}
		if !dry.DryRun || dry.Messages != old || dry.First != 1 || dry.Pruned != 0 {
			t.Errorf("report: got %+v", dry)
		}
	})
	other := w.clone(t)
	report := w.archive(records.ArchiveOptions{})
	t.Run("R3-117 what is older than 90 days goes into an archive and then out of the store", func(t *testing.T) {
		want := dry
		want.DryRun, want.Pruned = false, dry.Entries+dry.Messages
		if fmt.Sprint(report) != fmt.Sprint(want) {
			t.Errorf("report:\ngot  %+v\nwant %+v", report, want)
		}
		for id, places := range w.places() {
			want := []string{"store"}
			if ids[id] {
				want = []string{report.File}
			}
			if !slices.Equal(places, want) {
				t.Errorf("message %s: got %v, want %v", id, places, want)
			}
		}
		w.wantNothingLost(ids)
		if first := w.entries()[0]; first.Seq != report.Last+1 || first.At.Before(report.Cutoff.Time) {
			t.Errorf("first entry: got %d of %s, want %d, not older than %s", first.Seq, first.At, report.Last+1, report.Cutoff)
		}
	})
	t.Run("R3-118 handoffs, their history and the messages about them are kept", func(t *testing.T) {
		if got := fmt.Sprint(handoffs(w)); got != wantHandoffs {
			t.Errorf("handoffs:\ngot  %s\nwant %s", got, wantHandoffs)
		}
		if got := fmt.Sprint(steps); got != wantSteps {
			t.Errorf("history:\ngot  %s\nwant %s", got, wantSteps)
		}
		for range 3 { // also when they have become old altogether
			w.pass(100 * day)
			w.copy()
			w.archive(records.ArchiveOptions{})
		}
		if got := fmt.Sprint(handoffs(w)); got != wantHandoffs {
			t.Errorf("handoffs:\ngot  %s\nwant %s", got, wantHandoffs)
		}
		kept := 0
		for _, places := range w.places() {
			if slices.Equal(places, []string{"store"}) {
				kept++
			}
		}
		if kept != 1 {
			t.Errorf("messages in the store: got %d, want the one about a handoff", kept)
		}
		w.copy()
		w.wantClean()
	})
	t.Run("an archive holds the entries as they were, and messages with what became of them", func(t *testing.T) {
		lines := w.lines(filepath.Join(w.archives(), report.File))
		if lines[0] != `{"format":"parley-segment","version":1}`+"\n" {
			t.Errorf("first line: got %s", lines[0])
		}
		for i, e := range before[:report.Entries] {
			raw, err := json.Marshal(e)
			want := `{"entry":` + string(raw)
			if end, ok := strings.CutPrefix(lines[i+1], want); err != nil || !ok || end != "}\n" && !strings.HasPrefix(end, `,"handoff":{`) {
				t.Errorf("line %d: got %s, want %s (%v)", i+2, lines[i+1], want, err)
			}
		}
		message := lines[1+report.Entries]
		for _, want := range []string{
			`{"message":{"id":"`, `"parties":[{"agent":"ada","state":"sender"},{"agent":"bob","state":"read"}]`, `"deliveries":[{"message_id":"`, `"status":"read"`,
		} {
			if !strings.Contains(message, want) {
				t.Errorf("message: got %s, want %s in it", message, want)
			}
		}
		if got, want := lines[len(lines)-1], fmt.Sprintf(`{"seal":{"first":1,"last":%d,`, report.Last); !strings.HasPrefix(got, want) || len(lines) != 2+report.Entries+report.Messages {
			t.Errorf("last of %d lines: got %s, want %s", len(lines), got, want)
		}
	})
	t.Run("R3-130 the same store gives the same archive", func(t *testing.T) {
		other.archive(records.ArchiveOptions{})
		got, err := os.ReadFile(filepath.Join(other.archives(), report.File))
		want, err2 := os.ReadFile(filepath.Join(w.archives(), report.File))
		if err != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("the archives differ (%v, %v)", err, err2)
		}
	})
	t.Run("an archived hub is clean, and its archives are looked at", func(t *testing.T) {
		if a := other.wantClean(); a.Archived != report.Entries || len(a.Unchecked) != 0 || a.Handoffs != 2 {
			t.Errorf("audit: got %+v", a)
		}
		other.copy()
		other.wantClean()
		if a := other.verifyIn(records.Folders{Trail: other.trail()}); !a.Clean() || len(a.Unchecked) != 8 {
			t.Errorf("without the archives: got %+v, want it clean and eight things unchecked", a)
		}
	})
	t.Run("an archive with nothing new to go is not made", func(t *testing.T) {
		if got := other.archive(records.ArchiveOptions{}); got.File != "" || got.Entries != 0 || got.Pruned != 0 {
			t.Errorf("report: got %+v, want nothing", got)
		}
	})
	t.Run("who follows events from before goes on after what was archived", func(t *testing.T) {
		entries, _, err := other.journal.Events(t.Context(), operator, 3, 1)
		if err != nil || len(entries) != 1 || entries[0].Seq != report.Last+1 {
			t.Errorf("events: got %v (%v), want row %d", entries, err, report.Last+1)
		}
	})
	t.Run("the store writes on with the next number", func(t *testing.T) {
		c := other.clone(t)
		c.must(nil, c.journal.Started(t.Context(), "x"))
		all := c.entries()
		if last := all[len(all)-1]; last.Seq != int64(len(before))+2 {
			t.Errorf("newest: got %d, want %d", last.Seq, len(before)+2)
		}
		c.wantClean()
	})
}

func TestArchiveTampering(t *testing.T) {
	small, _ := oldWorld(t, 5)
	before := small.entries()
	report := small.archive(records.ArchiveOptions{})
	archived := filepath.Join("archives", report.File)
	for _, tt := range []struct {
		name string
		do   func(c *world)
		want []string
	}{
		{"a message in an archive changed", func(c *world) {
			c.edit(filepath.Join(c.home, archived), func(b []byte) []byte { return bytes.Replace(b, []byte("message at"), []byte("Message at"), 1) })
		}, []string{"archive " + report.File + ": the file cannot be read: line #: the seal does not match the lines before it"}},
		{"an entry in an archive changed", func(c *world) {
			c.edit(filepath.Join(c.home, archived), func(b []byte) []byte {
				return bytes.Replace(b, []byte(`"role":"reviewer"`), []byte(`"role":"executor"`), 1)
			})
		}, []string{
			"archive " + report.File + ": the file cannot be read: line #: the seal does not match the lines before it",
			fmt.Sprintf("archive %s, journal row 5: its hash does not follow from row 4: this row or the hash before it was changed", report.File),
			firstSegment + " line 6: it differs from journal row 5",
		}},
		{"an archive cut off", func(c *world) {
			c.edit(filepath.Join(c.home, archived), func(b []byte) []byte { return b[:len(b)-100] })
		}, []string{"archive " + report.File + ": the file cannot be read: it ends without a seal"}},
		{"an archive removed", func(c *world) { c.must(nil, os.Remove(filepath.Join(c.home, archived))) }, []string{"archive " + report.File + ": the file is missing"}},
		{"the list of archives changed", func(c *world) { c.raw(`UPDATE journal_archives SET cutoff = '2030-01-01T00:00:00.000Z'`) }, []string{
			fmt.Sprintf("listed archive %s: it differs from journal row %d", report.File, len(before)+1),
		}},
		{"an archive removed from the list", func(c *world) { c.raw(`DELETE FROM journal_archives`) }, []string{
			fmt.Sprintf("listed archive %s: it is missing, though journal row %d records it", report.File, len(before)+1),
			fmt.Sprintf("journal: rows 1 to %d are missing", report.Last),
		}},
		{"a message about a handoff whose sending is archived", func(c *world) { c.raw(`UPDATE messages SET payload_json = '{}' WHERE type = 'handoff.initiate'`) }, []string{
			"message #: its payload differs from journal row #",
		}},
		{"a message about a handoff removed whose sending is archived", func(c *world) {
			c.raw(`DELETE FROM message_meta WHERE message_id IN (SELECT id FROM messages WHERE type = 'handoff.initiate');
				DELETE FROM messages WHERE type = 'handoff.initiate'`)
		}, []string{"message #: it is missing, though journal row # records it"}},
		{"the history of a handoff whose beginning is archived", func(c *world) { c.raw(`UPDATE handoff_history SET note = 'x' WHERE n = 1`) }, []string{
			"handoff #: step 1 (proposed) of its history differs from journal row #",
			"handoff #: step 1 (proposed) of its history differs from journal row #",
		}},
		{"an agent whose beginning is archived", func(c *world) { c.raw(`UPDATE agents SET auditor = 1 WHERE id = 'ada'`) }, []string{
			"agent ada: its auditor flag differs from journal row #",
		}},
	} {
		t.Run("tampering: "+tt.name, func(t *testing.T) {
			c := small.duplicate(t)
			tt.do(c)
			c.open()
			var got []string
			for _, f := range c.verify().Findings {
				got = append(got, f.String())
			}
			for i, want := range tt.want {
				if !slices.ContainsFunc(got, func(s string) bool { return sameBut(s, want) }) {
					t.Errorf("finding %d: got %q, want %q", i, got, want)
				}
			}
			if strings.HasPrefix(tt.name, "an archive removed from") {
				return // what was archived is missed, too
			}
			if len(got) != len(tt.want) {
				t.Errorf("findings: got %q, want %q", got, tt.want)
			}
		})
	}
}

// wantChanged checks that an audit has found that an archive was changed, and nothing
// else.
func (w *world) wantChanged(file string) {
	w.t.Helper()
	got := w.verify().Findings
	if want := "archive " + file + ": the file was changed"; len(got) != 1 || !strings.HasPrefix(got[0].String(), want) {
		w.t.Errorf("findings: got %v, want one that begins %q", got, want)
	}
}

func TestArchiveSum(t *testing.T) {
	t.Run("an archive that was changed and sealed again is found by its sum", func(t *testing.T) {
		w, _ := oldWorld(t, 5)
		file := w.archive(records.ArchiveOptions{}).File
		w.wantClean()
		w.reseal(filepath.Join(w.archives(), file))
		w.wantChanged(file)
	})
}

func TestArchiveGoesOn(t *testing.T) {
	t.Run("an archive that cannot be relied on removes nothing", func(t *testing.T) {
		for name, spoil := range map[string]func(w *world, path string){
			"changed": func(w *world, path string) {
				w.edit(path, func(b []byte) []byte { return bytes.Replace(b, []byte("message at"), []byte("Message at"), 1) })
			},
			"changed and sealed again": func(w *world, path string) { w.reseal(path) },
			"removed":                  func(w *world, path string) { w.must(nil, os.Remove(path)) },
		} {
			t.Run(name, func(t *testing.T) {
				c, file := killedBeforePrune(t)
				entries := len(c.entries())
				spoil(c, filepath.Join(c.archives(), file))
				_, err := c.records.Archive(t.Context(), operator, records.ArchiveOptions{})
				if hub.CodeOf(err) != hub.CodeConflict || len(c.entries()) != entries {
					t.Errorf("got %v and %d entries, want a conflict and %d", err, len(c.entries()), entries)
				}
			})
		}
	})
	t.Run("a message that came late with an old id waits for the next archive", func(t *testing.T) {
		c, _ := killedBeforePrune(t)
		now := c.now
		c.now = now.Add(-120 * day)
		late := c.send(eve, mailroom.Draft{To: []hub.AgentID{"bob"}})
		c.now = now
		c.copy()
		c.archive(records.ArchiveOptions{})
		if got := c.places()[late]; !slices.Contains(got, "store") {
			t.Fatalf("the late message: got %v, want it in the store", got)
		}
		c.pass(100 * day)
		c.copy()
		next := c.archive(records.ArchiveOptions{})
		if got := c.places()[late]; !slices.Equal(got, []string{next.File}) {
			t.Errorf("the late message: got %v, want it in %s", got, next.File)
		}
		c.wantClean()
	})
}

// sameBut reports whether two findings are the same where want has no "#".
func sameBut(got, want string) bool {
	parts := strings.Split(want, "#")
	if !strings.HasPrefix(got, parts[0]) {
		return false
	}
	for _, p := range parts {
		i := strings.Index(got, p)
		if i < 0 {
			return false
		}
		got = got[i+len(p):]
	}
	return got == "" || parts[len(parts)-1] == ""
}

// killedBeforePrune returns a world whose hub was killed after an archive was
// noted, before anything was removed, and the name of the archive.
func killedBeforePrune(t *testing.T) (*world, string) {
	t.Helper()
	w, _ := oldWorld(t, 5)
	stop := w.recordsWith(&stopStore{w.store, 1}, records.Options{}) // that notes the archive
	if _, err := stop.Archive(t.Context(), operator, records.ArchiveOptions{}); hub.CodeOf(err) != hub.CodeDegraded {
		t.Fatalf("got %v, want degraded", err)
	}
	file := ""
	w.view(func(r hub.Reader) error {
		archives, err := r.Archives()
		if len(archives) != 1 {
			t.Fatalf("archives: got %d, want 1", len(archives))
		}
		file = archives[0].File
		return err
	})
	return w, file
}

// A stopStore refuses changes after the first few.
type stopStore struct {
	hub.Store
	left int
}

func (s *stopStore) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	if s.left == 0 {
		return hub.Errorf(hub.CodeDegraded, "test", "the hub was killed")
	}
	s.left--
	return s.Store.Update(ctx, d, fn)
}

func TestArchiveWaitsForConsumers(t *testing.T) {
	w, _ := oldWorld(t, 50)
	w.records = w.recordsWith(w.store, records.Options{Consumers: []string{"slow"}})
	slow := func(seq int64) records.ArchiveOptions {
		w.update(func(tx hub.Tx) error { return tx.PutCursor("slow", seq) })
		return records.ArchiveOptions{}
	}
	t.Run("what a consumer has not seen is not archived", func(t *testing.T) {
		if got := w.archive(slow(0)); got.File != "" || got.HeldBackBy != "slow" {
			t.Errorf("report: got %+v, want nothing, held back by slow", got)
		}
		got := w.archive(slow(50))
		if got.Last != 50 || got.HeldBackBy != "slow" {
			t.Errorf("report: got %+v, want rows up to 50", got)
		}
		seen := map[string]bool{}
		for _, e := range w.entries() {
			seen[e.Subject] = seen[e.Subject] || e.Action == actions.MessageSent
		}
		for id, places := range w.places() {
			if seen[string(id)] && !slices.Contains(places, "store") {
				t.Errorf("message %s has gone before its entry", id)
			}
		}
		w.wantClean()
	})
	t.Run("a message whose entry came after that of a younger message waits for its entry", func(t *testing.T) {
		w := newWorld(t)
		w.records = w.recordsWith(w.store, records.Options{Consumers: []string{"slow"}})
		younger := w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		w.close()
		w.open()
		w.records = w.recordsWith(w.store, records.Options{Consumers: []string{"slow"}})
		w.pass(-30 * time.Second)
		older := w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		w.copy()
		w.pass(100 * day)
		first := w.rowOf(actions.MessageSent, 0) // of the younger message
		w.update(func(tx hub.Tx) error { return tx.PutCursor("slow", first-1) })
		if got := w.archive(records.ArchiveOptions{}); got.Last != first-1 || older >= younger {
			t.Fatalf("got rows up to %d, want %d, before the messages %s and %s", got.Last, first-1, older, younger)
		}
		if got := w.places()[older]; !slices.Equal(got, []string{"store"}) {
			t.Errorf("the message is in %v, and its entry in the store", got)
		}
		w.wantClean()
	})
	t.Run("the trail is a consumer", func(t *testing.T) {
		w.update(func(tx hub.Tx) error { return tx.PutCursor("records.trail", 60) })
		if got := w.archive(slow(1000)); got.Last != 60 || got.HeldBackBy != "records.trail" {
			t.Errorf("report: got %+v, want rows up to 60", got)
		}
	})
	t.Run("then the rest goes", func(t *testing.T) {
		w.must(nil, w.recordsWith(w.store, records.Options{}).Copy(t.Context()))
		if got := w.archive(slow(1000)); got.First != 61 || got.HeldBackBy != "" {
			t.Errorf("report: got %+v, want rows from 61", got)
		}
		w.wantClean()
	})
}

func TestArchiveRetiresTheTrail(t *testing.T) {
	w, _ := oldWorld(t, 20)
	w.records = w.recordsWith(w.store, records.Options{Seal: 1})
	w.propose("printer", false)
	w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
	w.copy()
	w.pass(91 * day)
	w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
	w.copy()
	names := func() []string {
		return slices.Sorted(maps.Keys(w.trailContent()))
	}
	before := names()
	w.archive(records.ArchiveOptions{})
	w.copy()
	after := names()
	t.Run("sealed segments go when archives hold them", func(t *testing.T) {
		var gone []string
		for _, name := range before {
			if !slices.Contains(after, name) {
				gone = append(gone, name)
			}
		}
		if len(gone) == 0 || slices.Contains(gone, "head.json") {
			t.Errorf("files:\nbefore %q\nafter  %q", before, after)
		}
		w.wantClean()
	})
	t.Run("a trail that is lost is written again as far as the store holds it", func(t *testing.T) {
		w.must(nil, os.RemoveAll(w.trail()))
		w.must(nil, w.recordsWith(w.store, records.Options{}).Copy(t.Context()))
		w.wantClean()
		if lines := w.lines(filepath.Join(w.trail(), names()[1])); !strings.Contains(strings.Join(lines, ""), `,"envelope":`) {
			t.Errorf("lines: got %s, want one with its envelope", lines)
		}
	})
	t.Run("a trail that begins after an archive begins there", func(t *testing.T) {
		w.must(nil, os.RemoveAll(w.trail()))
		w.close()
		w.raw(`DELETE FROM cursors WHERE consumer = 'records.trail'`)
		w.open()
		w.copy()
		w.wantClean()
	})
}

func TestArchiveRefuses(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.home, "file")
	w.must(nil, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct {
		name  string
		actor hub.Caller
		dir   string
		keep  time.Duration
		want  hub.Code
	}{
		{"an agent", ada, w.archives(), 0, hub.CodeDenied},
		{"less than a day", operator, w.archives(), time.Hour, hub.CodeInvalid},
		{"no folder", operator, "", 0, hub.CodeInvalid},
		{"a folder that cannot be made", operator, filepath.Join(file, "x"), 0, hub.CodeDegraded},
	} {
		r := records.New(w.store, records.Folders{Archives: tt.dir}, nil)
		if _, err := r.Archive(t.Context(), tt.actor, records.ArchiveOptions{Keep: tt.keep}); hub.CodeOf(err) != tt.want {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestRunArchives(t *testing.T) {
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlite.Open(home, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		dir := filepath.Join(home, "archives")
		rec := records.New(store, records.Folders{Trail: filepath.Join(home, "trail"), Archives: dir}, &records.Options{Keep: 3 * day})
		if err := journal.New(store, nil).Started(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { rec.Run(ctx); close(done) }()
		count := func() int {
			synctest.Wait()
			names, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			return len(names)
		}
		<-time.After(2*day + time.Hour) // in the time of the bubble
		if got := count(); got != 0 {
			t.Errorf("after two days: got %d archives, want none", got)
		}
		<-time.After(2 * day)
		if got := count(); got != 1 {
			t.Errorf("after four days: got %d archives, want 1", got)
		}
		cancel()
		<-done
	})
}
