package server_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// A desk is a hub with a queue, and a person who works in the repository of the queue.
type desk struct {
	*landingRepo
	ctx      context.Context
	hub      *running
	operator *rpc.Client
	n        int // of the last branch
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{landingRepo: newLandingRepo(t)}
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(2*time.Minute))
	t.Cleanup(cancel)
	d.ctx = ctx
	d.write("doc.txt", "doc\n")
	d.commit("doc")
	o := unlimited()
	o.Roots = []string{filepath.Dir(d.dir)}
	o.Checks = server.Checks{Program: program(t)}
	d.hub = start(t, o)
	d.operator = d.hub.as(d.hub.operator)
	return d
}

// change plants a branch that changes doc.txt and adds a file, and returns the name of that file.
func (d *desk) change(branch string) string {
	d.t.Helper()
	d.n++
	added := fmt.Sprintf("new%d.txt", d.n)
	d.plant([]plantedBranch{{name: branch, files: map[string]string{"doc.txt": fmt.Sprint("doc ", d.n, "\n"), added: "added\n"}}})
	return added
}

// land queues a branch and returns its entry when it has an outcome.
func (d *desk) land(branch string) hub.LandingEntry {
	d.t.Helper()
	got := must(rpc.Call(d.ctx, d.operator, api.Land, api.LandParams{Ref: branch, Repo: d.dir}))(d.t)
	return d.outcome(got.Entries[0].ID)
}

// outcome waits until an entry is neither queued nor tried.
func (d *desk) outcome(id hub.LandingID) hub.LandingEntry {
	d.t.Helper()
	for _, e := range d.settle(d.ctx, d.operator) {
		if e.ID == id {
			return e
		}
	}
	d.t.Fatalf("no entry %s", id)
	return hub.LandingEntry{}
}

// everything returns the content of all files of the working tree, and the index.
func (d *desk) everything(dir string) string {
	d.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.Name() == ".git" {
			if e.IsDir() && err == nil {
				return filepath.SkipDir
			}
			return err
		}
		if e.Type().IsRegular() {
			text, err := os.ReadFile(path)
			fmt.Fprintf(&b, "%s %s\n", path, text)
			return err
		}
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return b.String() + d.git("-C", dir, "ls-files", "--stage")
}

