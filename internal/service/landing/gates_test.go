package landing_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/landing"
)

// A try is one way to a gate, and what it must come to.
type try struct {
	name   string
	policy landing.Setting
	do     func(w *world) hub.LandingID
	want   hub.LandingState
}

// tried runs tries, and returns those that ended otherwise.
func tried(t *testing.T, all []try) (wrong int) {
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.policy)
			id := c.do(w)
			w.turn()
			e := w.entry(id)
			if e.State != c.want {
				wrong++
				t.Errorf("got %s (%s), want %s", e.State, e.Reason, c.want)
			}
			w.saysNext(e)
		})
	}
	return wrong
}

// saysNext wants an answer without a yes to name each missing part, who supplies it and the next step,
// in a few bytes.
func (w *world) saysNext(e hub.LandingEntry) {
	w.Helper()
	size := len(e.Reason)
	for _, m := range e.Missing {
		size += len(m.What) + len(m.Who) + len(m.Next)
		if m.What == "" || m.Who == "" || m.Next == "" {
			w.Errorf("%s lacks a part: %+v", e.ID, m)
		}
	}
	if isForPerson := e.Waits == hub.WaitsForReview || e.Waits == hub.WaitsForOperator; isForPerson && !slices.Contains(strings.Fields(e.Missing[0].Next), string(e.ID)) {
		w.Errorf("%s: the next step names no entry: %q", e.ID, e.Missing[0].Next)
	}
	isOpen := e.State == hub.EntryWaiting || e.State == hub.EntryReturned
	if isOpen && len(e.Missing) == 0 {
		w.Errorf("%s is %s and says nothing", e.ID, e.State)
	}
	if size > 1500 {
		w.Errorf("%s answers with %d bytes", e.ID, size)
	}
}

const pieceID = hub.HandoffID("01960000-0000-7000-8000-00000000000a")

// withPiece gives the branch work the handoff of ada, which asks for rex.
func (w *world) withPiece() {
	w.good("work")
	w.work.pieces[pieceID] = landing.Piece{
		Subject: landing.Subject{Handoff: pieceID}, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", "work"), Branch: "work", Owner: "ada", Title: "login", Review: "rex", Asker: "planner",
		Missing: "it is not completed",
	}
}

// colluding lands a branch as the handoff that another agent gave to bob, for which it named rex as the
// reviewer, and rex approves it.
func (w *world) colluding(branch string) hub.LandingID {
	w.Helper()
	w.work.pieces[pieceID] = landing.Piece{
		Subject: landing.Subject{Handoff: pieceID}, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", branch), Branch: branch, Owner: "bob", Title: "login", Review: "rex", Asker: "ada", IsDone: true,
	}
	e, err := w.Land(w.ctx, bob, landing.Request{Handoff: pieceID})
	w.must(err)
	for range 2 { // what it takes back of others is known once it was tried
		w.turn()
		if v, err := w.Review(w.ctx, string(e.ID)); err == nil {
			w.read(rex, v.ID)
			w.Give(w.ctx, rex, string(e.ID), approve)
		}
	}
	return e.ID
}

