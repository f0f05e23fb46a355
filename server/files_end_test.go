package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// begin asks about a command as an agent, and returns a function that runs it and reports its end.
func (w *sharedTree) begin(agent hub.AgentID, command string) (end func() reservation.Answer) {
	w.t.Helper()
	q := reservation.Question{Tree: w.repo, Kind: reservation.Edit, Command: command, Session: "s-" + string(agent)}
	if got := must(rpc.Call(w.t.Context(), w.as(w.keys[agent]), api.AskFiles, q))(w.t); got.Decision != reservation.Allow {
		w.t.Fatalf("%s runs %s: got %+v, want allow", agent, command, got)
	}
	return func() reservation.Answer {
		w.t.Helper()
		w.shell(command)
		q.Kind = reservation.After
		return must(rpc.Call(w.t.Context(), w.as(w.keys[agent]), api.AskFiles, q))(w.t)
	}
}

// shell runs a command in the repository.
func (w *sharedTree) shell(command string) {
	w.t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = w.repo
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.root, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// ends returns the reasons of the journal's entries about ended reservations and violations.
func (w *sharedTree) ends() (out []string) {
	w.t.Helper()
	for _, action := range []actions.Action{actions.ReservationReleased, actions.ReservationViolated} {
		got := must(rpc.Call(w.t.Context(), w.as(w.operator), api.Audit, api.AuditParams{Action: action}))(w.t)
		for _, e := range got.Entries {
			var facts struct{ Path, Why, By string }
			if err := json.Unmarshal(e.Facts, &facts); err != nil {
				w.t.Fatal(err)
			}
			out = append(out, facts.Path+" "+facts.Why+facts.By)
		}
	}
	return out
}

// operatorReads returns the summaries of the hub's messages about files to the operator.
func (w *sharedTree) operatorReads() (out []string) {
	w.t.Helper()
	got := must(rpc.Call(w.t.Context(), w.as(w.operator), api.Inbox, api.InboxParams{Peek: true}))(w.t)
	for _, m := range got.Messages {
		var p struct{ Summary string }
		if err := json.Unmarshal(m.Payload, &p); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, p.Summary)
	}
	return out
}

