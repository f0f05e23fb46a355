package records_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// The test binary, started again with these in its environment, is a hub that
// kills itself at a given step of its work.
const (
	childWork = "PARLEY_TEST_WORK"
	childHome = "PARLEY_TEST_HOME"
	childStep = "PARLEY_TEST_STEP"
	childTime = "PARLEY_TEST_TIME"
	childID   = "PARLEY_TEST_ID" // of the message to forget
)

func TestMain(m *testing.M) {
	if os.Getenv(childWork) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child does what the environment says.
func child() error {
	home := os.Getenv(childHome)
	step, err := strconv.Atoi(os.Getenv(childStep))
	if err != nil {
		return err
	}
	at, err := hub.ParseTime(os.Getenv(childTime))
	if err != nil {
		return err
	}
	store, err := sqlite.Open(home, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	deadly := &deadlyStore{Store: store, left: step}
	folders := records.Folders{Trail: filepath.Join(home, "trail"), Archives: filepath.Join(home, "archives")}
	content, err := blobs.Open(filepath.Join(home, "artifacts"), nil)
	if err != nil {
		return err
	}
	rec := records.New(deadly, folders, &records.Options{Clock: func() time.Time { return at.Time }, Artifacts: content})
	switch os.Getenv(childWork) {
	case "archive":
		_, err = rec.Archive(context.Background(), hub.Caller{ID: hub.Self}, records.ArchiveOptions{})
	case "copy":
		err = rec.Copy(context.Background())
	case "forget":
		_, err = rec.Forget(context.Background(), operator, hub.EnvelopeID(os.Getenv(childID)))
	case "export":
		_, err = rec.Export(context.Background(), filepath.Join(home, "export"), func(ctx context.Context, begin func(int) error, emit func(string, []byte) error) error {
			return store.Dump(ctx, begin, func(table string, row []byte) error {
				deadly.step()
				return emit(table, row)
			}, false)
		})
	}
	return err
}

// A deadlyStore ends the process after so many steps: each call is two, one
// before it and one after.
type deadlyStore struct {
	hub.Store
	left int
}

func (s *deadlyStore) step() {
	if s.left--; s.left == 0 {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Kill()
		}
		select {}
	}
}

func (s *deadlyStore) View(ctx context.Context, fn func(hub.Reader) error) error {
	s.step()
	err := s.Store.View(ctx, fn)
	s.step()
	return err
}

func (s *deadlyStore) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	s.step()
	err := s.Store.Update(ctx, d, fn)
	s.step()
	return err
}

// killAt lets a child do some work on a closed world and be killed at a step.
// It reports whether it was.
func (w *world) killAt(work string, step int) bool {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childWork+"="+work, childHome+"="+w.home, childStep+"="+strconv.Itoa(step), childTime+"="+hub.At(w.now).String())
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == -1 {
		return true
	}
	if err != nil {
		w.t.Fatalf("%s to step %d: %v\n%s", work, step, err, out)
	}
	return false
}

// sampled is the stride of a test that is killed at each step, and in make test at one in ten.
const sampled = 0

// eachKill calls check after a child was killed at each of its steps, in a
// world of its own.
func (w *world) eachKill(work string, stride int, check func(c *world)) {
	w.t.Helper()
	killed, enough, isSome := 0, 5, false
	if stride == sampled {
		stride = 1
		if isSome = patience.Sampled(); isSome {
			enough = 1
		}
	}
	for step := 1; ; step += stride {
		if isSome && !patience.Chosen(step, "") {
			continue
		}
		c := w.duplicate(w.t)
		was := c.killAt(work, step)
		c.open()
		check(c)
		if !was {
			break
		}
		killed++
	}
	if killed < enough {
		w.t.Errorf("%s: was killed at %d steps, want more", work, killed)
	}
}

// onSQLite skips a test of a process that is killed, which opens a hub on SQLite.
func onSQLite(t *testing.T) {
	t.Helper()
	if storetest.Postgres() {
		t.Skip("the process that is killed opens a hub on SQLite")
	}
}

