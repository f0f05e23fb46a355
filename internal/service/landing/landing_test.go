package landing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/landing"
)

// branch makes a branch from main with files.
func (w *world) branch(name string, files map[string]string) {
	w.Helper()
	w.repo.write(commitOf{branch: name, from: "refs/heads/main", files: files})
}

// good makes a branch with a module that passes.
func (w *world) good(name string) { w.branch(name, map[string]string{"mod/" + name: "ok\n"}) }

func TestQueue(t *testing.T) {
	t.Run("a good branch lands as a merge commit, and its owner hears of it", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		before := w.head()
		e := w.land(ada, "a")
		w.turn()
		got := w.want(e.ID, hub.EntryLanded, "")
		if got.LandedCommit != w.head() || got.Tries != 1 {
			t.Errorf("got %s after %d tries, want %s after 1", got.LandedCommit, got.Tries, w.head())
		}
		if parents := w.repo.git("", "log", "-1", "--format=%P", "main"); parents != before+" "+e.Commit {
			t.Errorf("parents: got %s", parents)
		}
		mail := w.inbox(ada)
		if len(mail) != 1 || !strings.Contains(mail[0].Summary, "landed in main") {
			t.Errorf("mail: %+v", mail)
		}
	})
	t.Run("good branches are tried together: one run, one merge commit each", func(t *testing.T) {
		w := newWorld(t, plain)
		var ids []hub.LandingID
		for _, name := range []string{"a", "b", "c", "d"} {
			w.good(name)
			ids = append(ids, w.land(ada, name).ID)
		}
		w.turn()
		merges := map[string]bool{}
		for _, id := range ids {
			merges[w.want(id, hub.EntryLanded, "").LandedCommit] = true
		}
		if w.check.runs != 1 || len(merges) != 4 || len(w.repo.heads) != 1 {
			t.Errorf("%d runs, %d merges, %d heads: want 1, 4, 1", w.check.runs, len(merges), len(w.repo.heads))
		}
	})
	for bad := range 4 {
		t.Run(fmt.Sprintf("the culprit at place %d of a batch goes back alone", bad+1), func(t *testing.T) {
			w := newWorld(t, plain)
			var ids []hub.LandingID
			for i := range 4 {
				name := string(rune('a' + i))
				text := "ok\n"
				if i == bad {
					text = "broken\n"
				}
				w.branch(name, map[string]string{"mod/" + name: text})
				ids = append(ids, w.land(ada, name).ID)
			}
			w.turn()
			for i, id := range ids {
				if i != bad {
					w.want(id, hub.EntryLanded, "")
					continue
				}
				e := w.want(id, hub.EntryReturned, "main fails the check test")
				if e.Check != "test" || len(e.Results) == 0 || e.Output == "" {
					t.Errorf("got %+v", e)
				}
			}
			if w.check.runs > 5 {
				t.Errorf("%d runs", w.check.runs)
			}
			returned := returnedMail(w.inbox(ada))
			if len(returned) != 1 || returned[0].Priority != hub.PriorityHigh || !strings.Contains(returned[0].Next, "merge main into your branch") ||
				!strings.Contains(fmt.Sprint(returned[0].Members["output"]), "is broken") || returned[0].Context == nil {
				t.Errorf("mail: %+v", returned)
			}
		})
	}
	for _, c := range []struct {
		name    string
		entries int
		kills   int
		runs    int
	}{
		{"a check that was interrupted runs once more, with the entry alone, and the entry lands", 1, 1, 3},
		{"a batch whose check was interrupted is divided, and all of it lands", 2, 1, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, plain)
			w.check.kills = c.kills
			var ids []hub.LandingID
			for i := range c.entries {
				name := string(rune('a' + i))
				w.good(name)
				ids = append(ids, w.land(ada, name).ID)
			}
			w.turn()
			for _, id := range ids {
				w.want(id, hub.EntryLanded, "")
			}
			if w.check.runs != c.runs { // the head is checked, too
				t.Errorf("%d runs, want %d", w.check.runs, c.runs)
			}
		})
	}
	t.Run("an entry whose check was interrupted twice goes back", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		e := w.land(ada, "a")
		w.check.before = func() { // the head itself is checked in between
			w.check.kills = 0
			if w.check.runs != 1 {
				w.check.kills = 1
			}
		}
		w.turn()
		w.want(e.ID, hub.EntryReturned, "the hub was killed twice while the check test ran")
		if mail := returnedMail(w.inbox(ada)); len(mail) != 1 || !strings.Contains(mail[0].Next, "parley land retry "+string(e.ID)) {
			t.Errorf("mail: %+v", mail)
		}
	})
	t.Run("a conflict with the target goes back with the three texts, without a run", func(t *testing.T) {
		w := newWorld(t, plain)
		w.branch("a", map[string]string{"shared.txt": "one\nA\nthree\n"})
		w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"shared.txt": "one\nMAIN\nthree\n"}})
		e := w.land(ada, "a")
		w.turn()
		got := w.want(e.ID, hub.EntryReturned, "it conflicts with main in shared.txt")
		if !slices.Equal(got.Conflicts, []string{"shared.txt"}) || w.check.runs != 0 || got.Tries != 1 {
			t.Errorf("conflicts %v, %d runs, %d tries", got.Conflicts, w.check.runs, got.Tries)
		}
		mail := w.inbox(ada)
		if len(mail) != 1 || mail[0].Context == nil || len(mail[0].Context.Artifacts) != 1 {
			t.Fatalf("mail: %+v", mail)
		}
		text := w.artifact(ada, mail[0].Context.Artifacts[0].SHA256)
		for _, part := range []string{"two", "MAIN", "A"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is not in %q", part, text)
			}
		}
	})
	t.Run("a conflict with another entry waits until that one has landed", func(t *testing.T) {
		w := newWorld(t, plain)
		w.branch("a", map[string]string{"shared.txt": "one\nA\nthree\n"})
		w.branch("b", map[string]string{"shared.txt": "one\nB\nthree\n"})
		first, second := w.land(ada, "a"), w.land(bob, "b")
		w.turn()
		w.want(first.ID, hub.EntryLanded, "")
		w.want(second.ID, hub.EntryReturned, "it conflicts with main")
	})
	t.Run("a pair that breaks together: the first lands, the second goes back", func(t *testing.T) {
		w := newWorld(t, plain)
		w.branch("a", map[string]string{"pair/1.a": "x\n"})
		w.branch("b", map[string]string{"pair/1.b": "x\n"})
		first, second := w.land(ada, "a"), w.land(bob, "b")
		w.turn()
		w.want(first.ID, hub.EntryLanded, "")
		w.want(second.ID, hub.EntryReturned, "main fails the check test")
	})
	t.Run("a critical entry goes first", func(t *testing.T) {
		w := newWorld(t, landing.Setting{Checks: []string{"test"}, Batch: 1})
		w.good("a")
		w.good("b")
		first := w.land(operator, "a")
		urgent, err := w.Land(w.ctx, operator, landing.Request{Ref: "b", Folder: w.repo.dir, Priority: hub.PriorityCritical})
		w.must(err)
		w.turn()
		if got, want := w.entry(urgent.ID).Head, w.repo.heads[0]; got != want {
			t.Errorf("the critical entry landed at %s, the first head is %s", got, want)
		}
		w.want(first.ID, hub.EntryLanded, "")
		_, err = w.Land(w.ctx, ada, landing.Request{Ref: "b", Folder: w.repo.dir, Priority: hub.PriorityCritical})
		wantCode(t, err, hub.CodeDenied)
	})
	t.Run("a target that is red itself blames nobody: entries wait, the operator is told once", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"mod/base": "broken\n"}})
		e := w.land(ada, "a")
		w.turn()
		w.want(e.ID, hub.EntryWaiting, "main itself fails the check test")
		w.turn()
		if got := w.inbox(operator); len(got) != 1 {
			t.Errorf("the operator got %d messages", len(got))
		}
		w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"mod/base": "ok\n"}})
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("a target that moves meanwhile is taken up again, and nothing of it is lost", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		e := w.land(ada, "a")
		pushed := false
		w.check.before = func() {
			if !pushed {
				pushed = true
				w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"person.txt": "mine\n"}})
			}
		}
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
		if got := w.repo.git("", "show", "main:person.txt"); got != "mine" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("an entry whose files are in the way waits for the folder, others land, and it lands when the folder is clean", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		w.good("b")
		dirty := true
		w.repo.block = func(from, to string) (out landing.Forwarding) {
			names := w.repo.git("", "diff", "--name-only", from, to)
			if dirty && strings.Contains(names, "mod/a") {
				out = landing.Forwarding{Waits: "waits for /src: it has changes in mod/a", Paths: []string{"mod/a"}}
			}
			return out
		}
		blocked, free := w.land(ada, "a"), w.land(bob, "b")
		w.turn()
		w.want(blocked.ID, hub.EntryWaiting, "waits for /src: it has changes in mod/a")
		w.want(free.ID, hub.EntryLanded, "")
		w.turn()
		w.now = w.now.Add(time.Minute)
		w.turn()
		w.turn()
		w.want(blocked.ID, hub.EntryWaiting, "waits for /src")
		if got := w.inbox(operator); len(got) != 1 || !strings.Contains(got[0].Summary, "cannot land in main now: waits for /src") {
			t.Errorf("the operator got %+v", got)
		}
		dirty = false
		w.turn()
		w.want(blocked.ID, hub.EntryLanded, "")
	})
	t.Run("a target that cannot be moved lets entries wait, and the operator is told once", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		e := w.land(ada, "a")
		w.repo.fails = errors.New("the filter lfs cannot get big.bin")
		for range 3 {
			w.turn()
			w.want(e.ID, hub.EntryWaiting, "main cannot be moved: the filter lfs cannot get big.bin")
		}
		if got := w.inbox(operator); len(got) != 1 || !strings.Contains(got[0].Summary, "big.bin") {
			t.Errorf("the operator got %+v", got)
		}
		if w.check.runs != 2 { // on what would be, and on the head while it waits
			t.Errorf("the checks ran %d times", w.check.runs)
		}
		w.repo.fails = nil
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("checks that cannot run let entries wait", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		e := w.land(ada, "a")
		w.check.fails = hub.Errorf(hub.CodeNotEnabled, "test", "checks changed, not trusted: parley check trust")
		w.turn()
		w.want(e.ID, hub.EntryWaiting, "checks changed, not trusted")
		w.check.fails = nil
		w.now = w.now.Add(time.Minute)
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("a commit that the target has already is landed; equal content goes back", func(t *testing.T) {
		w := newWorld(t, plain)
		w.repo.git("", "branch", "old", "main")
		w.branch("same", map[string]string{"mod/x": "ok\n"})
		w.repo.write(commitOf{branch: "main", author: "other", from: "refs/heads/main", files: map[string]string{"mod/x": "ok\n"}})
		there, same := w.land(ada, "old"), w.land(ada, "same")
		w.turn()
		w.want(there.ID, hub.EntryLanded, "main had it already")
		w.want(same.ID, hub.EntryReturned, "it changes nothing in main")
	})
	t.Run("contracts that do not hold return entries with their users", func(t *testing.T) {
		w := newWorld(t, plain)
		s := landing.New(w.store, w.repo, w.check, w.mail, &landing.Options{Clock: func() time.Time { return w.now }, Contracts: broken("contract Get User: not agreed yet: waiting for frontend-app")})
		w.good("a")
		e := w.land(ada, "a")
		w.must(s.NewWorker(w.policy).Turn(w.ctx))
		w.want(e.ID, hub.EntryReturned, "waiting for frontend-app")
	})
	t.Run("the answer names the contracts that were asked, or that there is none", func(t *testing.T) {
		for _, c := range []struct {
			contracts         holding
			asked, isNotAsked bool
		}{{holding{"User@2", "Order@1"}, true, false}, {nil, false, true}} {
			w := newWorld(t, plain)
			s := landing.New(w.store, w.repo, w.check, w.mail, &landing.Options{Clock: w.clock(), Contracts: c.contracts})
			w.good("a")
			e := w.land(ada, "a")
			w.must(s.NewWorker(w.policy).Turn(w.ctx))
			e = w.want(e.ID, hub.EntryLanded, "")
			isNamed := func(v hub.GateEvidence) bool {
				return v.What == "contracts" && v.Evidence == "User@2, Order@1: none is broken"
			}
			if slices.ContainsFunc(e.Asked, isNamed) != c.asked || slices.Contains(e.NotAsked, "contracts: this repository has none") != c.isNotAsked {
				t.Errorf("%v: asked %+v, not asked %q", c.contracts, e.Asked, e.NotAsked)
			}
		}
	})
}

// broken is a contract that does not hold.
type broken string

func (b broken) Broken(context.Context, string, landing.Commit) (string, error) {
	return string(b), nil
}

func (broken) Names(context.Context, string) ([]string, error) { return []string{"User@1"}, nil }

// holding are contracts that hold.
type holding []string

func (holding) Broken(context.Context, string, landing.Commit) (string, error) { return "", nil }

func (h holding) Names(context.Context, string) ([]string, error) { return h, nil }

func returnedMail(all []letter) (out []letter) {
	for _, l := range all {
		if strings.Contains(l.Summary, "did not land") {
			out = append(out, l)
		}
	}
	return out
}

func wantCode(t *testing.T, err error, want hub.Code) {
	t.Helper()
	if got := hub.CodeOf(err); got != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

func TestReturned(t *testing.T) {
	t.Run("a new commit on its branch queues an entry again", func(t *testing.T) {
		w := newWorld(t, plain)
		w.branch("a", map[string]string{"mod/a": "broken\n"})
		e := w.land(ada, "a")
		w.turn()
		w.want(e.ID, hub.EntryReturned, "")
		w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/a": "ok\n"}})
		w.turn()
		if got := w.want(e.ID, hub.EntryLanded, ""); got.Tries != 2 {
			t.Errorf("%d tries", got.Tries)
		}
	})
	t.Run("the same commit is not queued again but by retry", func(t *testing.T) {
		w := newWorld(t, plain)
		w.branch("a", map[string]string{"mod/a": "broken\n"})
		e := w.land(ada, "a")
		w.turn()
		_, err := w.Land(w.ctx, ada, landing.Request{Ref: "a", Folder: w.repo.dir})
		wantCode(t, err, hub.CodeConflict)
		_, err = w.Retry(w.ctx, bob, e.ID)
		wantCode(t, err, hub.CodeDenied)
		again, err := w.Retry(w.ctx, ada, e.ID)
		w.must(err)
		if again.ID != e.ID || again.State != hub.EntryQueued {
			t.Errorf("got %+v", again)
		}
	})
	t.Run("after five times the operator decides", func(t *testing.T) {
		w := newWorld(t, plain)
		w.branch("a", map[string]string{"mod/a": "broken\n"})
		e := w.land(ada, "a")
		w.turn()
		for n := range 5 {
			w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/a": fmt.Sprintf("broken %d\n", n)}})
			w.turn()
		}
		got := w.want(e.ID, hub.EntryWaiting, "it was returned 5 times: the operator decides")
		if got.Waits != hub.WaitsForOperator {
			t.Errorf("waits for %s", got.Waits)
		}
		_, err := w.Retry(w.ctx, ada, e.ID)
		w.must(err)
		w.want(e.ID, hub.EntryWaiting, "the operator decides")
		_, err = w.Retry(w.ctx, operator, e.ID)
		w.must(err)
		w.turn()
		w.want(e.ID, hub.EntryReturned, "main fails")
		w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/a": "broken again\n"}})
		w.turn()
		w.want(e.ID, hub.EntryWaiting, "the operator decides")
	})
}

func TestAuthority(t *testing.T) {
	t.Run("only the operator sets a policy or turns it off", func(t *testing.T) {
		w := newWorld(t, plain)
		_, _, err := w.Set(w.ctx, ada, landing.Setting{Folder: w.repo.dir, Into: "main"})
		wantCode(t, err, hub.CodeDenied)
		_, err = w.Off(w.ctx, ada, w.repo.dir, "")
		wantCode(t, err, hub.CodeDenied)
		w.good("a")
		e := w.land(ada, "a")
		_, err = w.Off(w.ctx, operator, w.repo.dir, "")
		w.must(err)
		w.want(e.ID, hub.EntryCancelled, "landing was turned off")
		_, err = w.Land(w.ctx, ada, landing.Request{Ref: "a", Folder: w.repo.dir})
		wantCode(t, err, hub.CodeNotFound)
	})
	t.Run("unknown checks, reviewers and branches are refused", func(t *testing.T) {
		w := newWorld(t, plain)
		for _, p := range []landing.Setting{{Checks: []string{"lint"}}, {Review: "role:king"}, {By: "me"}, {Batch: 65}} {
			p.Folder, p.Into = w.repo.dir, "main"
			if _, _, err := w.Set(w.ctx, operator, p); err == nil {
				t.Errorf("%+v was accepted", p)
			}
		}
		if _, _, err := w.Set(w.ctx, operator, landing.Setting{Folder: w.repo.dir, Into: "nowhere"}); err == nil {
			t.Error("a branch that does not exist was accepted")
		}
	})
	t.Run("by operator: the entry of an agent waits for a yes", func(t *testing.T) {
		w := newWorld(t, landing.Setting{Checks: []string{"test"}})
		w.good("a")
		e := w.land(ada, "a")
		w.turn()
		w.want(e.ID, hub.EntryWaiting, "waits for the operator")
		if got := w.inbox(operator); len(got) != 1 || got[0].Next != "parley approve l1" {
			t.Errorf("the operator got %+v", got)
		}
		_, err := w.Retry(w.ctx, operator, e.ID)
		w.must(err)
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("agents cancel their own entries", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		e := w.land(ada, "a")
		_, err := w.Cancel(w.ctx, bob, e.ID, "")
		wantCode(t, err, hub.CodeDenied)
		_, err = w.Cancel(w.ctx, ada, e.ID, "")
		w.must(err)
		w.turn()
		w.want(e.ID, hub.EntryCancelled, "cancelled by ada")
		if len(w.repo.heads) != 0 {
			t.Error("it landed")
		}
	})
	t.Run("an entry that is cancelled while it is tried does not land, the others do", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		w.good("b")
		a, b := w.land(ada, "a"), w.land(bob, "b")
		once := false
		w.check.before = func() {
			if !once {
				once = true
				_, err := w.Cancel(w.ctx, ada, a.ID, "not now")
				w.must(err)
			}
		}
		w.turn()
		w.want(a.ID, hub.EntryCancelled, "not now")
		w.want(b.ID, hub.EntryLanded, "")
		if _, err := w.repo.run("", "cat-file", "-e", "main:mod/a"); err == nil {
			t.Error("the cancelled change is in main")
		}
	})
}

func TestUndo(t *testing.T) {
	w := newWorld(t, plain)
	w.good("a")
	w.good("b")
	a, b := w.land(ada, "a"), w.land(bob, "b")
	w.turn()
	w.want(b.ID, hub.EntryLanded, "")
	_, err := w.Undo(w.ctx, bob, a.ID, "")
	wantCode(t, err, hub.CodeDenied)
	undo, err := w.Undo(w.ctx, operator, a.ID, "")
	w.must(err)
	_, err = w.Undo(w.ctx, operator, a.ID, "")
	wantCode(t, err, hub.CodeConflict)
	w.turn()
	w.want(undo.ID, hub.EntryLanded, "")
	if files := w.repo.git("", "ls-tree", "--name-only", "main", "mod/"); files != "mod/b\nmod/base" {
		t.Errorf("main has %q", files)
	}
}
