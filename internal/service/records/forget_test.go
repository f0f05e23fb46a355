package records_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
)

const secretText = "xyzzysecret4711"

// holders returns the files of the world that contain the secret.
func (w *world) holders() (found []string) {
	w.t.Helper()
	w.must(nil, filepath.WalkDir(w.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(secretText)) {
			found = append(found, filepath.Base(path))
		}
		return err
	}))
	return found
}

func TestForget(t *testing.T) {
	secret := mailroom.Draft{To: []hub.AgentID{"bob"}, Type: hub.TypeStatusUpdate, Text: "the password is " + secretText}
	for _, tt := range []struct {
		name    string
		prepare func(w *world, id hub.EnvelopeID)
		files   int // that are written again
	}{
		{"not yet in the trail", func(*world, hub.EnvelopeID) {}, 0},
		{"in the open segment", func(w *world, _ hub.EnvelopeID) { w.must(nil, w.records.Copy(t.Context())) }, 1},
		{"in a sealed segment", func(w *world, _ hub.EnvelopeID) {
			sealing := w.recordsWith(w.store, records.Options{Seal: 1})
			w.must(nil, sealing.Copy(t.Context()))
		}, 1},
		{"in an archive and in the trail", func(w *world, _ hub.EnvelopeID) {
			w.must(nil, w.records.Copy(t.Context()))
			w.pass(100 * 24 * time.Hour)
			w.must(w.records.Archive(t.Context(), operator, records.ArchiveOptions{}))
		}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			id := w.send(ada, secret)
			w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}, Type: hub.TypeStatusUpdate, Text: "good morning"})
			tt.prepare(w, id)
			w.wantClean()
			got, err := w.records.Forget(t.Context(), operator, id)
			w.must(nil, err)
			if len(got.Files) != tt.files || got.SHA256 == "" || got.From != "ada" {
				t.Errorf("got %+v, want %d files", got, tt.files)
			}
			if found := w.holders(); len(found) > 0 {
				t.Errorf("while the hub runs, the text is still in %v", found)
			}
			w.wantClean()
			w.must(nil, w.records.Copy(t.Context()))
			w.wantClean()
			again, err := w.records.Forget(t.Context(), operator, id)
			w.must(nil, err)
			if len(again.Files) != 0 || again.SHA256 != got.SHA256 {
				t.Errorf("the second time: got %+v, want no file and the same hash", again)
			}
			w.wantClean()
			w.close()
			if found := w.holders(); len(found) > 0 {
				t.Errorf("the text is still in %v", found)
			}
			w.open()
			w.wantClean()
		})
	}
	t.Run("a long text leaves with its artifact and the readers of that, unless another message names it", func(t *testing.T) {
		w := newWorld(t)
		long := strings.Repeat("word ", 1000) + secretText
		first := w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}, Text: long})
		second := w.send(ada, mailroom.Draft{To: []hub.AgentID{"eve"}, Text: long})
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(long)))
		wantReaders := func(want bool) {
			t.Helper()
			w.view(func(r hub.Reader) error {
				for _, id := range []hub.AgentID{"ada", "bob", "eve"} {
					if got, err := r.ReadsArtifact(sum, id); err != nil || got != want {
						t.Errorf("%s reads it: got %v, %v, want %v", id, got, err, want)
					}
				}
				return nil
			})
		}
		w.copy()
		got, err := w.records.Forget(t.Context(), operator, first)
		w.must(nil, err)
		if len(got.Artifacts) != 0 {
			t.Errorf("removed %v, which another message names", got.Artifacts)
		}
		wantReaders(true)
		got, err = w.records.Forget(t.Context(), operator, second)
		w.must(nil, err)
		if len(got.Artifacts) != 1 || got.Artifacts[0] != sum {
			t.Errorf("removed %v, want %s", got.Artifacts, sum)
		}
		wantReaders(false)
		w.wantClean()
		w.close()
		if found := w.holders(); len(found) > 0 {
			t.Errorf("the text is still in %v", found)
		}
		w.open()
	})
	t.Run("an artifact that an archived message names stays", func(t *testing.T) {
		w := newWorld(t)
		long := strings.Repeat("word ", 1000)
		w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}, Text: long})
		w.copy()
		w.pass(100 * day)
		w.archive(records.ArchiveOptions{})
		got, err := w.records.Forget(t.Context(), operator, w.send(ada, mailroom.Draft{To: []hub.AgentID{"eve"}, Text: long}))
		w.must(nil, err)
		if len(got.Artifacts) != 0 {
			t.Errorf("removed %v, which a message in an archive names", got.Artifacts)
		}
	})
	t.Run("an archive that the hub wrote again is still checked by its sum", func(t *testing.T) {
		w := newWorld(t)
		id := w.send(ada, secret)
		w.copy()
		w.pass(100 * day)
		file := w.archive(records.ArchiveOptions{}).File
		w.must(w.records.Forget(t.Context(), operator, id))
		w.wantClean()
		w.reseal(filepath.Join(w.archives(), file))
		w.wantChanged(file)
	})
	t.Run("a removed text that is recorded nowhere is found", func(t *testing.T) {
		w := newWorld(t)
		id := w.send(ada, secret)
		w.must(nil, w.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.ForgetText(id) }))
		got, err := w.records.Verify(t.Context())
		w.must(nil, err)
		if len(got.Findings) != 1 || got.Findings[0].What != "its text is missing, but no journal row records that it was removed" {
			t.Errorf("findings: %v", got.Findings)
		}
	})
	t.Run("a text that is left in a file is found, and another call removes it", func(t *testing.T) {
		w := newWorld(t)
		id := w.send(ada, secret)
		w.must(nil, w.records.Copy(t.Context()))
		noTrail := records.New(w.store, records.Folders{}, &records.Options{Clock: w.clock})
		w.must(noTrail.Forget(t.Context(), operator, id))
		got, err := w.records.Verify(t.Context())
		w.must(nil, err)
		if len(got.Findings) != 1 {
			t.Errorf("findings: %v, want the line of the trail", got.Findings)
		}
		w.must(w.records.Forget(t.Context(), operator, id))
		w.wantClean()
	})
	t.Run("only the operator may", func(t *testing.T) {
		w := newWorld(t)
		id := w.send(ada, secret)
		for _, c := range []hub.Caller{ada, bob, {ID: "ed", Auditor: true}} {
			if _, err := w.records.Forget(t.Context(), c, id); hub.CodeOf(err) != hub.CodeDenied {
				t.Errorf("%s: got %v, want a refusal", c.ID, err)
			}
		}
	})
}
