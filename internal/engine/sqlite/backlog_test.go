package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

// killed returns a folder with what a process that is killed now leaves
// behind: its files, and no lock.
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

// wantLists checks what bob's inbox and ada's messages hold, oldest first.
func wantLists(t testing.TB, r hub.Reader, inbox, sent []hub.EnvelopeID) {
	t.Helper()
	page, err := r.Inbox("bob", hub.InboxFilter{Limit: 5000, Now: hub.At(time.Now())})
	if got := idsIn(page); err != nil || !slices.Equal(got, inbox) {
		t.Errorf("inbox: got %q, %v, want %q", got, err, inbox)
	}
	if n, err := r.Unread("bob", 5000); err != nil || n != len(inbox) {
		t.Errorf("unread: got %d, %v, want %d", n, err, len(inbox))
	}
	page, err = r.Query(hub.Query{Viewer: "ada", Limit: 5000})
	got := idsIn(page)
	slices.Reverse(got)
	if err != nil || !slices.Equal(got, sent) {
		t.Errorf("sent: got %q, %v, want %q", got, err, sent)
	}
}

// unfiledIn counts messages that have no parties in the database.
func unfiledIn(t testing.TB, dir string) string {
	t.Helper()
	return rows(t, raw(t, dir), `SELECT count(*) FROM messages AS m LEFT JOIN message_meta AS d ON d.message_id = m.id
		WHERE NOT EXISTS (SELECT 1 FROM message_party AS p WHERE p.seq = d.seq)`)[0]
}