// Every kind of evidence that is absent, of another name, of another commit, older, or made by the
// author: no yes.
func TestNoYesWithoutEvidence(t *testing.T) {
	auto := plain
	byRex := landing.Setting{Checks: []string{"test"}, Review: "rex", By: hub.LandingAuto}
	red := func(w *world, name string) hub.LandingID {
		w.branch(name, map[string]string{"mod/" + name: "broken\n"})
		return w.land(ada, name).ID
	}
	approved := func(w *world, as hub.Caller, id hub.LandingID) {
		v, err := w.Review(w.ctx, string(id))
		w.must(err)
		w.read(as, v.ID)
		w.Give(w.ctx, as, string(id), approve)
	}
	tries := []try{
		{"check absent: none is required and none is named", auto, func(w *world) hub.LandingID {
			p := w.policy
			p.Checks = []string{}
			w.must(w.store.Update(w.ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.WriteLandings().PutPolicy(p) }))
			w.good("a")
			return w.land(ada, "a").ID
		}, hub.EntryWaiting},
		{"check misspelt: the policy names one that is not there", auto, func(w *world) hub.LandingID {
			w.check.known = []landing.Check{{Name: "tests"}}
			w.good("a")
			return w.land(ada, "a").ID
		}, hub.EntryWaiting},
		{"check of another name is green beside the red one", auto, func(w *world) hub.LandingID {
			w.check.known = []landing.Check{{Name: "test"}, {Name: "lint", Required: true}}
			w.check.commands = map[string]string{"lint": "exit 0"}
			return red(w, "a")
		}, hub.EntryReturned},
		{"check required, which the policy does not name", landing.Setting{NoChecks: new(true), By: hub.LandingAuto}, func(w *world) hub.LandingID {
			w.check.known = []landing.Check{{Name: "test", Required: true}}
			return red(w, "a")
		}, hub.EntryReturned},
		{"check passed on the branch alone, not on the state that will be", auto, func(w *world) hub.LandingID {
			w.branch("a", map[string]string{"pair/1.a": "x\n"})
			w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"pair/1.b": "x\n"}})
			return w.land(ada, "a").ID
		}, hub.EntryReturned},
		{"check that cannot run", auto, func(w *world) hub.LandingID {
			w.check.fails = hub.Errorf(hub.CodeNotEnabled, "test", "no sandbox")
			w.good("a")
			return w.land(ada, "a").ID
		}, hub.EntryWaiting},
		{"concern: no check concerns the change", auto, func(w *world) hub.LandingID {
			w.check.when = map[string]string{"test": "src/"}
			return red(w, "a")
		}, hub.EntryWaiting},
		{"review absent", byRex, func(w *world) hub.LandingID { w.good("a"); return w.land(ada, "a").ID }, hub.EntryWaiting},
		{"review of another agent", byRex, func(w *world) hub.LandingID {
			w.good("a")
			id := w.land(ada, "a").ID
			approved(w, bob, id)
			return id
		}, hub.EntryWaiting},
		{"review by the author", byRex, func(w *world) hub.LandingID {
			w.good("a")
			id := w.land(rex, "a").ID
			approved(w, rex, id)
			return id
		}, hub.EntryWaiting},
		{"review by a co-author", byRex, func(w *world) hub.LandingID {
			w.repo.write(commitOf{branch: "a", from: "refs/heads/main", trailer: "Co-authored-by: rex <rex@localhost>", files: map[string]string{"mod/a": "ok\n"}})
			id := w.land(ada, "a").ID
			approved(w, rex, id)
			return id
		}, hub.EntryWaiting},
		{"review of an older commit", byRex, func(w *world) hub.LandingID {
			w.good("a")
			id := w.land(ada, "a").ID
			approved(w, rex, id)
			w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/more": "ok\n"}})
			return w.land(ada, "a").ID
		}, hub.EntryWaiting},
		{"review of another branch with another content", byRex, func(w *world) hub.LandingID {
			w.good("a")
			w.good("b")
			approved(w, rex, w.land(ada, "a").ID)
			return w.land(ada, "b").ID
		}, hub.EntryWaiting},
		{"review of a difference that was not fetched", byRex, func(w *world) hub.LandingID {
			w.good("a")
			id := w.land(ada, "a").ID
			w.Give(w.ctx, rex, string(id), approve)
			return id
		}, hub.EntryWaiting},
		{"review that a package asks for, by its branch", auto, func(w *world) hub.LandingID { w.withPiece(); return w.land(bob, "work").ID }, hub.EntryWaiting},
		{"review that a package asks for, by its commit", auto, func(w *world) hub.LandingID {
			w.withPiece()
			return w.land(bob, w.repo.git("", "rev-parse", "work")).ID
		}, hub.EntryWaiting},
		{"review that a package asks for, by the same patch", auto, func(w *world) hub.LandingID {
			w.withPiece()
			w.repo.write(commitOf{branch: "picked", from: "refs/heads/main", author: "x", files: map[string]string{"mod/work": "ok\n"}})
			return w.land(ada, "picked").ID
		}, hub.EntryWaiting},
		{"yes of the operator absent", landing.Setting{Checks: []string{"test"}}, func(w *world) hub.LandingID { w.good("a"); return w.land(ada, "a").ID }, hub.EntryWaiting},
		{"taken back: the work of others", auto, func(w *world) hub.LandingID {
			w.aliceLands()
			w.repo.write(commitOf{branch: "bob", from: "refs/heads/bob", merge: "refs/heads/main"})
			return w.land(bob, "bob").ID
		}, hub.EntryWaiting},
		{"judge: script of the check changed", auto, func(w *world) hub.LandingID {
			w.branch("a", map[string]string{"test.sh": "exit 0\n"})
			return w.land(ada, "a").ID
		}, hub.EntryWaiting},
		{"judge: script of the check changed, approved by its author", auto, func(w *world) hub.LandingID {
			w.branch("a", map[string]string{"test.sh": "exit 0\n"})
			id := w.land(ada, "a").ID
			approved(w, ada, id)
			return id
		}, hub.EntryWaiting},
		{"judge: script of the check changed, with the word for another commit", auto, func(w *world) hub.LandingID {
			w.branch("a", map[string]string{"test.sh": "set -e\n"})
			w.approve(operator, string(w.land(ada, "a").ID))
			w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"test.sh": "exit 0\n"}})
			return w.land(ada, "a").ID
		}, hub.EntryWaiting},
		{"judge: script of the check changed, queued before the check was", landing.Setting{NoChecks: new(true), By: hub.LandingAuto}, func(w *world) hub.LandingID {
			w.branch("a", map[string]string{"test.sh": "exit 0\n"})
			w.check.blind = true
			id := w.land(ada, "a").ID
			w.check.blind = false
			return id
		}, hub.EntryWaiting},
		{"judge: script of the check changed, approved by the reviewer that an agent named", auto, func(w *world) hub.LandingID {
			w.branch("a", map[string]string{"test.sh": "exit 0\n"})
			return w.colluding("a")
		}, hub.EntryWaiting},
		{"judge: script of the check changed, approved before the check was added", byRex, func(w *world) hub.LandingID {
			w.branch("a", map[string]string{"test.sh": "exit 0\n"})
			w.check.blind = true
			id := w.land(ada, "a").ID
			w.approve(rex, string(id))
			w.check.blind = false
			return id
		}, hub.EntryWaiting},
		{"fewer tests, approved by the reviewer that an agent named", auto, func(w *world) hub.LandingID {
			w.check.command = testCommand + `; echo "tests=$(ls tests | wc -l)"`
			w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"tests/two": "2\n"}})
			w.branch("a", map[string]string{"tests/two": ""})
			return w.colluding("a")
		}, hub.EntryWaiting},
		{"taken back: the work of others, approved by the reviewer that an agent named", auto, func(w *world) hub.LandingID {
			w.aliceLands()
			w.repo.write(commitOf{branch: "bob", from: "refs/heads/bob", merge: "refs/heads/main"})
			return w.colluding("bob")
		}, hub.EntryWaiting},
		{"check older: of an earlier commit of the branch", auto, func(w *world) hub.LandingID {
			w.good("a")
			w.check.Run(w.ctx, landing.CheckRun{Names: []string{"test"}, Commit: w.commit("a")})
			w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/a": "broken\n"}})
			return w.land(ada, "a").ID
		}, hub.EntryReturned},
		{"review misspelt: the policy names a reviewer that is not there", auto, func(w *world) hub.LandingID {
			p := w.policy
			p.Review = "rexx"
			w.must(w.store.Update(w.ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.WriteLandings().PutPolicy(p) }))
			w.good("a")
			return w.land(ada, "a").ID
		}, hub.EntryWaiting},
		{"review asked for after the change was queued", auto, func(w *world) hub.LandingID {
			w.good("a")
			id := w.land(ada, "a").ID
			w.set(landing.Setting{Review: "rex"})
			return id
		}, hub.EntryWaiting},
		{"yes asked for after the change was queued", auto, func(w *world) hub.LandingID {
			w.good("a")
			id := w.land(ada, "a").ID
			w.set(landing.Setting{By: hub.LandingOperator})
			return id
		}, hub.EntryWaiting},
		{"fewer tests", auto, func(w *world) hub.LandingID {
			w.check.command = testCommand + `; echo "tests=$(ls tests | wc -l)"`
			w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"tests/two": "2\n"}})
			w.branch("a", map[string]string{"tests/two": ""})
			return w.land(ada, "a").ID
		}, hub.EntryWaiting},
		{"taken back: undo by an agent", auto, func(w *world) hub.LandingID {
			e := w.aliceLands()
			undo, err := w.Undo(w.ctx, ada, e.ID, "")
			w.must(err)
			return undo.ID
		}, hub.EntryWaiting},
		{"word of a person for another commit", auto, func(w *world) hub.LandingID {
			id := red(w, "a")
			_, err := w.Waive(w.ctx, operator, id, "test", "hotfix")
			w.must(err)
			w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/more": "broken\n"}})
			return w.land(ada, "a").ID
		}, hub.EntryReturned},
		{"contract that does not hold", auto, func(w *world) hub.LandingID {
			w.Service = landing.New(w.store, w.repo, w.check, w.mail, &landing.Options{Clock: w.clock(), Contracts: broken("the contract User is not agreed")})
			w.worker = w.NewWorker(w.policy)
			w.good("a")
			return w.land(ada, "a").ID
		}, hub.EntryReturned},
	}
	if wrong := tried(t, tries); wrong > 0 {
		t.Errorf("%d tries got further than allowed", wrong)
	}
	for _, q := range landing.Questions {
		if !slices.ContainsFunc(tries, func(c try) bool { return strings.HasPrefix(c.name, q.Name) }) {
			t.Errorf("no try without: %s", q.Name)
		}
	}
}