// TestLandingLeavesFilesOfAPerson lands while a person works in a tree of the target: where the
// landing would touch what is not committed, the entry waits with the reason, nothing changes, and it
// lands once the person is done.
func TestLandingLeavesFilesOfAPerson(t *testing.T) {
	d := newDesk(t)
	d.allow(d.ctx, d.operator, api.LandingParams{By: hub.LandingAuto})
	linked := filepath.Join(filepath.Dir(d.dir), "linked")
	tests := []struct {
		name   string
		begin  func(added string)
		reason string
		end    func(added string)
	}{
		{"a changed file", func(string) { d.write("doc.txt", "mine\n") }, "it has changes in doc.txt", func(string) { d.git("checkout", "-q", "doc.txt") }},
		{"a staged file", func(string) {
			d.write("doc.txt", "mine\n")
			d.git("add", "doc.txt")
		}, "it has staged changes in doc.txt", func(string) { d.git("reset", "-q", "--hard") }},
		{"an untracked file in the way", func(added string) { d.write(added, "mine\n") }, "an untracked file is in the way", func(added string) { os.Remove(filepath.Join(d.dir, added)) }},
		{"an ignored file in the way", func(added string) {
			d.write(".git/info/exclude", added+"\n")
			d.write(added, "mine\n")
		}, "an ignored file is in the way", func(added string) { os.Remove(filepath.Join(d.dir, added)) }},
		{"a rebase in progress", func(string) {
			d.git("switch", "-q", "-c", "side")
			d.write("doc.txt", "side\n")
			d.commit("side")
			d.git("switch", "-q", "main")
			d.write("doc.txt", "main\n")
			d.commit("main")
			cmd := exec.Command("git", "rebase", "-q", "side")
			cmd.Dir = d.dir
			cmd.Env = append(os.Environ(), "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@example.com")
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Fatalf("the rebase has no conflict: %s", out)
			}
		}, "a rebase is in progress", func(string) {
			d.git("rebase", "--abort")
			d.git("branch", "-q", "-D", "side")
		}},
		{"a second worktree with the target, and a change there", func(string) {
			d.git("worktree", "add", "-q", "--force", linked, "main")
			if err := os.WriteFile(filepath.Join(linked, "doc.txt"), []byte("mine\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "waits for " + linked + ": it has changes in doc.txt", func(string) {
			d.git("-C", linked, "checkout", "-q", "doc.txt")
		}},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d.t = t
			branch := fmt.Sprint("b", i)
			added := ""
			if strings.HasPrefix(test.name, "a rebase") { // which makes the commit that the branch begins with
				test.begin(added)
				added = d.change(branch)
			} else {
				added = d.change(branch)
				test.begin(added)
			}
			before := d.everything(d.dir)
			head := d.git("rev-parse", "main")
			e := d.land(branch)
			if e.State != hub.EntryWaiting || e.Waits != hub.WaitsForFolder || !strings.Contains(e.Reason, test.reason) {
				t.Fatalf("got %s for %s (%s), want it to wait: %s", e.State, e.Waits, e.Reason, test.reason)
			}
			if after := d.everything(d.dir); after != before || d.git("rev-parse", "main") != head {
				t.Errorf("main moved, or the tree changed from\n%s\nto\n%s", before, after)
			}

			test.end(added)
			if i == 0 { // it lands by itself, too
				for e.State == hub.EntryWaiting {
					must(rpc.Call(d.ctx, d.operator, api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}))(t)
					e = d.outcome(e.ID)
				}
			} else {
				if _, err := rpc.Call(d.ctx, d.operator, api.RetryLanding, api.EntryParams{ID: e.ID}); err != nil && hub.CodeOf(err) != hub.CodeConflict {
					t.Fatal(err) // a conflict: the queue was quicker
				}
				e = d.outcome(e.ID)
			}
			if e.State != hub.EntryLanded || d.git("status", "--porcelain") != "" {
				t.Errorf("afterwards: got %s (%s), the status is %q", e.State, e.Reason, d.git("status", "--porcelain"))
			}
			if text, err := os.ReadFile(filepath.Join(d.dir, added)); err != nil || string(text) != "added\n" {
				t.Errorf("the tree has not the landing: %q (%v)", text, err)
			}
		})
	}

	t.Run("a detached head stays where it is", func(t *testing.T) {
		d.t = t
		d.git("worktree", "remove", linked)
		d.git("checkout", "-q", "--detach")
		d.write("doc.txt", "mine\n")
		d.change("detached")
		before := d.everything(d.dir)
		if e := d.land("detached"); e.State != hub.EntryLanded {
			t.Errorf("got %s (%s)", e.State, e.Reason)
		}
		if after := d.everything(d.dir); after != before {
			t.Errorf("the tree changed from\n%s\nto\n%s", before, after)
		}
	})
}

// Repositories that are not whole: a shallow clone lands; one without commits has no target yet.
func TestLandingInUnusualRepositories(t *testing.T) {
	d := newDesk(t)
	empty := &landingRepo{t: t, dir: filepath.Join(filepath.Dir(d.dir), "empty")}
	d.git("init", "-q", "-b", "main", empty.dir)
	_, err := rpc.Call(d.ctx, d.operator, api.SetLanding, api.LandingParams{Repo: empty.dir, Into: "main"})
	wantCode(t, err, hub.CodeNotFound)

	d.write("doc.txt", "a second commit\n")
	d.commit("second")
	shallow := filepath.Join(filepath.Dir(d.dir), "shallow")
	d.git("clone", "-q", "--depth=1", "file://"+d.dir, shallow)
	d.dir = shallow
	d.allow(d.ctx, d.operator, api.LandingParams{By: hub.LandingAuto})
	d.change("work")
	if e := d.land("work"); e.State != hub.EntryLanded || d.git("status", "--porcelain") != "" {
		t.Errorf("got %s (%s)", e.State, e.Reason)
	}
}
