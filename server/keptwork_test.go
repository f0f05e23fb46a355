package server_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/keptwork"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/server"
)

// command runs a command of an agent in a folder with the questions of its guard. It returns the
// answer before the command, which is not run if that denies it.
func (w *sharedTree) command(agent hub.AgentID, dir, command string) reservation.Answer {
	w.t.Helper()
	q := reservation.Question{Tree: dir, Paths: []string{}, Kind: reservation.Edit, Session: "s-" + string(agent), Command: command}
	answer := must(rpc.Call(w.t.Context(), w.as(w.keys[agent]), api.AskFiles, q))(w.t)
	if answer.Decision == reservation.Deny {
		return answer
	}
	w.shellIn(dir, command)
	q.Kind = reservation.After
	after := must(rpc.Call(w.t.Context(), w.as(w.keys[agent]), api.AskFiles, q))(w.t)
	answer.Notes = append(answer.Notes, after.Notes...)
	return answer
}

// shellIn runs a command as a user would.
func (w *sharedTree) shellIn(dir, command string) {
	w.t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.root, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

func (w *sharedTree) kept() []keptwork.Row {
	w.t.Helper()
	return must(rpc.Call(w.t.Context(), w.as(w.operator), api.ListKeptWork, api.KeptParams{All: true}))(w.t).Kept
}

func (w *sharedTree) content(name string) string {
	raw, err := os.ReadFile(filepath.Join(w.root, name))
	if err != nil {
		return "missing"
	}
	return string(raw)
}

func (w *sharedTree) back(key string, r keptwork.Request) (keptwork.Back, error) {
	w.t.Helper()
	return rpc.Call(w.t.Context(), w.as(key), api.BringBack, r)
}

// mail returns the messages of an agent as one text.
func (w *sharedTree) mail(key string) string {
	w.t.Helper()
	got := must(rpc.Call(w.t.Context(), w.as(key), api.Inbox, api.InboxParams{}))(w.t)
	raw, err := json.Marshal(got.Messages)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw)
}

func TestKeptWork(t *testing.T) {
	w := newSharedTree(t)
	w.write("repo/clean.sh", "rm -f src/b.txt new.txt\n")
	w.commit("script")
	w.edit("builder", "src/b.txt", "work of builder\n")
	w.write("repo/new.txt", "of a person\n")

	t.Run("a script that removes the work of another agent and of a person is told once, with the line that brings it back", func(t *testing.T) {
		got := w.command("tester", w.repo, "sh clean.sh")
		if got.Decision != reservation.Allow {
			t.Fatalf("answer: got %+v", got)
		}
		kept := w.kept()
		if len(kept) == 0 || kept[0].Lost != 2 || kept[0].Command != "sh clean.sh" || kept[0].Agent != "tester" {
			t.Fatalf("kept: got %+v", kept)
		}
		line := "parley files back " + string(kept[0].ID)
		if got := w.mail(w.operator); strings.Count(got, `"topic":"kept-work"`) != 1 || !strings.Contains(got, line) {
			t.Errorf("mail of the operator: got %s", got)
		}
		if !slices.ContainsFunc(got.Notes, func(n reservation.Note) bool { return strings.Contains(n.Text, line) }) {
			t.Errorf("notes: got %+v", got.Notes)
		}
		w.wantClean()
	})
	t.Run("the last destruction comes back without an id, and can be undone", func(t *testing.T) {
		plan := must(w.back(w.operator, keptwork.Request{Tree: w.repo, Try: true}))(t)
		if len(plan.Files) != 2 || w.content("repo/new.txt") != "missing" {
			t.Errorf("plan: got %+v", plan)
		}
		got := must(w.back(w.operator, keptwork.Request{Tree: w.repo}))(t)
		if len(got.Files) != 2 || w.content("repo/new.txt") != "of a person\n" || w.content("repo/src/b.txt") != "work of builder\n" {
			t.Errorf("back: got %+v, %q, %q", got, w.content("repo/new.txt"), w.content("repo/src/b.txt"))
		}
		w.wantClean()
	})
	t.Run("an agent brings back its own files alone", func(t *testing.T) {
		w.command("tester", w.repo, "sh clean.sh")
		id := w.kept()[0].ID
		if _, err := w.back(w.keys["mallory"], keptwork.Request{ID: id}); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("a stranger: got %v", err)
		}
		if _, err := w.back(w.keys["builder"], keptwork.Request{ID: id, Into: t.TempDir()}); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("into a folder: got %v", err)
		}
		got := must(w.back(w.keys["builder"], keptwork.Request{ID: id}))(t)
		if !slices.Equal(got.Files, []string{"src/b.txt"}) || w.content("repo/new.txt") != "missing" {
			t.Errorf("its own: got %+v", got)
		}
		shown := must(rpc.Call(t.Context(), w.as(w.keys["mallory"]), api.ShowKeptWork, api.KeptID{ID: id}))(t)
		if len(shown.Content) != 0 {
			t.Errorf("a stranger sees %+v", shown.Content)
		}
	})
	t.Run("an agent that changes its own files while a command of another runs accuses nobody", func(t *testing.T) {
		w.edit("builder", "src/b.txt", "more of builder\n")
		ask := func(agent hub.AgentID, kind reservation.Kind, command string) reservation.Answer {
			q := reservation.Question{Tree: w.repo, Paths: []string{}, Kind: kind, Session: "s-" + string(agent), Command: command}
			return must(rpc.Call(t.Context(), w.as(w.keys[agent]), api.AskFiles, q))(t)
		}
		before := strings.Count(w.mail(w.operator), `"topic":"kept-work"`)
		ask("tester", reservation.Edit, "make test")
		w.now.Add(int64(time.Second))
		w.command("builder", w.repo, "git checkout -q src/b.txt")
		ask("tester", reservation.After, "make test")
		if got := strings.Count(w.mail(w.operator), `"topic":"kept-work"`); got != before {
			t.Errorf("messages: got %d, want %d", got, before)
		}
	})
	t.Run("dropped work is gone", func(t *testing.T) {
		for _, k := range w.kept() {
			must(rpc.Call(t.Context(), w.as(w.operator), api.DropKeptWork, api.KeptID{ID: k.ID}))(t)
		}
		if got := w.kept(); len(got) != 0 {
			t.Errorf("kept: got %+v", got)
		}
		w.wantClean()
	})
	t.Run("a command that only reads keeps nothing", func(t *testing.T) {
		w.command("tester", w.repo, "git status && ls")
		if got := w.kept(); len(got) != 0 {
			t.Errorf("kept: got %+v", got)
		}
	})
}