// TestEndsOfReservations has the file of an agent become as its commit in each way in which that
// happens. Only another agent's command is a violation, after which the file stays reserved.
func TestEndsOfReservations(t *testing.T) {
	t.Parallel()
	const gone = "changes in a.txt are not in the working tree any more and were not committed as they were; the hub saw no agent's command run, so a person or a landing did it"
	const changed = "a.txt, which builder holds, changed while a command of tester ran"
	const violation = changed + "; it is kept: parley files back s1 brings it back"
	run := func(agent hub.AgentID, command string) func(*sharedTree) {
		return func(w *sharedTree) { w.begin(agent, command)() }
	}
	tests := []struct {
		name     string
		does     func(w *sharedTree)
		held     bool
		why      string // in the journal
		holder   string // the note for the holder
		operator string // what the operator reads
	}{
		{"another agent's script restores it", run("tester", "sh undo.sh"), true, "tester", violation, violation},
		{"another agent's make target restores it", run("tester", "make -s undo"), true, "tester", violation, violation},
		{"another agent's alias restores it", run("tester", "git undo"), true, "tester", violation, violation},
		{"another agent's script reads the tree again", run("tester", "sh reset.sh"), true, "tester", violation, violation},
		{"the hub looks while another agent's script runs", func(w *sharedTree) {
			end := w.begin("tester", "sh undo.sh")
			w.shell("sh undo.sh")
			w.server.SweepFiles(w.t)
			end()
		}, true, "tester", changed, changed},
		{"the beginning of the command was not asked about", func(w *sharedTree) {
			w.shell("sh undo.sh")
			q := reservation.Question{Tree: w.repo, Kind: reservation.After, Command: "sh undo.sh", Session: "s-tester"}
			must(rpc.Call(w.t.Context(), w.as(w.keys["tester"]), api.AskFiles, q))(w.t)
		}, true, "tester", changed, changed},

		{"a person commits it", func(w *sharedTree) { w.commit("mine") }, false, "commit", "", ""},
		{"another agent's command commits it as it is", run("tester", "sh commit.sh"), false, "commit", "", ""},
		{"a formatter changes it at the holder's commit", run("builder", "git -c core.hooksPath=hooks commit -q -a -m done"), false, "commit", "", ""},
		{"a formatter changes it at the holder's commit while another agent's command runs", func(w *sharedTree) {
			end := w.begin("tester", "true")
			w.begin("builder", "git -c core.hooksPath=hooks commit -q -a -m done")()
			end()
		}, false, "commit", "", ""},
		{"a formatter changes it at a person's commit", func(w *sharedTree) { w.shell("git -c core.hooksPath=hooks commit -q -a -m done") }, false, "restored", "your " + gone, "builder's " + gone},
		{"the holder edits it back", func(w *sharedTree) { w.edit("builder", "a.txt", "one\n") }, false, "undone", "", ""},
		{"the holder edits it back while another agent's command runs", func(w *sharedTree) {
			end := w.begin("tester", "true")
			w.edit("builder", "a.txt", "one\n")
			end()
		}, false, "undone", "", ""},
		{"the holder's command throws it away", run("builder", "git checkout -q -- a.txt"), false, "undone", "", ""},
		{"the holder's script restores it", run("builder", "sh undo.sh"), false, "undone", "", ""},
		{"a person stashes it", func(w *sharedTree) { w.git("stash", "-q") }, false, "restored", "your " + gone, "builder's " + gone},
		{"a landing brings the tree forward", func(w *sharedTree) {
			w.shell("git stash -q && echo landed > a.txt && git commit -q -a -m landed")
		}, false, "restored", "your " + gone, "builder's " + gone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(tt.name, "make") {
				if _, err := exec.LookPath("make"); err != nil {
					t.Fatal("make is not installed, which also runs the tests")
				}
			}
			w := newSharedTree(t)
			w.write("repo/undo.sh", "git checkout-index -f -a\n")
			w.write("repo/reset.sh", "git read-tree -u --reset HEAD\n")
			w.write("repo/commit.sh", "git commit -q -a -m all\n")
			w.write("repo/Makefile", "undo:\n\tgit checkout-index -f -a\n")
			w.write("repo/hooks/pre-commit", "#!/bin/sh\necho formatted >> a.txt\ngit add a.txt\n")
			if err := os.Chmod(filepath.Join(w.repo, "hooks/pre-commit"), 0o755); err != nil {
				t.Fatal(err)
			}
			w.git("config", "alias.undo", "!git checkout-index -f -a")
			w.commit("scripts")

			w.edit("builder", "a.txt", "two\n")
			tt.does(w)
			w.server.SweepFiles(t)
			want := ""
			if tt.held {
				want = "held a.txt builder"
			}
			if got := strings.Join(w.list(), ", "); got != want {
				t.Errorf("reservations: got %q, want %q", got, want)
			}
			if got := strings.Join(w.ends(), ", "); got != "a.txt "+tt.why {
				t.Errorf("journal: got %q, want %q", got, "a.txt "+tt.why)
			}
			if got := strings.Join(w.operatorReads(), ", "); got != tt.operator {
				t.Errorf("the operator reads %q, want %q", got, tt.operator)
			}
			notes := ""
			for _, n := range w.ask("builder", reservation.Read, "src/b.txt").Notes {
				notes += n.Text
			}
			if notes != tt.holder {
				t.Errorf("the holder reads %q, want %q", notes, tt.holder)
			}
			w.wantClean()

			// The file is refused as long as it is held, and free for another agent afterwards.
			got := w.ask("tester", reservation.Edit, "a.txt")
			if isDenied := got.Decision == reservation.Deny; isDenied != tt.held {
				t.Errorf("another agent: got %+v", got)
			}
		})
	}
}

// TestReadingIsASignOfLife has an agent without hooks only read its inbox: it keeps its files. After
// its last call they are left.
func TestReadingIsASignOfLife(t *testing.T) {
	t.Parallel()
	w := newSharedTree(t)
	w.edit("builder", "a.txt", "two\n")
	for range 4 {
		w.pass(10 * time.Minute)
		w.wantList("held a.txt builder")
		must(rpc.Call(t.Context(), w.as(w.keys["builder"]), api.Inbox, api.InboxParams{}))(t)
	}
	w.pass(16 * time.Minute)
	w.wantList("orphan a.txt builder")
	w.wantClean()
}

