package records_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
)

func (w *world) messagesFile() string { return filepath.Join(w.trail(), "messages", "messages.jsonl") }
func (w *world) handoffsFile() string { return filepath.Join(w.trail(), "handoffs", "handoffs.jsonl") }

// trailContent returns every file of the trail by its name.
func (w *world) trailContent() map[string]string {
	w.t.Helper()
	content := map[string]string{}
	w.must(nil, filepath.WalkDir(w.trail(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		content[strings.TrimPrefix(path, w.trail()+"/")] = string(b)
		return err
	}))
	return content
}

func wantTrail(t *testing.T, got, want map[string]string) {
	t.Helper()
	for _, names := range []map[string]string{got, want} {
		for name := range names {
			if got[name] != want[name] {
				t.Errorf("%s:\ngot  %q\nwant %q", name, got[name], want[name])
			}
		}
	}
}

func TestFiles(t *testing.T) {
	s := tell(t)
	t.Run("R3-005 every entry about messages and handoffs has a line, in order", func(t *testing.T) {
		for family, path := range map[string]string{"message.": s.messagesFile(), "handoff.": s.handoffsFile()} {
			var got, want []hub.Entry
			for _, l := range s.lines(path) {
				var e hub.Entry
				if err := json.Unmarshal([]byte(l), &e); err != nil {
					t.Fatal(err)
				}
				got = append(got, e)
			}
			for _, e := range s.entries() {
				if strings.HasPrefix(string(e.Action), family) {
					want = append(want, e)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s:\ngot  %v\nwant %v", path, got, want)
			}
		}
	})
	t.Run("a line has its members in a fixed order, and what was sent as it was sent", func(t *testing.T) {
		row := s.rowOf(hub.ActionMessageSent, 2)
		e := s.entries()[row-1]
		var m hub.Message
		s.view(func(r hub.Reader) (err error) { m, err = r.Message(s.rich); return err })
		m.Status, m.UpdatedAt = hub.StatusPending, hub.Time{}
		envelope, err := m.Envelope.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"seq":%d,"at":"%s","actor":"ada","action":"message.sent","subject":"%s","outcome":"ok","facts":%s,"hash":"%s","message":%s}`+"\n",
			row, e.At, s.rich, e.Facts, e.Hash, envelope)
		if lines := s.lines(s.messagesFile()); !slices.Contains(lines, want) {
			t.Errorf("lines:\ngot  %s\nwant %s", strings.Join(lines, ""), want)
		}
		if !strings.Contains(want, `"summary":"<&> ü"`) {
			t.Errorf("the payload was changed: %s", want)
		}
	})
	t.Run("R3-065 the trail has packages, but not those that are restricted", func(t *testing.T) {
		lines := strings.Join(s.lines(s.handoffsFile()), "")
		if !strings.Contains(lines, `"restricted":true}}`) || strings.Contains(lines, `"package":{"task":{"title":"vault"`) {
			t.Error("the restricted package is in the trail, or is not marked")
		}
		if want := `"package":` + string(s.open.Package); !strings.Contains(lines, want) {
			t.Errorf("lines: got %s, want %s in them", lines, want)
		}
	})
	t.Run("R3-130 the same journal gives the same bytes", func(t *testing.T) {
		c := s.cloned(t)
		want := c.trailContent()
		c.must(nil, os.RemoveAll(c.trail()))
		c.copy()
		wantTrail(t, c.trailContent(), want)
		c.wantClean()
	})
	t.Run("a copy of what is copied changes nothing", func(t *testing.T) {
		want := s.trailContent()
		s.copy()
		s.close()
		s.world.open()
		s.copy()
		wantTrail(t, s.trailContent(), want)
	})
	t.Run("only its owner can read the trail", func(t *testing.T) {
		for path, want := range map[string]os.FileMode{
			s.trail(): 0o700, filepath.Dir(s.messagesFile()): 0o700, s.messagesFile(): 0o600, s.handoffsFile(): 0o600, filepath.Join(s.trail(), "head.json"): 0o600,
		} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: got %v (%v), want %v", path, info.Mode(), err, want)
			}
		}
	})
	t.Run("the head is the newest entry", func(t *testing.T) {
		want, err := s.journal.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(s.trail(), "head.json"))
		if err != nil {
			t.Fatal(err)
		}
		var got hub.Head
		if err := json.Unmarshal(raw, &got); err != nil || got != want || got.Seq != int64(len(s.entries())) {
			t.Errorf("head: got %+v (%v), want %+v", got, err, want)
		}
	})
}

func TestFilesRecover(t *testing.T) {
	s := tell(t)
	want := s.trailContent()
	size := len(want["messages/messages.jsonl"])
	lastLine := len(s.lines(s.messagesFile())[len(s.lines(s.messagesFile()))-1])
	lineBefore := len(s.lines(s.messagesFile())[len(s.lines(s.messagesFile()))-2])
	t.Run("a file that is torn anywhere in its last lines is completed", func(t *testing.T) {
		c := s.cloned(t)
		for cut := size - lastLine - lineBefore; cut <= size; cut += 7 {
			c.must(nil, os.WriteFile(c.messagesFile(), []byte(want["messages/messages.jsonl"][:cut]), 0o600))
			c.must(nil, c.recordsWith(c.store, records.Options{}).Copy(t.Context()))
			wantTrail(t, c.trailContent(), want)
		}
		c.wantClean()
	})
	t.Run("lines that were written though the cursor did not move are not doubled", func(t *testing.T) {
		c := s.cloned(t)
		for _, cursor := range []int64{0, 5, 20, int64(len(c.entries())) - 1} {
			c.update(func(tx hub.Tx) error {
				if err := tx.PutMeta("journal.files", `{}`); err != nil {
					return err
				}
				return tx.PutCursor("journal.files", cursor)
			})
			c.must(nil, c.recordsWith(c.store, records.Options{}).Copy(t.Context()))
			wantTrail(t, c.trailContent(), want)
			c.wantClean()
		}
	})
	for _, tt := range []struct {
		name   string
		change func(c *world)
	}{
		{"a file that is gone is written again", func(c *world) { c.must(nil, os.Remove(c.handoffsFile())) }},
		{"a trail that is gone is written again", func(c *world) { c.must(nil, os.RemoveAll(c.trail())) }},
		{"a file that is empty is written again", func(c *world) { c.must(nil, os.WriteFile(c.messagesFile(), nil, 0o600)) }},
		{"a file that has become shorter is completed", func(c *world) {
			c.edit(c.messagesFile(), func(b []byte) []byte { return b[:bytes.IndexByte(b[len(b)/2:], '\n')+len(b)/2+1] })
		}},
		{"one torn line alone is completed", func(c *world) {
			c.edit(c.messagesFile(), func(b []byte) []byte { return b[:10] })
		}},
		{"a head that is gone is written again", func(c *world) { c.must(nil, os.Remove(filepath.Join(c.trail(), "head.json"))) }},
		{"a cursor that is no cursor begins anew", func(c *world) {
			c.update(func(tx hub.Tx) error { return tx.PutMeta("journal.files", `null`) })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := s.cloned(t)
			tt.change(c.world)
			c.copy()
			wantTrail(t, c.trailContent(), want)
			c.wantClean()
		})
	}
	t.Run("a file that says something else than the store is set aside", func(t *testing.T) {
		for name, change := range map[string]func(b []byte) []byte{
			"changed": func(b []byte) []byte {
				i := bytes.LastIndexByte(b[:len(b)-1], '\n')
				return append(b[:i:i], bytes.Replace(b[i:], []byte(`"hash":"`), []byte(`"hash":"0`), 1)...)
			},
			"ahead": func(b []byte) []byte {
				return append(b, []byte(`{"seq":9999,"at":"2026-02-21T09:00:00.000Z","actor":"a","action":"message.read","outcome":"ok","hash":"x"}`+"\n")...)
			},
			"garbage": func(b []byte) []byte { return append(b, []byte("garbage\n")...) },
			"endless": func(b []byte) []byte { return append(b, bytes.Repeat([]byte("x"), 10<<20)...) },
		} {
			t.Run(name, func(t *testing.T) {
				c := s.cloned(t)
				c.edit(c.messagesFile(), change)
				c.copy()
				got := c.trailContent()
				aside := 0
				for name := range got {
					if strings.Contains(name, "messages.jsonl.conflict-") {
						aside++
						delete(got, name)
						c.wantFound(name + ": it was set aside, because it does not fit the journal")
					}
				}
				if aside != 1 {
					t.Errorf("files set aside: got %d, want 1", aside)
				}
				wantTrail(t, got, want)
			})
		}
	})
	t.Run("a disk that cannot be written is reported, and the trail goes on later", func(t *testing.T) {
		c := s.cloned(t)
		c.must(nil, os.RemoveAll(c.trail()))
		c.must(nil, os.WriteFile(c.trail(), nil, 0o600))
		if err := c.records.Copy(t.Context()); hub.CodeOf(err) != hub.CodeDegraded {
			t.Errorf("got %v, want degraded", err)
		}
		c.must(nil, os.Remove(c.trail()))
		c.copy()
		wantTrail(t, c.trailContent(), want)
	})
}

func TestFilesSeal(t *testing.T) {
	w := newWorld(t)
	w.records = w.recordsWith(w.store, records.Options{Seal: 2000})
	for range 5 {
		w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		w.copy()
	}
	w.propose("parser", false)
	w.copy()
	content := w.trailContent()
	sealed := 0
	for name := range content {
		if strings.HasPrefix(name, "messages/messages-") {
			sealed++
		}
	}
	t.Run("a file that has become long is sealed and the next begun", func(t *testing.T) {
		if sealed != 5 {
			t.Errorf("sealed files: got %d, want 5", sealed)
		}
		if a := w.wantClean(); a.Lines != 11 {
			t.Errorf("lines: got %d, want 11", a.Lines)
		}
	})
	t.Run("a trail that ends in a sealed file goes on after it", func(t *testing.T) {
		w.close()
		w.open()
		w.copy()
		wantTrail(t, w.trailContent(), content)
		w.pass(time.Minute)
		w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		w.copy()
		if got := len(w.lines(w.messagesFile())); got != 1 {
			t.Errorf("lines in the new file: got %d, want 1", got)
		}
		w.edit(w.messagesFile(), func(b []byte) []byte { return b[:20] })
		w.must(nil, w.recordsWith(w.store, records.Options{}).Copy(t.Context()))
		w.wantClean()
	})
	t.Run("a sealed file that is gone is missed", func(t *testing.T) {
		c := w.clone(t)
		names, err := filepath.Glob(filepath.Join(c.trail(), "messages", "messages-*"))
		if err != nil || len(names) != 5 {
			t.Fatalf("sealed: got %v (%v)", names, err)
		}
		c.must(nil, os.Remove(names[0]))
		first := c.rowOf(hub.ActionMessageSent, 0)
		c.wantFound(fmt.Sprintf("messages/%s: the line of journal row %d is missing", filepath.Base(names[1]), first),
			fmt.Sprintf("messages/%s: the line of journal row %d is missing", filepath.Base(names[1]), first+1))
	})
}

func TestFilesRun(t *testing.T) {
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlite.Open(home, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		hints := new(bus.Local)
		j := journal.New(store, &journal.Options{Bus: hints})
		dir := filepath.Join(home, "trail")
		files := records.New(store, records.Folders{Trail: dir}, &records.Options{Bus: hints})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { files.Run(ctx); close(done) }()
		synctest.Wait()
		head := func() int64 {
			t.Helper()
			synctest.Wait()
			raw, err := os.ReadFile(filepath.Join(dir, "head.json"))
			if err != nil {
				return 0
			}
			var h hub.Head
			if err := json.Unmarshal(raw, &h); err != nil {
				t.Fatal(err)
			}
			return h.Seq
		}
		start := func() {
			if err := j.Started(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
		}
		after := func(d time.Duration) { <-time.After(d) } // in the time of the bubble

		start()
		if got := head(); got != 0 {
			t.Errorf("at once: got head %d, want none yet", got)
		}
		after(600 * time.Millisecond)
		if got := head(); got != 1 {
			t.Errorf("after a pause: got head %d, want 1", got)
		}
		for range 8 { // without a pause
			start()
			after(100 * time.Millisecond)
		}
		if got := head(); got != 1 {
			t.Errorf("while entries come: got head %d, want 1", got)
		}
		for range 4 {
			start()
			after(100 * time.Millisecond)
		}
		if got := head(); got < 10 || got > 12 {
			t.Errorf("after a second in any case: got head %d, want about 11", got)
		}
		after(time.Second)
		start()
		cancel() // what is left is copied at the end
		<-done
		if got := head(); got != 14 {
			t.Errorf("at the end: got head %d, want 14", got)
		}
	})
}