func TestBacklog(t *testing.T) {
	t.Run("R3-004 what a killed process had not filed lies in the inbox after the next start", func(t *testing.T) {
		s := openTest(t, nil)
		var ids []hub.EnvelopeID
		for range 20 {
			ids = append(ids, put(t, s))
		}
		dir := killed(t, s)
		if got, want := unfiledIn(t, dir), "20"; got != want {
			t.Fatalf("unfiled: got %s, want %s", got, want)
		}
		again := openAt(t, dir, nil)
		view(t, again, func(r hub.Reader) error { wantLists(t, r, ids, ids); return nil })
		if got, want := unfiledIn(t, dir), "0"; got != want {
			t.Errorf("unfiled after the start: got %s, want %s", got, want)
		}
		if err := again.Check(context.Background()); err != nil {
			t.Error(err)
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
		view(t, again, func(r hub.Reader) error {
			wantLists(t, r, []hub.EnvelopeID{unread, effect.ID}, []hub.EnvelopeID{read, unread, effect.ID})
			if p, err := r.Party(read, "bob"); err != nil || p.State != hub.PartyRead {
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
		kept, gone := put(t, s), put(t, s)
		if err := s.Settle(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := raw(t, filepath.Dir(s.path)).db.Exec(`DELETE FROM messages WHERE id = '` + string(gone) + `'`); err != nil {
			t.Fatal(err)
		}
		ids := []hub.EnvelopeID{kept, put(t, s), put(t, s)}
		again := openAt(t, killed(t, s), nil)
		view(t, again, func(r hub.Reader) error {
			wantLists(t, r, ids, ids)
			page, err := r.Query(hub.Query{Viewer: "bob", Text: "printer", Limit: 9})
			if len(page.Messages) != len(ids) {
				t.Errorf("found by its words: got %d, want %d", len(page.Messages), len(ids))
			}
			return err
		})
	})
	t.Run("a view sees a message once, however often it is filed meanwhile", func(t *testing.T) {
		s := openTest(t, nil)
		ids := []hub.EnvelopeID{put(t, s), put(t, s)}
		view(t, s, func(r hub.Reader) error {
			wantLists(t, r, ids, ids)
			update(t, s, func(tx hub.Tx) error { return tx.PutParty(ids[0], "bob", hub.PartyDelivered, hub.PartyUnread) })
			wantLists(t, r, ids, ids)
			if err := s.Settle(context.Background()); err != nil {
				t.Fatal(err)
			}
			put(t, s)
			wantLists(t, r, ids, ids)
			for _, id := range ids {
				if p, err := r.Party(id, "bob"); err != nil || p.State != hub.PartyUnread {
					t.Errorf("party: got %v, %v, want %s", p, err, hub.PartyUnread)
				}
			}
			return nil
		})
	})
	t.Run("what was acknowledged lies in the inbox at once while others send and file", func(t *testing.T) {
		s := openTest(t, nil)
		var wg sync.WaitGroup
		for c := range 8 {
			to := hub.AgentID(fmt.Sprintf("agent-%d", c))
			wg.Go(func() {
				for i := range 40 {
					m, parties := benchMessage(testIDs, "ada", to)
					err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.AddMessage(m, parties) })
					if i%4 == c%4 {
						err = errors.Join(err, s.Settle(context.Background()))
					}
					err = errors.Join(err, s.View(context.Background(), func(r hub.Reader) error {
						page, err := r.Inbox(to, hub.InboxFilter{Limit: 100, Now: m.CreatedAt})
						if got, want := len(page.Messages), i+1; got != want {
							t.Errorf("inbox of %s: got %d, want %d", to, got, want)
						}
						return err
					}))
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
	t.Run("what is not ordinary is filed at once", func(t *testing.T) {
		for name, change := range map[string]func(*hub.Message, []hub.Party) []hub.Party{
			"held":        func(_ *hub.Message, p []hub.Party) []hub.Party { p[1].State = hub.PartyHeld; return p },
			"to everyone": func(m *hub.Message, p []hub.Party) []hub.Party { m.To = []hub.AgentID{hub.Everyone}; return p },
			"to oneself":  func(m *hub.Message, p []hub.Party) []hub.Party { m.To = []hub.AgentID{m.From}; return p[:1] },
			"to others":   func(_ *hub.Message, p []hub.Party) []hub.Party { p[1].Agent = "cleo"; return p },
		} {
			s := openTest(t, nil)
			m, parties := benchMessage(testIDs, "ada", "bob")
			parties = change(&m, parties)
			update(t, s, func(tx hub.Tx) error { return tx.AddMessage(m, parties) })
			dir := killed(t, s)
			if got, want := unfiledIn(t, dir), "0"; got != want {
				t.Errorf("%s: %s unfiled, want %s", name, got, want)
			}
			for _, store := range []*Store{s, openAt(t, dir, nil)} {
				view(t, store, func(r hub.Reader) error {
					got, err := r.Parties(m.ID)
					for i := range got {
						got[i].Hidden = false
					}
					if !sameParties(got, parties) {
						t.Errorf("%s: got %v, want %v", name, got, parties)
					}
					return err
				})
			}
		}
	})
	t.Run("messages of one instant keep their order when they are filed", func(t *testing.T) {
		s := openTest(t, nil)
		at := hub.At(time.Now())
		var ids []hub.EnvelopeID
		for i := range 12 {
			m, parties := benchMessage(testIDs, "ada", "bob")
			m.ID, m.CreatedAt = hub.EnvelopeID(fmt.Sprintf("message-%02d", i)), at // no counter to go by
			ids = append(ids, m.ID)
			update(t, s, func(tx hub.Tx) error { return tx.AddMessage(m, parties) })
			if i%5 == 3 {
				if err := s.Settle(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			view(t, s, func(r hub.Reader) error { wantLists(t, r, ids, ids); return nil })
		}
	})
	t.Run("a message that another program removed is not missed when it would be filed", func(t *testing.T) {
		s := openTest(t, nil)
		gone := put(t, s)
		var kept []hub.EnvelopeID
		for range 2 * rowsAtOnce { // which are written together
			kept = append(kept, put(t, s))
		}
		if err := raw(t, filepath.Dir(s.path)).db.Exec(`DELETE FROM messages WHERE id = '` + string(gone) + `'`); err != nil {
			t.Fatal(err)
		}
		view(t, s, func(r hub.Reader) error { wantLists(t, r, kept, kept); return nil })
		if err := s.Settle(context.Background()); err != nil {
			t.Fatal(err)
		}
		view(t, s, func(r hub.Reader) error { wantLists(t, r, kept, kept); return nil })
	})
	t.Run("what a function wrote that failed is in nobody's way", func(t *testing.T) {
		s := openTest(t, nil)
		ids := []hub.EnvelopeID{put(t, s)}
		m, parties := benchMessage(testIDs, "ada", "bob")
		no := errors.New("no")
		err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
			if err := tx.AddMessage(m, parties); err != nil {
				return err
			}
			return errors.Join(tx.PutParty(ids[0], "bob", hub.PartyDelivered, hub.PartyUnread), no)
		})
		if !errors.Is(err, no) {
			t.Fatalf("got %v, want %v", err, no)
		}
		view(t, s, func(r hub.Reader) error { wantLists(t, r, ids, ids); return nil })
		update(t, s, func(tx hub.Tx) error { return tx.AddMessage(m, parties) })
		ids = append(ids, m.ID)
		view(t, s, func(r hub.Reader) error { wantLists(t, r, ids, ids); return nil })
	})
	t.Run("what waits is indexed when nobody comes", func(t *testing.T) {
		s := openAt(t, t.TempDir(), &Options{patience: time.Nanosecond})
		dir := filepath.Dir(s.path)
		var ids []hub.EnvelopeID
		for range 3 {
			ids = append(ids, put(t, s))
		}
		for s.left.Load() < 3 {
			runtime.Gosched()
		}
		if got, want := unfiledIn(t, dir), "0"; got != want {
			t.Errorf("%s unfiled, want %s", got, want)
		}
		view(t, s, func(r hub.Reader) error { wantLists(t, r, ids, ids); return nil })
	})
	t.Run("a long line is filed in lots and seen as a whole", func(t *testing.T) {
		s := openTest(t, nil)
		var ids []hub.EnvelopeID
		add := func(n int) {
			update(t, s, func(tx hub.Tx) error {
				for range n {
					m, parties := benchMessage(testIDs, "ada", "bob")
					ids = append(ids, m.ID)
					if err := tx.AddMessage(m, parties); err != nil {
						return err
					}
				}
				return nil
			})
		}
		add(lotSize)
		add(shelfSize / 2)
		update(t, s, func(tx hub.Tx) error { // one of a shelf and one of the tail
			return errors.Join(tx.PutParty(ids[7], "bob", hub.PartyFailed, hub.PartyUnread),
				tx.PutParty(ids[lotSize+7], "bob", hub.PartyFailed, hub.PartyUnread))
		})
		inbox := slices.Delete(slices.Clone(ids), lotSize+7, lotSize+8)
		inbox = slices.Delete(inbox, 7, 8)
		view(t, s, func(old hub.Reader) error {
			wantLists(t, old, inbox, ids)
			update(t, s, func(w hub.Tx) error { return w.(*tx).indexLot() })
			wantLists(t, old, inbox, ids)
			view(t, s, func(r hub.Reader) error { wantLists(t, r, inbox, ids); return nil })
			return nil
		})
		if got, want := s.came.Load()-s.left.Load(), int64(shelfSize/2); got != want {
			t.Errorf("%d wait, want %d", got, want)
		}
		again := openAt(t, killed(t, s), nil)
		view(t, again, func(r hub.Reader) error {
			wantLists(t, r, inbox, ids)
			page, err := r.Query(hub.Query{Viewer: "ada", Text: "printer", Limit: 5000})
			if got, want := len(page.Messages), len(ids); got != want {
				t.Errorf("found by its words: got %d, want %d", got, want)
			}
			return err
		})
	})
}