// linked makes a linked working tree of the repository.
func (w *sharedTree) linked(name string) string {
	w.t.Helper()
	at := filepath.Join(w.root, name)
	w.git("worktree", "add", "-q", at, "-b", name)
	return at
}

func TestGuardOfEveryTreeInReach(t *testing.T) {
	tests := []struct{ from, command string }{
		{"linked", "cd ../repo && git reset --hard"},
		{"linked", "git -C ../repo reset -q --hard"},
		{"linked", "git --git-dir=../repo/.git --work-tree=../repo checkout -f"},
		{"linked", "rm -rf ../repo/src"},
		{"linked", "sed -i s/work/x/ ../repo/src/b.txt"},
		{"linked", "echo x > ../repo/src/b.txt"},
		{"linked", "F=../repo/src/b.txt; echo x > $F"},
		{"linked", "for f in ../repo/src/b.txt; do rm $f; done"},
		{".", "rm -rf repo/src"},
		{".", "cd repo && git checkout ."},
		{".", "find repo -name b.txt -delete"},
		{"repo", "git checkout-index -f -a"},
		{"repo", "git read-tree -u --reset HEAD"},
		{"repo", "git switch -c other"},
		{"repo", "env -C src rm b.txt"},
	}
	for _, tt := range tests {
		t.Run(tt.from+": "+tt.command, func(t *testing.T) {
			w := newSharedTree(t)
			w.linked("linked")
			w.edit("builder", "src/b.txt", "work of builder\n")
			got := w.command("tester", filepath.Join(w.root, tt.from), tt.command)
			if got.Decision != reservation.Deny || w.content("repo/src/b.txt") != "work of builder\n" {
				t.Errorf("got %+v, %q", got, w.content("repo/src/b.txt"))
			}
		})
	}
	t.Run("from outside of every root", func(t *testing.T) {
		w := newSharedTree(t)
		w.edit("builder", "src/b.txt", "work of builder\n")
		if got := w.command("tester", t.TempDir(), "rm -rf "+w.repo+"/src"); got.Decision != reservation.Deny {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("the same commands in the agent's own tree go on", func(t *testing.T) {
		w := newSharedTree(t)
		linked := w.linked("linked")
		w.edit("builder", "src/b.txt", "work of builder\n")
		for _, command := range []string{"git reset -q --hard", "rm -rf src && git checkout -q .", "git switch -q -c other", "echo x > src/b.txt", "git stash -q && git stash pop -q", "git clean -fdq"} {
			if got := w.command("tester", linked, command); got.Decision != reservation.Allow {
				t.Errorf("%s: got %+v", command, got)
			}
		}
	})
	t.Run("an entry of the stash that another made is not dropped", func(t *testing.T) {
		w := newSharedTree(t)
		w.write("repo/a.txt", "of a person\n")
		w.git("stash", "push", "-q")
		w.edit("builder", "src/b.txt", "work of builder\n")
		for _, command := range []string{"git stash drop", "git stash pop", "git stash clear"} {
			if got := w.command("tester", w.repo, command); got.Decision != reservation.Deny {
				t.Errorf("%s: got %+v", command, got)
			}
		}
	})
}

func TestOneMessageForOneCommand(t *testing.T) {
	w := newSharedTree(t)
	for _, name := range []string{"1.txt", "2.txt", "3.txt", "4.txt"} {
		w.write("repo/"+name, "x\n")
	}
	w.commit("files")
	for _, name := range []string{"1.txt", "2.txt", "3.txt", "4.txt"} {
		w.edit("builder", name, "mine\n")
	}
	if got := w.command("tester", w.repo, "git checkout ."); got.Decision != reservation.Deny || len(got.Denied) != 4 {
		t.Fatalf("answer: got %+v", got)
	}
	if got := w.mail(w.keys["builder"]); strings.Count(got, "tester waits for") != 1 {
		t.Errorf("mail of the holder: got %s", got)
	}
	w.commit("done")
	w.server.SweepFiles(t)
	if got := w.mail(w.keys["tester"]); strings.Count(got, "free") != 1 {
		t.Errorf("mail of the waiting agent: got %s", got)
	}
}

func TestKeptWorkIsSwitchedOff(t *testing.T) {
	w := newSharedTree(t, func(o *server.Options) {
		off := false
		o.Repositories = []server.Repository{{Path: filepath.Join(o.Roots[0], "repo"), KeptWork: server.KeptWork{Enabled: &off}}}
	})
	w.write("repo/a.txt", "changed\n")
	w.command("tester", w.repo, "git checkout .")
	if got := w.kept(); len(got) != 0 {
		t.Errorf("kept: got %+v", got)
	}
}
