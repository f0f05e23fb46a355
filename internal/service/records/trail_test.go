package records_test

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// segment returns the first segment of the trail.
func (w *world) segment() string { return filepath.Join(w.trail(), firstSegment) }

const firstSegment = "segment-000000000001.jsonl"

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

func TestTrail(t *testing.T) {
	s := tell(t)
	t.Run("R3-005 every entry has a line, in order, after a header", func(t *testing.T) {
		lines := s.lines(s.segment())
		if lines[0] != `{"format":"parley-segment","version":1}`+"\n" {
			t.Errorf("header: got %s", lines[0])
		}
		var got []hub.Entry
		for _, l := range lines[1:] {
			var line struct{ Entry hub.Entry }
			if err := json.Unmarshal([]byte(l), &line); err != nil {
				t.Fatal(err)
			}
			got = append(got, line.Entry)
		}
		if want := s.entries(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("entries:\ngot  %v\nwant %v", got, want)
		}
	})
	t.Run("a line has its members in a fixed order, and the envelope as it was sent", func(t *testing.T) {
		row := s.rowOf(actions.MessageSent, 2)
		e := s.entries()[row-1]
		var m hub.Message
		s.view(func(r hub.Reader) (err error) { m, err = r.Message(s.rich); return err })
		m.Status, m.UpdatedAt = hub.StatusPending, hub.Time{}
		envelope, err := m.Envelope.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"entry":{"seq":%d,"at":"%s","actor":"ada","action":"message.sent","subject":"%s","outcome":"ok","facts":%s,"hash":"%s"},"envelope":%s}`+"\n",
			row, e.At, s.rich, e.Facts, e.Hash, envelope)
		if got := s.lines(s.segment())[row]; got != want {
			t.Errorf("line:\ngot  %s\nwant %s", got, want)
		}
		if !strings.Contains(want, `"summary":"<&> ü"`) {
			t.Errorf("the payload was changed: %s", want)
		}
	})
	t.Run("R3-065 the trail has packages, but not those that are restricted", func(t *testing.T) {
		lines := strings.Join(s.lines(s.segment()), "")
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
			s.trail(): 0o700, s.segment(): 0o600, filepath.Join(s.trail(), "head.json"): 0o600,
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

func TestTrailRecovers(t *testing.T) {
	patience.NotUnderRace(t)
	s := tell(t)
	want := s.trailContent()
	size := len(want[firstSegment])
	lastLine := len(s.lines(s.segment())[len(s.lines(s.segment()))-1])
	lineBefore := len(s.lines(s.segment())[len(s.lines(s.segment()))-2])
	t.Run("a file that is torn anywhere in its last lines is completed", func(t *testing.T) {
		c := s.cloned(t)
		for cut := size - lastLine - lineBefore; cut <= size; cut += 7 {
			c.must(nil, os.WriteFile(c.segment(), []byte(want[firstSegment][:cut]), 0o600))
			c.must(nil, c.recordsWith(c.store, records.Options{}).Copy(t.Context()))
			wantTrail(t, c.trailContent(), want)
		}
		c.wantClean()
	})
	t.Run("lines that were written though the cursor did not move are not doubled", func(t *testing.T) {
		c := s.cloned(t)
		for _, cursor := range []int64{0, 5, 20, int64(len(c.entries())) - 1} {
			c.update(func(tx hub.Tx) error { return tx.PutCursor("records.trail", cursor) })
			c.must(nil, c.recordsWith(c.store, records.Options{}).Copy(t.Context()))
			wantTrail(t, c.trailContent(), want)
			c.wantClean()
		}
	})
	for _, tt := range []struct {
		name   string
		change func(c *world)
	}{
		{"a file that is gone is written again", func(c *world) { c.must(nil, os.Remove(c.segment())) }},
		{"a trail that is gone is written again", func(c *world) { c.must(nil, os.RemoveAll(c.trail())) }},
		{"a file that is empty is written again", func(c *world) { c.must(nil, os.WriteFile(c.segment(), nil, 0o600)) }},
		{"a file that has become shorter is completed", func(c *world) {
			c.edit(c.segment(), func(b []byte) []byte { return b[:bytes.IndexByte(b[len(b)/2:], '\n')+len(b)/2+1] })
		}},
		{"a head that is gone is written again", func(c *world) { c.must(nil, os.Remove(filepath.Join(c.trail(), "head.json"))) }},
		{"a header alone is completed", func(c *world) {
			c.edit(c.segment(), func(b []byte) []byte { return b[:bytes.IndexByte(b, '\n')+1] })
		}},
		{"half a header is written again", func(c *world) { c.edit(c.segment(), func(b []byte) []byte { return b[:10] }) }},
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
				return append(b, []byte(`{"entry":{"seq":9999,"at":"2026-02-21T09:00:00.000Z","actor":"a","action":"message.read","outcome":"ok","hash":"x"}}`+"\n")...)
			},
			"garbage": func(b []byte) []byte { return append(b, []byte("garbage\n")...) },
			"endless": func(b []byte) []byte { return append(b, bytes.Repeat([]byte("x"), 70<<20)...) },
		} {
			t.Run(name, func(t *testing.T) {
				c := s.cloned(t)
				c.edit(c.segment(), change)
				c.copy()
				got := c.trailContent()
				aside := 0
				for name := range got {
					if strings.Contains(name, firstSegment+".conflict-") {
						aside++
						delete(got, name)
						c.wantFound(name + ": it was set aside because it does not match the journal")
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

func TestTrailSeals(t *testing.T) {
	w := newWorld(t)
	w.records = w.recordsWith(w.store, records.Options{Seal: 2000})
	for range 5 {
		w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		w.copy()
	}
	content := w.trailContent()
	names := func(w *world) []string {
		names, err := filepath.Glob(filepath.Join(w.trail(), "segment-*"))
		w.must(nil, err)
		return names
	}
	t.Run("a segment that has become long is sealed and the next begun", func(t *testing.T) {
		if got := len(names(w)); got != 5 {
			t.Errorf("segments: got %d, want 5", got)
		}
		if a := w.wantClean(); a.Lines != len(w.entries()) {
			t.Errorf("lines: got %d, want %d", a.Lines, len(w.entries()))
		}
		lines := w.lines(names(w)[1])
		header, seal := lines[0], lines[len(lines)-1]
		before := w.entries()[w.rowOf(actions.MessageSent, 2)-2]
		if want := fmt.Sprintf(`{"format":"parley-segment","version":1,"after":%d,"hash":%q}`+"\n", before.Seq, before.Hash); header != want {
			t.Errorf("header: got %s, want %s", header, want)
		}
		last := w.entries()[before.Seq+1]
		sum := sha256.Sum256([]byte(strings.Join(lines[:len(lines)-1], "")))
		want := fmt.Sprintf(`{"seal":{"first":%d,"last":%d,"hash":%q,"entries":2,"messages":0,"rows":0,"sha256":"%x"}}`+"\n", before.Seq+1, last.Seq, last.Hash, sum)
		if seal != want {
			t.Errorf("seal: got %s, want %s", seal, want)
		}
	})
	t.Run("a trail that ends in a sealed segment goes on after it", func(t *testing.T) {
		c := w.clone(t)
		c.copy()
		wantTrail(t, c.trailContent(), content)
		c.pass(time.Minute)
		c.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		c.copy()
		all := names(c)
		if got := len(c.lines(all[len(all)-1])); len(all) != 6 || got != 2 {
			t.Errorf("lines in the new segment: got %d, want a header and one entry", got)
		}
		c.edit(all[5], func(b []byte) []byte { return b[:20] })
		c.must(nil, c.recordsWith(c.store, records.Options{}).Copy(t.Context()))
		c.wantClean()
	})
	t.Run("half a seal is written again", func(t *testing.T) {
		c := w.clone(t)
		c.edit(names(c)[4], func(b []byte) []byte { return b[:len(b)-20] })
		c.pass(time.Minute)
		c.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		c.must(nil, c.recordsWith(c.store, records.Options{Seal: 2000}).Copy(t.Context()))
		if a := c.wantClean(); len(names(c)) != 5 || a.Lines != len(c.entries()) {
			t.Errorf("got %d segments and %d lines", len(names(c)), a.Lines)
		}
	})
	for _, tt := range []struct {
		name string
		do   func(c *world, all []string)
		want string
	}{
		{"a segment that is gone is missed", func(c *world, all []string) { c.must(nil, os.Remove(all[0])) },
			"segment-#: the line for journal row 1 is missing"},
		{"a line taken out of a sealed segment", func(c *world, all []string) {
			c.edit(all[1], func(b []byte) []byte {
				lines := strings.SplitAfter(string(b), "\n")
				return []byte(strings.Join(slices.Delete(lines, 1, 2), ""))
			})
		}, "segment-# line 3: it cannot be read: the seal does not match the lines before it"},
		{"a seal taken away", func(c *world, all []string) {
			c.edit(all[1], func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] })
		}, "segment-# cannot be read after line #: it ends without a seal"},
		{"a seal changed", func(c *world, all []string) {
			c.edit(all[1], func(b []byte) []byte { return bytes.Replace(b, []byte(`"entries":2`), []byte(`"entries":3`), 1) })
		}, "segment-# line 4: it cannot be read: the seal does not match the lines before it"},
		{"a header changed", func(c *world, all []string) {
			c.edit(all[4], func(b []byte) []byte { return bytes.Replace(b, []byte(`"hash":"`), []byte(`"hash":"0`), 1) })
		}, "segment-# line 1: it does not name journal row #, the last one before the segment"},
		{"lines after a seal", func(c *world, all []string) {
			c.edit(all[1], func(b []byte) []byte { return append(b, b[:bytes.IndexByte(b, '\n')+1]...) })
		}, "segment-# line 5: it cannot be read: it is not an entry, message, row or seal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := w.clone(t)
			tt.do(c, names(c))
			findings := c.verify().Findings
			if !slices.ContainsFunc(findings, func(f records.Finding) bool {
				return sameBut(strings.Replace(f.String(), ": it cannot be read after", " cannot be read after", 1), tt.want)
			}) {
				t.Errorf("findings: got %v, want %s", findings, tt.want)
			}
		})
	}
}

// TestOldTrail opens a home with the trail of the first version.
func TestOldTrail(t *testing.T) {
	old := func(t *testing.T) *story {
		c := tell(t).cloned(t) // whose records have not begun
		c.must(nil, os.RemoveAll(c.trail()))
		c.update(func(tx hub.Tx) error { return tx.PutCursor("records.trail", 0) })
		for _, family := range []string{"messages", "handoffs"} {
			c.must(nil, os.MkdirAll(filepath.Join(c.trail(), family), 0o700))
			var lines bytes.Buffer
			for _, e := range c.entries() {
				if strings.HasPrefix(string(e.Action), strings.TrimSuffix(family, "s")+".") {
					raw, err := json.Marshal(e)
					c.must(nil, err)
					lines.Write(append(raw, '\n'))
				}
			}
			lines.WriteString(`{"seq":1,"torn`)
			c.must(nil, os.WriteFile(filepath.Join(c.trail(), family, family+".jsonl"), lines.Bytes(), 0o600))
		}
		return c
	}
	t.Run("it is checked, and then gives way to segments", func(t *testing.T) {
		c := old(t)
		if a := c.wantClean(); len(a.Unchecked) != 1 || !strings.Contains(a.Unchecked[0], "trail of an earlier version") {
			t.Errorf("unchecked: got %q, want the old trail", a.Unchecked)
		}
		c.copy()
		if got := slices.Sorted(maps.Keys(c.trailContent())); !slices.Equal(got, []string{"head.json", firstSegment}) {
			t.Errorf("files: got %v", got)
		}
		c.wantClean()
	})
	t.Run("a file that contradicts the journal is set aside and found", func(t *testing.T) {
		c := old(t)
		c.edit(filepath.Join(c.trail(), "messages", "messages.jsonl"), func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"actor":"ada"`), []byte(`"actor":"eve"`), 1)
		})
		c.copy()
		c.wantFound("messages.jsonl.conflict-old: it was set aside because it does not match the journal")
	})
}

func TestTrailRuns(t *testing.T) {
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
		after(1100 * time.Millisecond)
		if got := head(); got != 1 {
			t.Errorf("after a second: got head %d, want 1", got)
		}
		for range 8 { // within the second after that copy
			start()
			after(100 * time.Millisecond)
		}
		if got := head(); got != 1 {
			t.Errorf("while entries gather: got head %d, want 1", got)
		}
		for range 4 {
			start()
			after(100 * time.Millisecond)
		}
		if got := head(); got < 9 || got > 12 {
			t.Errorf("after the next second: got head %d, want about 10", got)
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
