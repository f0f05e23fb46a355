package sqlite

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

// killed returns a folder with the files that a process leaves behind when it
// is killed now.
func killed(t testing.TB, s *Store) string {
	t.Helper()
	image := t.TempDir()
	idle(t, s, func() {
		for _, path := range []string{s.path, s.path + "-wal"} {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(filepath.Join(image, filepath.Base(path)), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	return image
}

// update changes a store or ends the test.
func update(t testing.TB, s *Store, fn func(tx hub.Tx) error) {
	t.Helper()
	if err := s.Update(context.Background(), hub.SurvivesKill, fn); err != nil {
		t.Fatal(err)
	}
}

// view reads a store or ends the test.
func view(t testing.TB, s *Store, fn func(r hub.Reader) error) {
	t.Helper()
	if err := s.View(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func idsIn(page hub.Page) (ids []hub.EnvelopeID) {
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// wantLists compares bob's inbox and ada's messages with ids, oldest first.
func wantLists(t testing.TB, s *Store, inbox, sent []hub.EnvelopeID) {
	t.Helper()
	view(t, s, func(r hub.Reader) error {
		page, err := r.Inbox("bob", hub.InboxFilter{Limit: 5000, Now: hub.At(time.Now())})
		if got := idsIn(page); err != nil || !slices.Equal(got, inbox) {
			t.Errorf("inbox: got %q, %v, want %q", got, err, inbox)
		}
		if n, err := r.CountMessages(hub.CountFilter{Inbox: "bob", Limit: 5000}); err != nil || n != len(inbox) {
			t.Errorf("unread: got %d, %v, want %d", n, err, len(inbox))
		}
		page, err = r.Query(hub.Query{Viewer: "ada", Limit: 5000})
		got := idsIn(page)
		slices.Reverse(got)
		if err != nil || !slices.Equal(got, sent) {
			t.Errorf("sent: got %q, %v, want %q", got, err, sent)
		}
		return nil
	})
}

// countFound counts the messages with a word, once every word is indexed.
func countFound(t testing.TB, s *Store, viewer hub.AgentID, text string) (n int) {
	t.Helper()
	if err := s.IndexText(context.Background()); err != nil {
		t.Fatal(err)
	}
	view(t, s, func(r hub.Reader) error {
		page, err := r.Query(hub.Query{Viewer: viewer, Text: text, Limit: 5000})
		n = len(page.Messages)
		return err
	})
	return n
}

// unfiled counts messages that have no parties in the database.
func unfiled(t testing.TB, dir string) string {
	t.Helper()
	return rowsOf(t, raw(t, dir), `SELECT count(*) FROM messages AS m LEFT JOIN message_meta AS d ON d.message_id = m.id
		WHERE NOT EXISTS (SELECT 1 FROM message_party AS p WHERE p.seq = d.seq)`)[0]
}

func TestKill(t *testing.T) {
	t.Run("R3-004 what was acknowledged before a kill lies in the inbox after the next start", func(t *testing.T) {
		s := openTest(t, nil)
		var ids []hub.EnvelopeID
		for range 20 {
			ids = append(ids, put(t, s))
		}
		dir := killed(t, s)
		if got, want := unfiled(t, dir), "0"; got != want {
			t.Errorf("unfiled: got %s, want %s", got, want)
		}
		again := openAt(t, dir, nil)
		wantLists(t, again, ids, ids)
		if got, want := countFound(t, again, "bob", "printer"), len(ids); got != want {
			t.Errorf("found by a word: got %d, want %d", got, want)
		}
		if err := again.Check(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("R3-004 a log that grew over many kills is copied at the next start", func(t *testing.T) {
		s := openTest(t, nil)
		id := put(t, s)
		dir := killed(t, s)
		log := filepath.Join(dir, databaseName+"-wal")
		if err := os.Truncate(log, walTrim); err != nil { // longer: what follows the last commit is ignored
			t.Fatal(err)
		}
		again := openAt(t, dir, nil)
		wantLists(t, again, []hub.EnvelopeID{id}, []hub.EnvelopeID{id})
		if info, err := os.Stat(log); err != nil || info.Size() >= walTrim {
			t.Errorf("the log has %d bytes (%v)", info.Size(), err)
		}
	})
	t.Run("R3-004 a kill loses neither what became of a message nor what caused it", func(t *testing.T) {
		s := openTest(t, nil)
		read, unread := put(t, s), put(t, s)
		update(t, s, func(tx hub.Tx) error {
			return errors.Join(tx.PutParty(read, "bob", hub.PartyDelivered, hub.PartyUnread), tx.PutParty(read, "bob", hub.PartyRead, hub.PartyDelivered))
		})
		effect, parties := benchMessage(testIDs, "ada", "bob")
		effect.Hop, effect.Cause = 3, read
		update(t, s, func(tx hub.Tx) error { return tx.AddMessage(effect, parties) })
		again := openAt(t, killed(t, s), nil)
		wantLists(t, again, []hub.EnvelopeID{unread, effect.ID}, []hub.EnvelopeID{read, unread, effect.ID})
		view(t, again, func(r hub.Reader) error {
			if p, err := r.Parties(read, "bob"); err != nil || p[0].State != hub.PartyRead {
				t.Errorf("party: got %v, %v, want %s", p, err, hub.PartyRead)
			}
			if m, err := r.Message(effect.ID); err != nil || m.Hop != 3 || m.Cause != read {
				t.Errorf("effect: got hop %d of %s, %v, want 3 of %s", m.Hop, m.Cause, err, read)
			}
			return nil
		})
	})
	t.Run("R3-004 a message in the place of one that was removed survives a kill, too", func(t *testing.T) {
		s := openTest(t, nil)
		kept, removed := put(t, s), put(t, s)
		if got, want := countFound(t, s, "bob", "printer"), 2; got != want {
			t.Fatalf("found by a word: got %d, want %d", got, want)
		}
		if err := raw(t, filepath.Dir(s.path)).db.Exec(`DELETE FROM messages WHERE id = '` + string(removed) + `'`); err != nil {
			t.Fatal(err)
		}
		ids := []hub.EnvelopeID{kept, put(t, s), put(t, s)}
		again := openAt(t, killed(t, s), nil)
		wantLists(t, again, ids, ids)
		if got, want := countFound(t, again, "bob", "printer"), len(ids); got != want {
			t.Errorf("found by a word: got %d, want %d", got, want)
		}
	})
	t.Run("R3-004 messages that a killed hub of schema 5 had not filed are filed when it is opened", func(t *testing.T) {
		// The file was made by commit 7e2a2d4: nine messages of ada to bob, the
		// last with a cause. Of the last six one has all its rows, because bob
		// read it, and the others lack their rows of message_party, four of
		// them that of message_meta, too. Bob has fetched the first.
		dir := t.TempDir()
		unpack(t, "testdata/schema5.db.gz", filepath.Join(dir, databaseName))
		c := raw(t, dir)
		if got, want := unfiled(t, dir), "5"; got != want {
			t.Fatalf("unfiled before: got %s, want %s", got, want)
		}
		var ids []hub.EnvelopeID
		for _, id := range rowsOf(t, c, `SELECT id FROM messages ORDER BY id`) {
			ids = append(ids, hub.EnvelopeID(id))
		}
		s := openAt(t, dir, nil)
		if got, want := unfiled(t, dir), "0"; got != want {
			t.Errorf("unfiled: got %s, want %s", got, want)
		}
		wantLists(t, s, slices.Delete(slices.Clone(ids), 4, 5), ids)
		if got, want := countFound(t, s, "bob", "printer"), len(ids); got != want {
			t.Errorf("found by a word: got %d, want %d", got, want)
		}
		view(t, s, func(r hub.Reader) error {
			m, err := r.Message(ids[8])
			if m.Hop != 3 || m.Cause != ids[0] {
				t.Errorf("the last: got hop %d of %q, want 3 of %s", m.Hop, m.Cause, ids[0])
			}
			return err
		})
		if err := s.Check(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("messages of one instant keep their order", func(t *testing.T) {
		s := openTest(t, nil)
		at := hub.At(time.Now())
		var ids []hub.EnvelopeID
		for i := range 12 {
			m, parties := benchMessage(testIDs, "ada", "bob")
			m.ID, m.CreatedAt = hub.EnvelopeID(fmt.Sprintf("message-%02d", i)), at // an id without a counter
			ids = append(ids, m.ID)
			update(t, s, func(tx hub.Tx) error { return tx.AddMessage(m, parties) })
		}
		wantLists(t, s, ids, ids)
	})
}

func TestWordIndex(t *testing.T) {
	t.Run("words of an Update that failed are not indexed", func(t *testing.T) {
		s := openTest(t, nil)
		put(t, s)
		m, parties := benchMessage(testIDs, "ada", "bob")
		no := errors.New("no")
		if err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
			if err := tx.AddMessage(m, parties); err != nil {
				return err
			}
			return no
		}); !errors.Is(err, no) {
			t.Fatalf("got %v, want %v", err, no)
		}
		if got := countFound(t, s, "ada", "printer"); got != 1 {
			t.Errorf("got %d, want 1", got)
		}
		update(t, s, func(tx hub.Tx) error { return tx.AddMessage(m, parties) })
		if got := countFound(t, s, "ada", "printer"); got != 2 {
			t.Errorf("after it succeeded: got %d, want 2", got)
		}
	})
	t.Run("words are indexed when no change comes", func(t *testing.T) {
		s := openTest(t, &Options{patience: time.Nanosecond})
		for range 3 {
			put(t, s)
		}
		for s.indexedRow.Load() < 3 {
			runtime.Gosched()
		}
		if got, want := rowsOf(t, raw(t, filepath.Dir(s.path)), `SELECT count(*) FROM message_text WHERE message_text MATCH 'printer'`)[0], "3"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("the lag of the index has a bound", func(t *testing.T) {
		s := openTest(t, nil)
		update(t, s, func(tx hub.Tx) error {
			for range maxLag {
				m, parties := benchMessage(testIDs, "ada", "bob")
				if err := tx.AddMessage(m, parties); err != nil {
					return err
				}
			}
			return nil
		})
		idle(t, s, func() {
			if got, want := s.lastRow.Load()-s.indexedRow.Load(), int64(maxLag-wordBatch); got != want {
				t.Errorf("lag: got %d, want %d", got, want)
			}
		})
		if got, want := countFound(t, s, "bob", "printer"), maxLag; got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	})
	t.Run("a message that another program removed is passed over", func(t *testing.T) {
		s := openTest(t, nil)
		removed, kept := put(t, s), put(t, s)
		if err := raw(t, filepath.Dir(s.path)).db.Exec(`DELETE FROM messages WHERE id = '` + string(removed) + `'`); err != nil {
			t.Fatal(err)
		}
		if got, want := countFound(t, s, "bob", "printer"), 1; got != want {
			t.Errorf("got %d, want %d", got, want)
		}
		wantLists(t, s, []hub.EnvelopeID{kept}, []hub.EnvelopeID{kept})
	})
	t.Run("a message to many is found by each of them and by nobody else", func(t *testing.T) {
		s := openTest(t, nil)
		m, _ := benchMessage(testIDs, "ada", "bob")
		parties := []hub.Party{{Agent: "ada", State: hub.PartySender}}
		for i := range 24 {
			parties = append(parties, hub.Party{Agent: hub.AgentID("many-" + strconv.Itoa(i)), State: hub.PartyUnread})
		}
		update(t, s, func(tx hub.Tx) error { return tx.AddMessage(m, parties) })
		for who, want := range map[hub.AgentID]int{"ada": 1, "many-0": 1, "many-23": 1, "bob": 0, "eve": 0} {
			if got := countFound(t, s, who, "printer"); got != want {
				t.Errorf("%s: got %d, want %d", who, got, want)
			}
		}
	})
}

// unpack writes what a compressed file holds to path.
func unpack(t testing.TB, file, path string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