// Honest users: no wrong no.
func TestHonestUsersLand(t *testing.T) {
	auto := plain
	repeat := 1
	wrong := tried(t, []try{
		{"a single developer, with one repository and no project", landing.Setting{Checks: []string{"test"}}, func(w *world) hub.LandingID { w.good("a"); return w.land(operator, "a").ID }, hub.EntryLanded},
		{"a change of README alone, as init sets it", landing.Setting{Checks: []string{"test"}, By: hub.LandingAuto, UnconcernedLands: new(true)}, func(w *world) hub.LandingID {
			w.check.when = map[string]string{"test": "mod/"}
			w.branch("a", map[string]string{"README": "text\n"})
			return w.land(ada, "a").ID
		}, hub.EntryLanded},
		{"edited tests", auto, func(w *world) hub.LandingID {
			w.branch("a", map[string]string{"tests/one": "another\n"})
			return w.land(ada, "a").ID
		}, hub.EntryLanded},
		{"a script of the check, with the word of the operator", auto, func(w *world) hub.LandingID {
			w.branch("a", map[string]string{"test.sh": "set -e\n"})
			id := w.land(ada, "a").ID
			w.approve(operator, string(id))
			return id
		}, hub.EntryLanded},
		{"a script of the check, which the reviewer of the policy approved", landing.Setting{Checks: []string{"test"}, Review: "rex", By: hub.LandingAuto}, func(w *world) hub.LandingID {
			w.branch("a", map[string]string{"test.sh": "set -e\n"})
			id := w.land(ada, "a").ID
			w.approve(rex, string(id))
			return id
		}, hub.EntryLanded},
		{"a script of the check, which the reviewer of the package and the operator approved", auto, func(w *world) hub.LandingID {
			w.branch("a", map[string]string{"test.sh": "set -e\n"})
			id := w.colluding("a")
			w.approve(operator, string(id))
			return id
		}, hub.EntryLanded},
		{"a person who merges by hand", auto, func(w *world) hub.LandingID {
			w.good("a")
			w.good("b")
			w.repo.write(commitOf{branch: "main", from: "refs/heads/main", merge: "refs/heads/a", author: "Ana", files: map[string]string{"mod/a": "ok\n"}})
			return w.land(ada, "b").ID
		}, hub.EntryLanded},
		{"a hotfix with broken checks, by name", auto, func(w *world) hub.LandingID {
			w.branch("fix", map[string]string{"mod/fix": "broken\n"})
			id := w.land(operator, "fix").ID
			_, err := w.Waive(w.ctx, operator, id, "checks", "the test server is down")
			w.must(err)
			return id
		}, hub.EntryLanded},
		{"a flaky check", landing.Setting{Checks: []string{"test"}, By: hub.LandingAuto, Repeat: &repeat}, func(w *world) hub.LandingID {
			w.check.commands = map[string]string{"test": "[ -e " + w.repo.dir + "/once ] || { touch " + w.repo.dir + "/once; exit 1; }"}
			w.good("a")
			return w.land(ada, "a").ID
		}, hub.EntryLanded},
		{"a repository that is checked elsewhere, opened by name", landing.Setting{NoChecks: new(true), By: hub.LandingAuto}, func(w *world) hub.LandingID {
			w.check.known = []landing.Check{}
			w.good("a")
			return w.land(ada, "a").ID
		}, hub.EntryLanded},
		{"an agent that commits under the person's name, reviewed by another", landing.Setting{Checks: []string{"test"}, Review: "rex", By: hub.LandingAuto}, func(w *world) hub.LandingID {
			w.repo.write(commitOf{branch: "a", from: "refs/heads/main", author: "Ana", files: map[string]string{"mod/a": "ok\n"}})
			id := w.land(ada, "a").ID
			w.approve(rex, string(id))
			return id
		}, hub.EntryLanded},
		{"a branch that merged main", auto, func(w *world) hub.LandingID {
			w.aliceLands()
			w.repo.write(commitOf{branch: "bob", from: "refs/heads/bob", merge: "refs/heads/main", files: map[string]string{"src/alice.go": "new\n", "src/other.go": "new\n"}})
			return w.land(bob, "bob").ID
		}, hub.EntryLanded},
		{"a later change of the same file by another agent", auto, func(w *world) hub.LandingID {
			w.aliceLands()
			w.branch("next", map[string]string{"src/alice.go": "newer\n"})
			return w.land(bob, "next").ID
		}, hub.EntryLanded},
		{"a deliberate way back, begun after the landing", auto, func(w *world) hub.LandingID {
			w.aliceLands()
			w.branch("back", map[string]string{"src/alice.go": "old\n"})
			return w.land(bob, "back").ID
		}, hub.EntryLanded},
		{"the operator's undo", auto, func(w *world) hub.LandingID {
			undo, err := w.Undo(w.ctx, operator, w.aliceLands().ID, "slow")
			w.must(err)
			return undo.ID
		}, hub.EntryLanded},
		{"the operator's commit with the patch of work that an agent wants reviewed", auto, func(w *world) hub.LandingID {
			w.withPiece()
			w.repo.write(commitOf{branch: "mine", from: "refs/heads/main", author: "Ana", files: map[string]string{"mod/work": "ok\n"}})
			return w.land(operator, "mine").ID
		}, hub.EntryLanded},
		{"a repair while the head is red", auto, func(w *world) hub.LandingID {
			w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"mod/base": "broken\n"}})
			w.good("waits")
			w.land(ada, "waits")
			w.branch("repair", map[string]string{"mod/base": "ok\n"})
			return w.land(bob, "repair").ID
		}, hub.EntryLanded},
	})
	if wrong > 0 {
		t.Errorf("%d honest users got a wrong no", wrong)
	}
}

var update = flag.Bool("update", false, "write the table of questions into the documentation")

// The documentation lists all questions of the gate, as the code does.
func TestQuestionsOfThePage(t *testing.T) {
	const page = "../../../docs/landing.md"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const head = "| question | a yes needs | else | what lets it through, by the operator alone |\n|---|---|---|---|\n"
	table := head
	for _, q := range landing.Questions {
		table += "| " + strings.Join([]string{q.Name, q.Asked, q.Else, q.Opened}, " | ") + " |\n"
	}
	text := string(raw)
	if strings.Contains(text, table) {
		return
	}
	before, after, ok := strings.Cut(text, head)
	if !*update || !ok {
		t.Fatalf("%s does not have the table; run with -update. Want:\n%s", page, table)
	}
	for strings.HasPrefix(after, "| ") {
		_, after, _ = strings.Cut(after, "\n")
	}
	if err := os.WriteFile(page, []byte(before+table+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