// reserve reserves a pattern of the repository as an agent.
func (w *sharedTree) reserve(agent hub.AgentID, pattern string, shared bool) reservation.Grant {
	w.t.Helper()
	p := api.ReserveParams{Request: reservation.Request{Tree: w.repo, Patterns: []string{pattern}, Shared: shared}}
	return must(rpc.Call(w.t.Context(), w.as(w.keys[agent]), api.ReserveFiles, p))(w.t)
}

// reads returns the summaries of the hub's messages to an agent.
func (w *sharedTree) reads(agent hub.AgentID) string {
	w.t.Helper()
	got := must(rpc.Call(w.t.Context(), w.as(w.keys[agent]), api.Inbox, api.InboxParams{}))(w.t)
	raw, err := json.Marshal(got.Messages)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw)
}

// waiting returns the reservations as "holder: agents that wait".
func (w *sharedTree) waiting() (out []string) {
	w.t.Helper()
	got := must(rpc.Call(w.t.Context(), w.as(w.operator), api.ListFiles, reservation.Filter{}))(w.t)
	for _, r := range got.Reservations {
		out = append(out, fmt.Sprint(r.Holder, ": ", r.Waiting))
	}
	return out
}

// TestTwoReservationsOfOnePath has agents reserve one path ahead: the first holds it, the others
// wait in order.
func TestTwoReservationsOfOnePath(t *testing.T) {
	t.Parallel()
	t.Run("the second waits, and has it after the first", func(t *testing.T) {
		w := newSharedTree(t)
		w.reserve("builder", "a.txt", false)
		second, third := w.reserve("tester", "a.txt", false), w.reserve("mallory", "a.txt", false)
		for agent, r := range map[string]reservation.Reserved{"builder has a.txt; you are next": second.Reservations[0], "builder has a.txt; 1 wait before you": third.Reservations[0]} {
			if r.State != hub.ReservationWaiting || reservation.WaitsText(r) != agent {
				t.Errorf("got %+v, want %q", r, agent)
			}
		}
		w.wantList("held a.txt builder", "waiting a.txt tester", "waiting a.txt mallory")
		if got := strings.Join(w.waiting(), "; "); got != "builder: [tester mallory]; tester: []; mallory: []" {
			t.Errorf("waiting: got %q", got)
		}
		if again := w.reserve("tester", "a.txt", false); again.Reservations[0].ID != second.Reservations[0].ID {
			t.Errorf("the second asks again: got %+v, want %+v", again, second)
		}
		w.wantClean()

		// The first may edit, the second may not.
		if got := w.ask("builder", reservation.Edit, "a.txt"); got.Decision != reservation.Allow {
			t.Errorf("the first: got %+v", got)
		}
		if got := w.ask("tester", reservation.Edit, "a.txt"); got.Decision != reservation.Deny || got.Denied[0].Holder != "builder" {
			t.Errorf("the second: got %+v", got)
		}
		must(rpc.Call(t.Context(), w.as(w.keys["builder"]), api.ReleaseFiles, reservation.Release{Tree: w.repo}))(t)
		w.wantList("held a.txt tester", "waiting a.txt mallory")
		if got := w.reads("tester"); !strings.Contains(got, "a.txt is yours now") {
			t.Errorf("the second reads %s", got)
		}
		if got := w.ask("builder", reservation.Edit, "a.txt"); got.Decision != reservation.Deny || got.Denied[0].Holder != "tester" {
			t.Errorf("the first, afterwards: got %+v", got)
		}
		w.wantClean()
	})
	t.Run("an edit has the file that another agent reserves ahead later", func(t *testing.T) {
		w := newSharedTree(t)
		w.edit("builder", "a.txt", "two\n")
		if got := w.reserve("tester", "a.txt", false); got.Reservations[0].State != hub.ReservationWaiting {
			t.Errorf("got %+v", got)
		}
		w.commit("second")
		w.server.SweepFiles(t)
		w.wantList("held a.txt tester")
		w.wantClean()
	})
	t.Run("agents that share it both hold it", func(t *testing.T) {
		w := newSharedTree(t)
		w.reserve("builder", "a.txt", true)
		w.reserve("tester", "a.txt", true)
		w.wantList("held a.txt builder", "held a.txt tester")
	})
	t.Run("patterns that overlap are both held, and the first edit has the file", func(t *testing.T) {
		w := newSharedTree(t)
		w.reserve("builder", "src", false)
		got := w.reserve("tester", "src/*.txt", false)
		if got.Reservations[0].State != hub.ReservationHeld || len(got.Overlaps) != 1 || got.Overlaps[0].Holder != "builder" {
			t.Errorf("got %+v, want a warning", got)
		}
		w.edit("tester", "src/b.txt", "of tester\n")
		if got := w.ask("builder", reservation.Edit, "src/b.txt"); got.Decision != reservation.Deny || got.Denied[0].Holder != "tester" {
			t.Errorf("the second edit: got %+v", got)
		}
		if got := w.ask("mallory", reservation.Edit, "src/new.txt"); got.Decision != reservation.Deny {
			t.Errorf("an agent without a pattern: got %+v", got)
		}
	})
	t.Run("two agents that wait for each other are both told", func(t *testing.T) {
		w := newSharedTree(t)
		w.edit("builder", "a.txt", "two\n")
		w.edit("tester", "src/b.txt", "two\n")
		w.ask("builder", reservation.Edit, "src/b.txt")
		w.ask("tester", reservation.Edit, "a.txt")
		for _, agent := range []hub.AgentID{"builder", "tester"} {
			if got := w.reads(agent); !strings.Contains(got, "builder and tester wait for each other: builder holds a.txt, and tester holds src/b.txt") {
				t.Errorf("%s reads %s", agent, got)
			}
		}
	})
}