func TestKilledArchive(t *testing.T) {
	onSQLite(t)
	patience.NotUnderRace(t)
	w, old := oldWorld(t, 8)
	t.Run("R3-117 a hub that is killed while it archives loses and doubles nothing", func(t *testing.T) {
		w.t = t
		w.eachKill("archive", sampled, func(c *world) {
			c.wantNothingLost(old)
			report, err := c.records.Archive(t.Context(), operator, records.ArchiveOptions{})
			c.must(nil, err)
			c.wantNothingLost(old)
			for id, places := range c.places() {
				if len(places) != 1 {
					t.Errorf("%s is in %v, want one place", id, places)
				}
			}
			c.view(func(r hub.Reader) error {
				left, err := r.MessagesBefore(report.Cutoff.Add(-2*time.Minute), "", 10)
				if len(left) > 0 {
					t.Errorf("%d old messages are left", len(left))
				}
				return err
			})
			c.copy()
			c.wantClean()
		})
	})
}

func TestKilledCopy(t *testing.T) {
	onSQLite(t)
	w := newWorld(t)
	for i := range 5 {
		h := w.propose(fmt.Sprintf("task %d", i), i%2 == 0)
		w.move(w.move(h, hub.HandoffValidating), hub.HandoffAccepted)
	}
	w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
	want := w.clone(t)
	want.copy()
	t.Run("R3-005 a hub that is killed while it copies goes on where the files end", func(t *testing.T) {
		w.t = t
		w.eachKill("copy", 1, func(c *world) {
			c.copy()
			wantTrail(t, c.trailContent(), want.trailContent())
			c.wantClean()
		})
	})
}

func TestKilledExport(t *testing.T) {
	onSQLite(t)
	patience.NotUnderRace(t)
	w, _ := oldWorld(t, 8)
	t.Run("an export that was killed is none, and does not stand in the way of the next", func(t *testing.T) {
		w.t = t
		w.eachKill("export", 23, func(c *world) {
			dir := filepath.Join(c.home, "export")
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
				for _, path := range []string{dir, dir + ".partial"} {
					if err := importInto(t.Context(), path, filepath.Join(c.home, "copy")); hub.CodeOf(err) != hub.CodeNotFound {
						t.Errorf("%s: got %v, want not found", path, err)
					}
				}
				c.export(dir)
			}
			c.must(nil, importInto(t.Context(), dir, filepath.Join(c.home, "copy")))
		})
	})
}

func TestKilledForget(t *testing.T) {
	onSQLite(t)
	patience.NotUnderRace(t)
	w := newWorld(t)
	archived := w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}, Text: strings.Repeat("word ", 1000) + secretText})
	w.copy()
	w.pass(100 * day)
	w.must(w.records.Archive(t.Context(), operator, records.ArchiveOptions{}))
	t.Setenv(childID, string(archived))
	finished := 0
	t.Run("a removal that was killed is finished by the next start", func(t *testing.T) {
		w.t = t
		w.eachKill("forget", sampled, func(c *world) {
			var begun bool
			c.view(func(r hub.Reader) error {
				entries, err := r.Journal(hub.JournalQuery{Subject: string(archived), Limit: 100})
				begun = slices.ContainsFunc(entries, func(e hub.Entry) bool { return e.Action == actions.MessageForgotten })
				return err
			})
			if !begun {
				c.wantClean()
				return // as if the operator had not called
			}
			c.start(func(r hub.Reader) bool { pending, _ := r.Meta("records.removal"); return pending == "" })
			c.wantClean()
			c.close()
			if found := c.holders(); len(found) > 0 {
				t.Errorf("the text is still in %v", found)
			}
			c.open()
			finished++
		})
	})
	if finished < 5 && !patience.Sampled() {
		t.Errorf("%d kills came after the journal entry, want more", finished)
	}
}

// start runs the records as a start of the hub does, until a condition holds.
func (w *world) start(until func(hub.Reader) bool) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), patience.For(time.Minute))
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { w.records.Run(ctx) })
	for done := false; !done; {
		if ctx.Err() != nil {
			w.t.Fatal("what the start should finish is not finished")
		}
		w.view(func(r hub.Reader) error { done = until(r); return nil })
	}
}