// TestDenialsOfFiles reads the texts of denials.
func TestDenialsOfFiles(t *testing.T) {
	t.Parallel()
	t.Run("it names each holder", func(t *testing.T) {
		w := newSharedTree(t)
		w.edit("builder", "a.txt", "two\n")
		w.edit("tester", "src/b.txt", "two\n")
		got := w.ask("mallory", reservation.Edit, "a.txt", "src/b.txt")
		if want := "a.txt is being changed by builder for 1 s, src/b.txt is being changed by tester for 1 s. Ask them with acp_send, or work on something else: you get a message when they are free."; got.Text != want {
			t.Errorf("got %q, want %q", got.Text, want)
		}
		q := reservation.Question{Tree: w.repo, Kind: reservation.Edit, Command: "git checkout ."}
		shell := must(rpc.Call(t.Context(), w.as(w.keys["mallory"]), api.AskFiles, q))(t)
		if !strings.Contains(shell.Text, "builder") || !strings.Contains(shell.Text, "tester") {
			t.Errorf("a command: got %q", shell.Text)
		}
	})
	t.Run("content that the agent says it saw is compared", func(t *testing.T) {
		w := newSharedTree(t)
		w.edit("builder", "a.txt", "two\n")
		w.commit("second")
		seen := func(content string) reservation.Answer {
			sum := sha256.Sum256([]byte(content))
			q := reservation.Question{Tree: w.repo, Kind: reservation.Edit, Paths: []string{"a.txt"}, Seen: map[string]string{"a.txt": hex.EncodeToString(sum[:])}, Session: "s-tester"}
			return must(rpc.Call(t.Context(), w.as(w.keys["tester"]), api.AskFiles, q))(t)
		}
		if got := seen("one\n"); got.Decision != reservation.Deny || got.Reason != reservation.ReasonStale {
			t.Errorf("the content of before: got %+v", got)
		}
		if got := seen("one\n"); got.Decision != reservation.Allow {
			t.Errorf("the second try: got %+v", got)
		}
		must(rpc.Call(t.Context(), w.as(w.keys["tester"]), api.ReleaseFiles, reservation.Release{Tree: w.repo}))(t)
		if got := seen("two\n"); got.Decision != reservation.Allow {
			t.Errorf("the present content: got %+v", got)
		}
	})
}

// TestRevokedAgentFreesItsFiles has an agent lose its last key: its files are free at once, with its
// changes kept.
func TestRevokedAgentFreesItsFiles(t *testing.T) {
	t.Parallel()
	w := newSharedTree(t)
	w.edit("builder", "a.txt", "two\n")
	w.reserve("builder", "src", false)
	w.ask("tester", reservation.Edit, "a.txt")
	must(rpc.Call(t.Context(), w.as(w.operator), api.RevokeKeys, api.AgentParams{ID: "builder"}))(t)
	if got := w.ask("tester", reservation.Edit, "a.txt", "src/b.txt"); got.Decision != reservation.Allow || len(got.Notes) != 1 || got.Notes[0].Kind != reservation.NoteOrphan {
		t.Errorf("got %+v, want both files with a note about the changes that are left", got)
	}
	w.wantClean()
}
